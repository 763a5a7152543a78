// The explorer: joins the tables of plans.py for one mesh into plans, in the order of helpers/costs/sharding/matmul_plans.py, prices each
// with the traced function, lists the cheapest, and shows the steps of the picked one. figure_controls.js calls what this hands out.
(() => {
  window.livePlans = (data, compute, box, { text }) => {
    const { plans: t, args: numbers } = data, { plan: menu } = box.querySelector("form").elements, body = box.querySelector("[data-lines]");
    let last = null;
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

    const called = (hop, n) => `${t.kinds[hop[0]]}_${hop[7]}${hop[8] < 0 ? "" : `,${t.dims[n][1 + hop[8]]}`}`;

    // The steps of a plan in brief, and as lines: what, and seconds (nothing for what is free).
    function brief(plan) {
      const [a, b, c] = plan.routes.map((route, n) => route.map(hop => `${called(hop, n)} ${t.dims[n][0]}`));
      return [...a, ...b, "product", ...c].join(", ");
    }

    function lines(plan) {
      const [a, b, c] = plan.routes.map((route, n) => route.map((hop, k) => [
        `${called(hop, n)} ${notation(n, hop[9])} → ${notation(n, hop[10])}`,
        t.kinds[hop[0]] === "Slice" ? undefined : plan.steps[n * t.longest + k],
      ]));
      return [...a, ...b, [`multiply locally → ${notation(2, plan.made)}`, plan.math], ["HBM traffic of the product", plan.memory], ...c];
    }

    const before = (p, q) => nine(p.lower) - nine(q.lower) || nine(p.upper) - nine(q.upper);
    const ranked = args => [...all(args)].map(plan => price(plan, args)).sort(before);

    function show(plan) {
      body.replaceChildren(...lines(plan).map(([what, seconds]) => {
        const row = document.createElement("tr"), head = document.createElement("th");
        head.scope = "row";
        head.textContent = what;
        row.append(head);
        row.insertCell().textContent = seconds === undefined ? "free" : text(seconds, "s");
        return row;
      }));
    }

    function find(args, said) {
      const priced = ranked(args), key = JSON.stringify(args), listed = priced.slice(0, t.ranked);
      if (last && key !== last) menu.value = 0;
      const at = (last ? null : linked(data.id, listed.length)) ?? +menu.value;
      menu.replaceChildren(...listed.map((p, k) => new Option(`${k + 1}. ${brief(p)}: ${text(p.lower, "s")} to ${text(p.upper, "s")}`, k)));
      menu.value = at;
      last = key;
      show(priced[at]);
      const unwired = (args.wired[args.x] >> args.y) & 1 ? "" : t.unwired.replace("{chip}", said.chip);
      Object.assign(said, { count: String(priced.length), rank: String(at + 1), unwired });
      return priced[at];
    }
    return { find };
  };

  // The plan that a link to this figure asks for, of so many; for another, the first; without a link nothing.
  function linked(id, count) {
    const [target, query] = location.hash.slice(1).split("?");
    if (target !== id || !query) return null;
    const n = Number(new URLSearchParams(query).get("plan") || 0);
    return Number.isInteger(n) && n >= 0 && n < count ? n : 0;
  }
})();
