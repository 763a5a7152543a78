// The planner of a live figure: joins the tables of helpers/figures/sharding/sharded_matmul_costs/plans.py for one mesh into plans, in the order of
// helpers/costs/sharding/matmul_plans.py, and prices each with the traced function. figure_controls.js calls what this hands out.
window.livePlans = ({ plans: t, args: numbers }, compute, box, { text }) => {
  const cell = (table, from, to) => table[from * 11 + to] ?? t.base[from * 11 + to];
  const nine = v => Number(v.toPrecision(9)); // what decides between plans, so that rounding does not
  const notation = (operand, state) => {
    const [name, ...dims] = t.dims[operand];
    return name + t.states[state].replace(/[01]/g, d => dims[d]);
  };
  const steps = route => t.routes[route].map(h => t.hops[h]);

  // Every plan on this mesh: one of the routes for A, for B and for C, and the states at the product.
  function* all({ x, y, a, b, c }) {
    const table = t.patches[x * Math.sqrt(t.patches.length) + y];
    for (const [la, lb, lc, ...cut] of t.locals)
      for (const to_a of cell(table, a, la)) for (const to_b of cell(table, b, lb)) for (const to_c of cell(table, lc, c))
        yield { routes: [to_a, to_b, to_c].map(steps), made: lc, cut };
  }

  function price(plan, args) {
    const rows = [0, 1, 2, 3, 4, 5, 6].map(() => Array(3 * t.longest).fill(0));
    rows[0].fill(t.kinds.length);
    plan.routes.forEach((route, n) => route.forEach((hop, k) => rows.forEach((row, r) => { row[n * t.longest + k] = hop[r]; })));
    const given = [...t.cuts[args.a], ...t.cuts[args.b]];
    return { ...plan, ...compute(...numbers.map(n => args[n]), given, plan.cut, ...rows) };
  }

  // The lines of a plan: what, and seconds (nothing for what is free).
  function lines(plan) {
    const out = plan.routes.map((route, n) => route.map((hop, k) => {
      const kind = t.kinds[hop[0]], dim = hop[8] < 0 ? "" : `,${t.dims[n][1 + hop[8]]}`;
      const what = `${kind}_${hop[7]}${dim} ${notation(n, hop[9])} → ${notation(n, hop[10])}`;
      return [what, kind === "Slice" ? undefined : plan.steps[n * t.longest + k]];
    }));
    const product = [[`multiply locally → ${notation(2, plan.made)}`, plan.math, true], ["HBM traffic of the product", plan.memory, true]];
    return [...out[0], ...out[1], ...product, ...out[2]];
  }

  function show(plans) {
    const written = plans.map(lines), longest = Math.max(...written.flat().map(([, s]) => s ?? 0));
    [0, 1].forEach(n => {
      const body = box.querySelector(`[data-plan="${n}"]`);
      body.hidden = !written[n];
      while (body.rows.length > 1) body.deleteRow(1);
      for (const [what, s] of written[n] ?? []) {
        const row = body.insertRow(), head = document.createElement("th"), bar = document.createElement("span");
        head.scope = "row";
        head.textContent = what;
        bar.className = "live-bar";
        bar.style.width = `${(100 * (s ?? 0)) / longest}%`;
        row.append(head);
        row.insertCell().append(s === undefined ? "free" : text(s, "s"), bar);
      }
    });
  }

  const before = (p, q) => nine(p.lower) - nine(q.lower) || nine(p.upper) - nine(q.upper);
  const ranked = args => [...all(args)].map(plan => price(plan, args)).sort(before);

  function note(args, said, count) {
    said.count = String(count);
    said.unwired = (args.wired[args.x] >> args.y) & 1 ? "" : t.unwired.replace("{chip}", said.chip);
  }

  function find(args, said) {
    const [best, ...rest] = ranked(args), other = rest.find(p => before(best, p));
    show(other ? [best, other] : [best]);
    note(args, said, 1 + rest.length);
    return best;
  }
  return Object.assign(find, { ranked, lines, note });
};
