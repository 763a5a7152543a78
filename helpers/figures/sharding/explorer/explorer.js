// The explorer: joins the tables of plans.py for one mesh into plans, in the order of helpers/costs/sharding/matmul_plans.py, and prices each
// with the traced function; lists them, and shows the frames of the picked one, of which walks.py has written down every collective
// along every axis. figure_controls.js calls what this hands out.
(() => {
  const CELL = 20, LEFT = 62, TOP = 34;
  const sum = row => row.reduce((p, q) => p + q, 0);

  // The collectives of a step along one axis each, with the bytes of a block.
  function walks(films, kind, axes, held, args) {
    const out = [], between = a => args[`d${a.toLowerCase()}`];
    axes.sort((a, b) => between(a) - between(b)); // inside slices first
    const go = (kind, over) => {
      const n = args[over], moments = films[kind][args[over.toLowerCase()]], block = kind === "AllGather" ? held : held / n;
      out.push({ kind, over, n, far: between(over), block, moments, total: block * sum(moments.map(m => m.out)) });
      held *= kind === "AllGather" ? n : kind === "ReduceScatter" ? 1 / n : 1;
    };
    const all = (kind, axes) => axes.forEach(a => go(kind, a));
    if (kind === "AllReduce") {
      const outer = [...axes], last = outer.pop(), ring = between(last) || (args[`w${last.toLowerCase()}`] && args[last] > 2);
      all("ReduceScatter", outer);
      for (const half of ring ? ["ReduceScatter", "AllGather"] : [kind]) go(half, last);
      all("AllGather", outer.reverse());
    } else if (films[kind]) all(kind, kind === "AllGather" ? [...axes].reverse() : axes);
    return out;
  }

  function picture({ kind, over, n }, { halves, sent }) {
    const full = kind === "AllGather" ? 1 : n;
    const word = (x, y, text, anchor) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;
    let out = word(LEFT + n * CELL / 2, 12, kind === "AllToAll" ? "block for device" : "block", "middle");
    for (let k = 0; k < n; k++) out += word(LEFT + (k + .5) * CELL, TOP - 6, k, "middle") + word(LEFT - 6, TOP + (k + .7) * CELL, `${over} = ${k}`, "end");
    [...halves].forEach((digit, k) => {
      const x = LEFT + (k % n) * CELL, y = TOP + Math.floor(k / n) * CELL, amount = parseInt(digit, 36) / 2;
      out += `<rect x="${x + 1}" y="${y + 1}" width="18" height="18" fill-opacity="${(.65 * amount / full).toFixed(2)}" stroke-width="${sent[k] > 0 ? 2.5 : .4}"/>`;
      if (amount && kind !== "AllGather") out += word(x + CELL / 2, y + 14, `${Math.floor(amount) || ""}${amount % 1 ? "½" : ""}`, "middle");
    });
    return out;
  }

  window.livePlans = (data, compute, box, { text }) => {
    const { plans: t, args: numbers } = data, form = box.querySelector("form"), { plan: menu, step } = form.elements;
    window.livePlay(form, box.querySelector("[role=status]"));
    const body = box.querySelector("[data-lines]"), drawn = box.querySelector(".walks-frame"), words = box.querySelector("[data-words]");
    const bytes = v => text(v, "B");
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

    const before = (p, q) => nine(p.lower) - nine(q.lower) || nine(p.upper) - nine(q.upper);
    const ranked = args => [...all(args)].map(plan => price(plan, args)).sort(before);

    function frames(plan, args) {
      const out = [], left = [];
      plan.routes.forEach((route, n) => route.forEach(([kind, , , hx, hy, , , over]) => {
        const [name, ...dims] = t.dims[n], whole = 2 * args[dims[0]] * args[dims[1]];
        const held = whole / (hx ? args.X : 1) / (hy ? args.Y : 1), collectives = walks(t.films, t.kinds[kind], [...over], held, args);
        left.push(t.kinds[kind] === "Permute" ? held : sum(collectives.map(w => w.total)));
        for (const w of collectives) w.moments.forEach((m, k) => {
          const end = w.moments.length - 1, head = `${name}: ${w.kind} over ${w.over}, `;
          out.push([head + (k === end ? `end: ${bytes(w.total)} have left the busiest device.`
            : w.far ? `step ${k + 1} of ${end}: a device sends ${bytes(m.out * w.block)} over the network.`
            : `step ${k + 1} of ${end}: a device sends at most ${bytes(m.out * w.block)}, a link carries at most ${bytes(m.link * w.block)} one way.`), w, m]);
        });
      }));
      return [out, left];
    }

    function show(plan, listed, shown, left) {
      let hop = 0;
      body.replaceChildren(...listed.map(([what, s, free]) => {
        const row = document.createElement("tr"), head = document.createElement("th");
        head.scope = "row";
        head.textContent = what;
        row.append(head);
        row.insertCell().textContent = free ? "" : bytes(left[hop++]);
        row.insertCell().textContent = s === undefined ? "free" : text(s, "s");
        return row;
      }));
      step.max = Math.max(0, shown.length - 1);
      step.disabled = !shown.length;
      const [said, w, m] = shown[step.value] ?? [t.nothing];
      words.textContent = said;
      drawn.innerHTML = w ? picture(w, m) : "";
      drawn.viewBox.baseVal.height = w ? TOP + CELL * w.n + 2 : 1;
      drawn.setAttribute("aria-label", said);
      step.setAttribute("aria-valuetext", said);
      step.nextElementSibling.textContent = shown.length ? `${+step.value + 1} of ${shown.length}` : "none";
    }

    function find(args, said) {
      const priced = ranked(args), key = JSON.stringify(args), listed = priced.slice(0, t.ranked).map(lines);
      if (last && key !== last) menu.value = step.value = 0;
      const asked = !last && linked(data.id), at = asked ? place(asked, "plan", listed.length) : +menu.value, plan = priced[at];
      menu.replaceChildren(...listed.map((some, k) => {
        const part = some.map(([what, , free]) => (free ? (what.startsWith("multiply") ? "product" : "") : what.split(" ").slice(0, 2).map((w, n) => (n ? w[0] : w)).join(" ")));
        return new Option(`${k + 1}. ${part.filter(Boolean).join(", ")}: ${text(priced[k].lower, "s")} to ${text(priced[k].upper, "s")}`, k);
      }));
      menu.value = at;
      last = key;
      const [shown, left] = frames(plan, args);
      const chosen = asked ? place(asked, "step", shown.length) : step.value;
      step.max = Math.max(0, shown.length - 1);
      step.value = chosen;
      show(plan, listed[at], shown, left);
      const unwired = (args.wired[args.x] >> args.y) & 1 ? "" : t.unwired.replace("{chip}", said.chip);
      Object.assign(said, { count: String(priced.length), rank: String(at + 1), unwired });
      return plan;
    }
    return { find };
  };

  // What a link to this figure asks for, and a place among so many that it names; another is the first.
  function linked(id) {
    const [target, query] = location.hash.slice(1).split("?");
    return target === id && query && new URLSearchParams(query);
  }

  function place(asked, name, count) {
    const n = Number(asked.get(name) || 0);
    return Number.isInteger(n) && n >= 0 && n < count ? n : 0;
  }
})();
