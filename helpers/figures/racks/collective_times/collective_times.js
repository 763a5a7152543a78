// A collective on a cluster: every algorithm's time by tier, by the functions that helpers/figures/racks/collective_times/times.py has had
// traced from helpers/costs/racks, and the bars of them. figure_controls.js calls what this hands out.
window.liveCluster = ({ cluster: t, controls }, [switched, torus, cut, load, hiding], box, { text, whole, fill }) => {
  const form = box.querySelector("form"), fields = form.elements, { size, set, move } = window.liveGrids(fields);
  const menus = controls.filter(c => c.options), grids = controls.filter(c => c.grid), [, machines] = menus, [m, b, V] = grids;
  const [WIDTH, LEFT, ROOM, HEAD, SLOT] = t.box, svg = box.querySelector("svg");
  const slots = [...box.querySelectorAll("[data-slot]")], rows = [...box.querySelectorAll("[data-row]")];
  const kinds = Object.keys(t.sent), at = name => t.row.indexOf(name);
  let own = false; // whether V is the reader's

  // V of everything that may be sent, then the FLOPs beside it.
  const loaded = ({ model, sent }, tokens, n) => {
    const all = load(...t.models[model].slice(0, -1), tokens, n), place = kinds.indexOf(sent);
    return [all[place], all[kinds.length + place]];
  };
  function follow() {
    const said = { model: fields.model.value, sent: fields.sent.value };
    if (!own) set(V, loaded(said, size(b), size(m) * machines.options[fields.machine.value].g)[0]);
  }
  form.addEventListener("input", ({ target }) => {
    if (target.name === "V") own = true;
    if (["model", "sent", "b"].includes(target.name)) own = false;
    grids.forEach(c => { if (c.name === target.name) move(c, target); });
    follow();
  });
  follow();

  // How many of them, as `counting` in page.py writes it.
  const counting = (n, domain) => `${n} ${domain}${n === 1 ? "" : "s"}`;

  // Why all is unknown, if it is.
  function wrong(said, args, machine, n, E) {
    if (!E) return fill(t.noExperts, { ...said, mixtures: t.mixtures });
    const fit = counting(Math.floor(E / args.g), machine.domain);
    return fill(t.many, { ...said, E, n: whole(n), chips: machine.chips, most: fill(args.g <= E ? t.most : t.noneFits, { fit, domain: machine.domain }) });
  }

  function draw(names, found, first, bound) {
    const px = (WIDTH - LEFT - ROOM) / Math.max(bound, ...found.flatMap(r => [r[2], r[5]]));
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEAD + SLOT * found.length}`);
    svg.style.display = found.length ? "" : "none";
    slots.forEach((slot, n) => {
      const row = found[n];
      slot.style.display = row ? "" : "none";
      rows[n].hidden = !row;
      if (!row) return;
      const labels = slot.querySelectorAll("text"), parts = slot.querySelectorAll("rect");
      rows[n].firstChild.textContent = names[n];
      const line = slot.querySelector("path");
      line.setAttribute("d", `M${(LEFT + px * bound).toFixed(1)} ${line.getAttribute("d").split(" ")[1]}`);
      labels[0].setAttribute("font-weight", n === first ? "bold" : "normal");
      labels[0].textContent = names[n] + (n === first && found.length > 1 ? ": fastest" : "");
      [0, 3].forEach((from, k) => {
        const a = px * row[from], whole = px * row[from + 2];
        parts[2 * k].setAttribute("width", a.toFixed(1));
        parts[2 * k + 1].setAttribute("x", (LEFT + a).toFixed(1));
        parts[2 * k + 1].setAttribute("width", (whole - a).toFixed(1));
        labels[2 * k + 2].setAttribute("x", (LEFT + whole + 5).toFixed(1));
        labels[2 * k + 2].textContent = text(row[from + 2], "s");
      });
    });
  }

  return {
    size,
    find(args, said) {
      const machine = t.machines[said.machine], n = args.m * args.g, E = t.models[said.model].at(-1);
      const [kind, row, sent, work, grows] = t.sent[said.sent], [usual, have] = loaded(said, args.b, n), mine = args.V !== usual;
      const width = t.row.length, names = machine.names[row], before = machine.names.slice(0, row).flat().length;
      const unknown = kind === "AllToAll" && !mine && n > E, rates = [args.W, args.card];
      const every = machine.torus ? torus(args.V, args.m, ...rates, args.hop, t.hop)
        : switched(args.V, args.g, args.m, ...rates, args.up, args.hop, t.hop);
      const found = unknown ? [] : names.map((_, k) => every.slice((before + k) * width, (before + k + 1) * width));
      const values = {};
      for (let k = 0; k < t.slots; k++) for (const what of t.columns) values[what + k] = found[k]?.[at(what)] ?? NaN;
      if (unknown) {
        draw(names, [], 0, 1);
        said.say = wrong(said, args, machine, n, E);
        return values;
      }
      // The tightest side: the slowest, and of equals the one of fewer chips.
      const sides = machine.sides[args.m === 1 ? 0 : args.m > t.group ? 2 : 1].map(([side, a, W]) => [side, a, cut(args.V, a, W, n)[row]]);
      const [side, , bound] = sides.reduce((p, q) => (q[2] > p[2] || (q[2] === p[2] && q[1] < p[1]) ? q : p));
      const lowers = found.map(r => r[width - 1]), lower = Math.min(...lowers), first = lowers.indexOf(lower), best = found[first];
      const k = best[0] >= best[3] ? 0 : 3, need = lower * args.C, wins = lowers.length === 1 || lowers.some(x => x > lower);
      const tokens = mine ? NaN : hiding(args.b, have / args.C, best[0], best[1], best[3], best[4], grows);
      draw(names, found, wins ? first : -1, bound);
      const words = {
        ...said, sent, kind, work, n: whole(n), chips: machine.chips, count: counting(args.m, machine.domain), size: text(args.V, "B"),
        lower: text(lower, "s"), best: fill(t.best[found.length === 1 ? 0 : wins ? 1 : 2], { first: names[first] }), tier: machine.tiers[+(k > 0)],
        by: best[1] + best[4] > best[k] ? "hops" : "bytes", side, bound: text(bound, "s"), flops: text(need, "FLOPs"), have: text(have, "FLOPs"),
        enough: t.enough[grows][+(have >= need)], tokens: whole(Math.ceil(tokens)),
      };
      words.made = kind === "AllReduce" ? t.made : "";
      words.what = fill(mine ? t.own : t.what, words);
      words.cut = fill(lower < bound ? t.beats : t.cut, words);
      words.hide = fill(mine ? t.alone : grows ? t.grows + (Number.isFinite(tokens) ? t.some : t.never) : t.from, words);
      said.say = fill(t.say, words);
      return Object.assign(values, { bound, have, need, tokens });
    },
    // A link has numbers, not places on a slider; V only where it is the reader's own.
    link(asked) {
      for (const c of menus) if (Object.hasOwn(c.options, asked.get(c.name) ?? "")) fields[c.name].value = asked.get(c.name);
      for (const c of grids) {
        const v = Number(asked.get(c.name)), good = c === m ? c.grid.includes(v) : Number.isInteger(v) && v >= c.grid[0] && v <= c.grid.at(-1);
        if (!good) continue;
        set(c, v);
        own ||= c === V;
      }
      follow();
    },
    query: () => controls.filter(c => c !== V || own).map(c => [c.name, c.options ? fields[c.name].value : size(c)]),
  };
};
