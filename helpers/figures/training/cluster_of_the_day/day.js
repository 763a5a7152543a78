// The cluster of the day: its layouts are ranked by candidates.js in a worker, and a step that the reader runs is placed among them.
// figure_controls.js calls what this hands out. What was tried on a day stays in this browser; nothing is asked of another host.
window.liveLayouts = ({ layouts: t, results }, { F, rank, times }, box, { text, whole, fill }) => {
  const KEY = "r2r-day", form = box.querySelector("form"), { day: field } = form.elements, copy = box.querySelector(":scope > .live-play button");
  // What is kept of a day is of these formulas: a site that has others since begins the day anew.
  const of = [...`${F}${rank}${times}${JSON.stringify(t)}`].reduce((hash, c) => (hash * 31 + c.charCodeAt(0)) | 0, 0);
  const cells = [...box.querySelectorAll("[data-say]")], run = form.querySelector("button"), tools = window.liveMeshes(t, F, rank);
  const iso = n => new Date((n + t.epoch) * 864e5).toISOString().slice(0, 10), policies = t.kept.map((_, p) => p);
  const number = asked => {
    const n = /^\d{4}-\d\d-\d\d$/.test(asked) ? Date.parse(asked) / 864e5 - t.epoch : NaN;
    return n >= 0 && iso(n) === asked ? n : NaN;
  };
  const today = iso(typeof courseRecord === "undefined" ? 0 : courseRecord.today()); // a page without the record shows its example
  let asked, n, at, own, current, shown; // the day as written and by its number, its cluster, what is kept of it, what sliders say and what was run

  const all = (tools, [model, chip, place, n, tokens, T, stored, policies]) => {
    const { rows } = tools.search(tools.pricing(model, chip, place, tokens, T, stored), tools.meshes(model, n, tokens, T), policies);
    return { fits: rows.filter(r => r.fits).map(r => r.seconds), best: rows[0] };
  };

  function keep(changes) {
    Object.assign(own, changes);
    try { localStorage.setItem(KEY, JSON.stringify(own)); } catch { /* full, or forbidden */ }
  }

  // All layouts, once a day and beside the page's thread; where a page from a disk may have no worker, on it.
  function rankAll() {
    const { model, chip, place, tokens, T } = at, day = n, asks = [model, chip, place, at.n, tokens, T, t.stored, policies];
    const done = ranked => {
      if (day !== n) return;
      keep({ ranked });
      form.dispatchEvent(new Event("input"));
    };
    const here = () => setTimeout(() => done(all(tools, asks)));
    try {
      const code = `const tools=(${window.liveMeshes})(${JSON.stringify({ ...t, days: 0 })},[${F}],${rank}),all=${all};onmessage=({data})=>postMessage(all(tools,data))`;
      const address = URL.createObjectURL(new Blob([code])), worker = new Worker(address);
      const end = () => { worker.terminate(); URL.revokeObjectURL(address); };
      worker.onmessage = ({ data }) => { end(); done(data); };
      worker.onerror = event => { event.preventDefault(); end(); here(); };
      worker.postMessage(asks);
    } catch { here(); }
  }

  function open() {
    asked = field.value.trim() || (field.value = today);
    n = number(asked);
    if (Number.isNaN(n)) return void (at = null);
    const [name, label, chips, tokens, T] = t.days[n % t.days.length], chip = t.chips[label], place = chip.places[Math.log2(chips)];
    at = { name, label, model: t.models[name], chip, place, n: chips, tokens, T };
    at.prices = tools.pricing(at.model, chip, place, tokens, T, t.stored);
    shown = t.start;
    let kept = null;
    try { kept = JSON.parse(localStorage.getItem(KEY)); } catch { /* forbidden, or not ours */ }
    own = kept?.n === n && kept.of === of ? kept : { n, of, tried: [] };
    own.ranked ??= t.known[n];
    if (!own.ranked) rankAll();
  }

  const sizes = ({ tp, cp, ep, fsdp, pp }) => [tp, cp, ep, fsdp, at.n / (tp * cp * ep * fsdp * pp), pp];

  // The first rule that what is placed breaks, in a sentence.
  function broken(placed, said) {
    const [tp, cp, ep, fsdp, dp, pp] = sizes(placed), shards = ep * fsdp * dp, sequences = at.tokens / at.T;
    if (dp % 1) return fill(t.say.other, { took: whole(at.n / dp), n: whole(at.n) });
    for (const [axis, fit] of Object.entries(at.model.may))
      if (!fit.includes(placed[axis])) return fill(t.say.suits, { ...said, axis, value: placed[axis], fit: fit.filter(x => x <= at.n).join(", ") });
    return sequences / shards / placed.microbatches % 1 ? fill(t.say.batch, { ...said, sequences: whole(sequences), shards: whole(shards) }) : "";
  }

  function stepOf(placed) {
    const [tp, cp, ep, fsdp, dp, pp] = sizes(placed), given = { fsdp, dp, microbatches: placed.microbatches };
    const [first] = tools.search(at.prices, [[[tp, cp, ep, pp, fsdp * dp], at.tokens / at.T / (ep * fsdp * dp)]], policies, given).rows;
    return { ...first, row: at.prices.all(first) };
  }

  // Bars of all layouts, and where a step of so many seconds stands among them: helpers/figures/training/cluster_of_the_day/draw.py.
  function beside({ fits, best }, mid, values, said) {
    const sorted = [...fits].sort((a, b) => a - b), least = best.seconds, date = new Date((n + t.epoch) * 864e5).toUTCString();
    const bar = s => t.edges.filter(edge => edge <= times(s, least) * t.near).length - 1, bars = t.edges.map(() => 0);
    for (const s of fits) bars[bar(s)]++;
    bars.forEach((count, k) => { values[`h${k}`] = count / Math.max(...bars); });
    Object.assign(said, { fitting: whole(fits.length), median: times(sorted[fits.length >> 1], least).toFixed(2), alt: t.say.alt });
    said.best = fill(t.say.best, { layout: tools.layout(best, at.place[0]), policy: t.kept[best.policy], seconds: text(least, "s") });
    if (own.tried.length && own.least) {
      const tries = `${own.tried.length} ${own.tried.length === 1 ? "try" : "tries"}`;
      said.line = fill(t.say.line, { date: date.slice(5, 11).replace(/^0/, ""), times: `${times(own.least, least).toFixed(2)}×`, tries });
    }
    if (Number.isNaN(mid)) return;
    Object.assign(values, { you: bar(mid) });
    Object.assign(said, { times: `${times(mid, least).toFixed(2)}×`, share: Math.floor(100 * fits.filter(s => s > mid * t.near).length / fits.length) });
    said.beside = fill(t.say.beside, said);
  }

  form.addEventListener("submit", () => {
    if (!at || run.disabled) return;
    shown = current;
    const { mesh, microbatches, fits, seconds } = stepOf(shown), name = [...mesh, microbatches].join(".");
    const tried = own.tried.includes(name) ? own.tried : [...own.tried, name];
    keep({ tried, least: fits ? Math.min(own.least ?? Infinity, seconds) : own.least });
    form.dispatchEvent(new Event("input"));
  });
  copy.parentNode.hidden = false;
  copy.addEventListener("click", () => {
    const line = box.querySelector("[data-say=line]");
    getSelection().selectAllChildren(line);
    navigator.clipboard?.writeText(line.textContent).catch(() => {});
  });
  field.value = today;

  return {
    find(args, said) {
      if (!asked || asked !== field.value.trim()) open();
      current = args;
      const values = Object.fromEntries([...t.names, ...t.edges.map((_, k) => `h${k}`), "you"].map(name => [name, NaN]));
      for (const cell of cells) said[cell.dataset.say] = t.say.none;
      Object.assign(said, { line: t.say.noLine, alt: t.say.noAlt, times: t.say.none });
      const wrong = at ? broken(current, Object.assign(said, { model: at.name })) : fill(t.say.day, { day: asked, first: iso(0) });
      run.disabled = Boolean(wrong);
      if (at) {
        const same = Object.keys(shown).every(name => shown[name] === current[name]), found = stepOf(shown), { row, fits, policy } = found;
        t.names.forEach((name, k) => { if (fits || k === 1 || k >= t.times + t.parts) values[name] = row[k]; });
        Object.assign(said, { chip: at.label, n: whole(at.n), tokens: whole(at.tokens), T: whole(at.T), place: at.place[2], hbm: text(at.chip.speeds[2], "B") });
        Object.assign(said, { layout: tools.layout(found, at.place[0]), policy: t.kept[policy], beside: t.say.waiting });
        said.given = fill(t.say.given, said);
        said.placed = tools.layout({ mesh: sizes(current), microbatches: current.microbatches, zero: 0, v: 1 }, 1);
        if (own.ranked) beside(own.ranked, values.mid, values, said);
        if (fits) said.most = box.querySelector(`[data-result=${tools.longest(row)}]`).closest("tr").firstChild.textContent;
        said.say = same ? (fits ? t.say.ran : t.say.full) : t.say.moved;
      }
      for (const r of results) said[r.name] = text(values[r.name], r.unit);
      if (wrong) said.say = wrong;
      for (const cell of cells) cell.textContent = said[cell.dataset.say];
      return Object.assign(values, { m_all: Math.max(at?.chip.speeds[2] ?? 0, values.memory) });
    },
  };
};
