// The planner: every layout of a setting, ranked by candidates.js, and the picked one in numbers, with the functions traced from helpers/costs. figure_controls.js calls what this hands out.
window.livePlanner = ({ planner: t }, { F, G, legal, sent, over, bill, lies, rank }, box, words) => {
  const { text, whole, fill } = words;
  const form = box.querySelector("form"), fields = form.elements, tools = window.liveMeshes(t, F, rank), { serving } = window.liveDeployments(t, G, words);
  const rows = Object.fromEntries([...box.querySelectorAll(".live-ranked")].map(b => [b.dataset.task, [...b.querySelectorAll("[data-row]")]]));
  const radio = line => line.querySelector("input"), radios = Object.values(rows).flat().map(radio);
  let picked = "", page = 0, last = null, moved = false;

  // A typed number without what parts its thousands, as `ungrouped` in helpers/live/words.py reads it.
  function ungrouped(typed) {
    const found = /^[1-9][0-9]{0,2}([, \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*(\.[0-9]*)?$/.exec(typed);
    return found ? found[0].replaceAll(found[1], "") : typed;
  }

  // What the fields say as numbers, and the first of them that holds nonsense.
  function typed(at) {
    const numbers = {}, unused = t.models[at.model].unused;
    let wrong = "";
    for (const [name, f] of Object.entries(t.fields)) {
      if ((f.task && f.task !== at.task) || unused.includes(name)) continue;
      const said = fields[name].value.trim(), value = ungrouped(said), known = new RegExp(f.whole ? t.wholes : t.number).test(value);
      const bad = !(known && value >= f.low && value <= f.high) && !(f.empty && !value);
      fields[name].setAttribute("aria-invalid", bad);
      numbers[name] = value ? Number(value) : NaN;
      if (bad) wrong ||= fill(t.wrong, { ...f, typed: said });
    }
    return [numbers, wrong];
  }

  // The model's sizes as they are typed, and what of them does not go together.
  function built(at, numbers) {
    const like = t.models[at.model], has = Object.fromEntries(t.sizes.map((s, k) => [s, like.unused.includes(s) ? like.sizes[k] : numbers[s]]));
    let wrong = "", where = [];
    if (!like.mla && has.N % has.K) [wrong, where] = [t.uneven, ["N", "K"]];
    else if (like.moe && has.k > has.E) [wrong, where] = [t.split, ["k", "E"]];
    else if (like.moe && has.L <= like.dense) [wrong, where] = [t.shallow, ["L"]];
    for (const s of where) fields[s].setAttribute("aria-invalid", true);
    const sizes = t.sizes.map(s => has[s]), own = sizes.some((x, k) => x !== like.sizes[k]);
    return [sizes, has, own, wrong && fill(wrong, { ...has, model: at.model, dense: like.dense })];
  }

  // What a layout that is typed says, or the first nonsense in it: `read` of helpers/costs/training/layout.py.
  function read(said) {
    const found = {};
    for (const part of said.split(/[,\s]+/).filter(Boolean)) {
      const [name, ...rest] = part.split("="), value = rest.join("="), g = Object.hasOwn(t.grammar, name) && t.grammar[name];
      const number = /^[0-9]{1,7}$/.test(value) ? Number(value) : -1;
      const fits = g && (g.words.length ? g.words.includes(value) : number >= g.least && number <= (g.most ?? number));
      const no = !g ? (t.elsewhere.includes(name) ? "elsewhere" : "unknown") : !value ? "unknown" : Object.hasOwn(found, name) ? "twice" : fits ? "" : "value";
      if (no) return [found, fill(t.named[no], { ...g, part, name, value, names: Object.keys(t.grammar).join(", ") })];
      found[name] = g.words.length ? value : number;
    }
    return [found, ""];
  }

  // The same in the page's axes: `unfolded` of helpers/costs/training/partial_layout.py.
  function unfolded({ etp, ...found }, n) {
    if (!("ep" in found) || (etp === undefined && n % t.axes.reduce((all, axis) => all * (found[axis] ?? 1), 1) === 0)) return [found, ""];
    const { ep, tp = 1 } = found;
    if (ep % tp) return [found, fill(t.unshared, { ep, tp })];
    found.ep = ep / tp;
    const shares = ["dp", "fsdp"].find(axis => axis in found && found[axis] % found.ep === 0);
    if (shares) found[shares] /= found.ep;
    return [found, ""];
  }

  // The first rule that such a layout breaks, in a sentence.
  function broken(mesh, found, { like, sizes, has, chip, place, n, sequences, T, who }) {
    const took = mesh.reduce((a, b) => a * b), shards = found.dp * found.fsdp * found.ep, may = at => legal[like.k](...sizes, ...at);
    const by = { ...found, n: whole(n), took: whole(took), who, T: whole(T), L: has.L, place: place[2], sequences: whole(sequences), shards: whole(shards) };
    if (took !== n) return fill(t.named[n % took ? "other" : "more"], { ...by, fsdp: found.fsdp * (n / took) });
    if (!chip.kind && !lies(...mesh, ...[...place[2].split("x").map(Number), 1, 1].slice(0, 3))) return fill(t.named.lies, by);
    for (const [axis, on] of [["tp", x => [x, 1, 1]], ["ep", x => [1, x, 1]]]) {
      if (may(on(found[axis]))) continue;
      const fit = [...Array(Math.log2(t.longest) + 1).keys()].map(k => 2 ** k).filter(x => may(on(x)));
      return fill(t.named.suits, { ...by, axis, value: found[axis], fit: fit.join(", ") });
    }
    if (found.pp * found.v > has.L + t.tables) return fill(t.named.stages, by);
    if (found.v > 1 && found.pp === 1) return fill(t.named.pieces, by);
    if (found.v > 1 && found.microbatches % found.pp) return fill(t.named.interleaved, by);
    if (T % found.cp) return fill(t.named.cp, by);
    return sequences % (shards * found.microbatches) ? fill(t.named.batch, by) : "";
  }

  // Every mesh with the setting that suits it.
  function training(at, sizes) {
    const like = t.models[at.model], chip = t.chips[at.chip], n = Number(at.n), tokens = Number(at.tokens), T = Number(at.T);
    const place = chip.places[Math.log2(n)], hbm = chip.speeds[2];
    if (like.strange) return { problem: like.strange };
    if (!place) return { problem: t.many, last: whole(2 ** (chip.places.length - 1)) };
    if (tokens < T) return { problem: t.short };
    const axis = at => [...Array(Math.log2(t.longest) + 1).keys()].map(k => 2 ** k).filter(x => legal[like.k](...sizes, ...at(x)));
    const may = { tp: axis(x => [x, 1, 1]), ep: axis(x => [1, x, 1]), pp: axis(x => [1, 1, x]) };
    const stored = t.stored[at.bytes], prices = tools.pricing({ at: like.at, sizes }, chip, place, tokens, T, stored);
    const policies = at.keep === t.any ? t.kept.map((_, p) => p) : [t.kept.indexOf(at.keep)];
    const { rows: ranked, edges } = tools.search(prices, tools.meshes({ may }, n, tokens, T), policies);
    const some = tools.designs(ranked);
    const worded = (r, say) => Object.assign(r, { words: fill(say, { layout: tools.layout(r, 1), policy: t.kept[r.policy] }) });
    for (const r of some) {
      worded(r, t.layout).name = r.mesh.join(".");
      if (r.also.length) r.words += fill(t.also, { sizes: r.also.join(", ") });
    }
    // The layout that is typed, as one more line, or what is wrong with it.
    function typedIn(said, who, has) {
      const [typed, nonsense] = read(said), [given, unshared] = unfolded(typed, n);
      if (nonsense || unshared) return { wrong: nonsense || unshared };
      const kept = given.policy ? [t.kept.indexOf(given.policy)] : policies;
      const [best] = tools.search(prices, tools.meshes({ may }, n, tokens, T, given), kept, given).rows;
      if (!best) {
        const all = { ...Object.fromEntries(Object.entries(t.grammar).map(([name, g]) => [name, g.before])), ...given };
        const wrong = broken(t.axes.map(name => all[name]), all, { like, sizes, has, chip, place, n, sequences: tokens / T, T, who });
        return { wrong: wrong || fill(t.few, { n: whole(n) }) };
      }
      const { mesh, zero, microbatches, v, policy } = best, row = prices.price(mesh, zero, microbatches, v);
      return { row: worded({ ...tools.ranked([mesh, zero, microbatches, v, policy, row], hbm, edges), name: "own" }, t.named.row) };
    }
    // Seconds and bytes of each tier of links, under this layout.
    function tiers(r, thin) {
      const pods = place[0], group = Math.min(pods, chip.group), own = [chip.speeds[3], chip.speeds[4], group, pods / group];
      const volumes = sent[like.sent](...sizes, tokens, T, stored[0], ...r.mesh, r.zero, r.microbatches, r.v, r.policy);
      const found = over[chip.kind](...volumes, ...own, ...chip.wired[Math.log2(n)], ...r.mesh);
      const all = Object.fromEntries(t.tiers.names.map((name, k) => [name, found[k]]));
      all.w2 *= thin;
      return all;
    }
    const numbers = (r, { budget, price, over: thin }) => {
      const row = prices.all(r);
      const money = bill(row[0], n, tokens, 1e9 * budget, price), all = Object.fromEntries(t.names.map((name, k) => [name, row[k]]));
      Object.assign(all, Object.fromEntries(t.bill.map((name, k) => [name, money[k]])), tiers(r, thin));
      const bound = t.bars.time.train[tools.longest(row)];
      all.low /= chip.wide;
      all.high *= chip.wide;
      if (!r.fits) for (const name in all) if (name !== "memory" && !/^m\d/.test(name)) all[name] = NaN;
      return [all, bound, []];
    };
    return { some, place: place[2], numbers, typedIn, problem: some.length ? "" : t.few };
  }

  // Everything that a setting leads to, or only why nothing does.
  function plan(at) {
    const [numbers, nonsense] = typed(at);
    if (nonsense) return { sentence: nonsense };
    const [sizes, has, own, uneven] = built(at, numbers);
    if (uneven) return { sentence: uneven };
    const said = { ...at, ...Object.fromEntries(["n", "tokens", "T"].map(name => [name, whole(at[name])])), who: own ? fill(t.changed, at) : at.model };
    for (const name of ["prompt", "answer"]) if (name in numbers) said[name] = whole(numbers[name]);
    return (at.task === "train" ? trained : served)(at, sizes, numbers, has, said);
  }

  // What is computed once for settings that differ in no more than a price or a pick.
  function once(key, compute) {
    key = JSON.stringify(key);
    if (last?.key !== key) last = { key, ...compute() };
    return last;
  }

  const shownOf = (task, values, numbers) => Object.fromEntries(t.results[task].map(([name, unit]) =>
    [name, t.paid.includes(name) && Number.isNaN(numbers.price) ? t.type : t.whole_numbers.includes(name) ? whole(values[name]) : text(values[name], unit)]));

  function trained(at, sizes, numbers, has, said) {
    const { own: asked, ...rest } = at, found = once([rest, sizes], () => training(at, sizes));
    if (found.problem) return { sentence: fill(found.problem, { ...said, ...found }) };
    const { row, wrong = "" } = (asked.trim() && found.typedIn(asked, said.who, has)) || {};
    const { place } = found, some = row ? tools.sorted([...found.some, row]) : found.some, k = Math.max(0, some.findIndex(r => r.name === picked)), one = some[k], hbm = t.chips[at.chip].speeds[2];
    const [values, bound] = found.numbers(one, numbers), shown = shownOf("train", values, numbers), fit = some.filter(r => r.fits);
    Object.assign(said, shown, { layout: one.words, rank: whole(k + 1), count: whole(some.length), fitting: whole(fit.length) });
    const same = fit.filter(({ rank: [, exposed, slower] }) => !slower && exposed === fit[0].rank[1]).map(r => r.seconds);
    Object.assign(said, { equal: whole(same.length), ratio: (one.seconds / Math.min(...same)).toFixed(2), note: t.chips[at.chip].note, links: linked(one, values, t.chips[at.chip].tiers) });
    Object.assign(said, { place, bound, hbm: text(hbm, "B"), missing: text(one.memory - hbm, "B") });
    return { some, k, values, shown, hbm, wrong, sentence: fill(t.say["train" + Number(one.fits)], said) };
  }

  // Which tier's links are busy longest, and whether the layout is HSDP.
  function linked(r, values, called) {
    const seconds = called.map((_, n) => values[`w${n}`]), most = Math.max(...seconds), left = k => values[`b1_${k}`] + values[`b2_${k}`];
    if (!(most > 0)) return "";
    const hsdp = r.mesh[3] > 1 && left(0) === 0 && left(1) > 0 ? fill(t.tiers.hsdp, { inside: called[0] }) : "";
    return fill(t.tiers.links, { tier: called[seconds.indexOf(most)], busy: text(most, "s") }) + hsdp;
  }

  function served(at, sizes, numbers, has, said) {
    const typed = Object.fromEntries(Object.values(t.serve.fields).map(name => [name, fields[name].value.trim()]));
    const { price, ...rest } = numbers, found = once([at, typed, rest, sizes], () => serving({ ...at, ...typed }, sizes, numbers, has, said));
    if (found.problem) return { sentence: found.problem };
    const some = found.rows(picked), k = Math.max(0, some.findIndex(r => r.name === picked)), one = some[k], hbm = t.chips[at.chip].speeds[2];
    const values = found.values(one, numbers), shown = shownOf("serve", values, numbers);
    Object.assign(said, shown, found.spoken(some, k, values, shown, numbers), { hbm: text(hbm, "B") });
    return { some, k, values, shown, hbm, edge: found.edge, wide: found.wide, asked: numbers.speed, sentence: fill(t.say["serve" + Number(one.fits)], said) };
  }

  const cellsOf = {
    train(r, hbm) {
      const memory = text(r.memory, "B");
      return [text(r.seconds, "s"), r.fits ? memory : fill(t.lacks, { memory, missing: text(r.memory - hbm, "B") })];
    },
    serve: r => [text(r.speed, ""), text(r.first, "s"), text(r.rate, "")],
  };

  function table({ some, k, hbm }, task) {
    if (moved) page = Math.floor(k / t.rows);
    moved = false;
    const first = t.rows * page;
    rows[task].forEach((line, n) => {
      const r = some[first + n];
      line.hidden = !r;
      if (!r) return;
      radio(line).value = r.name;
      radio(line).checked = first + n === k;
      line.querySelector("span").textContent = r.words;
      const texts = cellsOf[task](r, hbm);
      line.querySelectorAll("td").forEach((cell, m) => { cell.textContent = texts[m]; });
    });
    const by = { first: whole(first + 1), last: whole(Math.min(first + t.rows, some.length)), count: whole(some.length) };
    box.querySelector(`[data-task=${task}] [data-page]`).textContent = fill(t.page[task], by);
    for (const b of box.querySelectorAll("[data-turn]")) {
      const to = page + Number(b.dataset.turn);
      b.setAttribute("aria-disabled", to < 0 || to * t.rows >= some.length);
    }
  }

  function draw(kind, task, values, hbm) {
    const drawing = box.querySelector(`[data-drawing=${kind}]`), names = t.bars[kind][task] ?? {}, unit = kind === "memory" ? "B" : "s", said = [];
    const wide = drawing.viewBox.baseVal.width, high = t.high, whole = Object.keys(names).reduce((sum, name) => sum + values[name], 0);
    for (const group of drawing.querySelectorAll("[data-bar]")) {
      const name = group.dataset.bar, value = values[name], shown = name in names && value > 0;
      group.style.display = shown ? "" : "none";
      if (!shown) continue;
      group.setAttribute("transform", `translate(0,${high * said.length})`);
      group.querySelectorAll("text")[1].textContent = text(value, unit);
      group.querySelector(".live-fill").setAttribute("width", (wide * value) / (unit === "B" ? Math.max(hbm, whole) : whole));
      said.push(`${names[name]} ${text(value, unit)}`);
    }
    drawing.parentElement.hidden = !said.length;
    drawing.setAttribute("viewBox", `0 0 ${wide} ${high * Math.max(said.length, 1)}`);
    drawing.setAttribute("aria-label", `${t.drawn[kind]}: ${said.join("; ")}`);
  }

  // Tiers that carry nothing have no column, and kinds of which nothing is sent no row.
  function tiers(values, called) {
    const place = box.querySelector(".live-sent"), some = [0, 1, 2].filter(n => values[`w${n}`] > 0), last = place.rows.length - 1;
    place.hidden = !some.length;
    [...place.rows].forEach((line, k) => {
      line.hidden = !some.length || (0 < k && k < last && !some.some(n => values[`b${n}_${k - 1}`]));
      const shown = line.hidden ? [] : some;
      const texts = shown.map(n => (k === 0 ? called[n] : k === last ? text(values[`w${n}`], "s") : text(values[`b${n}_${k - 1}`], "B")));
      [...line.cells].slice(1).forEach((cell, n) => {
        cell.hidden = n >= texts.length;
        cell.textContent = texts[n] ?? "";
      });
    });
  }

  function show(at, found) {
    table(found, at.task);
    for (const kind of Object.keys(t.bars)) draw(kind, at.task, found.values, found.hbm);
    for (const body of box.querySelectorAll("[data-task]")) body.hidden = body.dataset.task !== at.task;
    if (at.task === "train") tiers(found.values, t.chips[at.chip].tiers);
    for (const cell of box.querySelectorAll(`tbody[data-task=${at.task}] [data-result]`)) cell.textContent = found.shown[cell.dataset.result];
    if (found.edge) frontier(found.edge, found.some[found.k], found.wide, found.asked);
  }

  const menus = () => Object.fromEntries(Object.keys(t.menus).map(name => [name, fields[name].value]));

  // Only what the task and the model have a use for.
  function offer(at) {
    for (const part of form.querySelectorAll("[data-of]")) {
      const name = part.dataset.of, task = t.menus[name] ?? t.fields[name].task;
      part.hidden = (task && task !== at.task) || t.models[at.model].unused.includes(name);
    }
  }

  function sizesOf(name) {
    t.sizes.forEach((s, k) => { fields[s].value = t.models[name].sizes[k]; });
  }

  form.addEventListener("input", ({ target }) => {
    if (!target.name) return;
    if (target.name === "model") sizesOf(target.value);
    if (!["price", "budget", "over"].includes(target.name)) [picked, moved] = [fields.task.value === "train" && fields.own.value.trim() ? "own" : "", true];
  });
  const again = () => ["input", "change"].forEach(what => form.dispatchEvent(new Event(what)));
  const pick = name => { [picked, moved] = [name, true]; again(); };
  const frontier = window.liveFrontier(box, words, t.frontier, pick);
  for (const r of radios) r.addEventListener("change", () => { picked = r.value; again(); });
  for (const b of box.querySelectorAll("[data-turn]")) b.addEventListener("click", () => {
    if (b.getAttribute("aria-disabled") === "true") return;
    page += Number(b.dataset.turn);
    again();
  });
  for (const hidden of [...radios, box.querySelector(".live-pages")]) hidden.hidden = false;

  return {
    plan: () => plan(menus()),
    pick(name) { picked = name; },
    find(_, said) {
      const at = menus(), found = plan(at);
      offer(at);
      if (found.some) show(at, found);
      fields.own.setAttribute("aria-invalid", Boolean(found.wrong));
      document.getElementById(fields.own.getAttribute("aria-describedby")).textContent = found.wrong ?? "";
      box.classList.toggle("live-stale", !found.some);
      said.say = found.sentence.replace(/[{}]/g, "");
      return {};
    },
    link(asked) {
      for (const name of Object.keys(t.menus)) {
        const value = asked.get(name), field = fields[name];
        if (!field.options) field.value = (value ?? "").slice(0, t.long);
        else if ([...field.options].some(o => o.value === value)) field.value = value;
      }
      sizesOf(fields.model.value);
      for (const name of Object.keys(t.fields)) if (asked.has(name)) fields[name].value = asked.get(name).slice(0, 16);
      if (t.sizes.some(s => asked.has(s))) box.querySelector("details").open = true;
      picked = asked.get("pick") ?? "";
      const found = plan(menus());
      if (found.some) page = Math.floor(found.k / t.rows);
    },
    query() {
      const at = menus(), like = t.models[at.model], given = Object.entries(t.fields).filter(([name, f]) => !f.task || f.task === at.task);
      const own = given.filter(([name]) => !like.unused.includes(name) && fields[name].value !== String(like.sizes[t.sizes.indexOf(name)] ?? ""));
      const used = Object.entries(at).filter(([name, x]) => (!t.menus[name] || t.menus[name] === at.task) && x);
      return [...used, ...own.map(([name]) => [name, fields[name].value]), ...(picked ? [["pick", picked]] : [])];
    },
  };
};
