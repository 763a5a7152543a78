// Drives live figures: read the controls, call the traced cost function, move the marks and fill the table.
// The function comes from helpers/live/jaxpr_to_javascript.py and the data from helpers/live/figure.py; nothing is loaded from anywhere.
(() => {
  const PREFIX = { "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E" };
  const PREFIXED = ["s", "FLOPs/s", "FLOPs", "B/s", "B"];
  // Digits in threes, and what stands in braces filled in. `toLocaleString` would take 25 ms when first called.
  const whole = v => Number.isFinite(+v) ? `${BigInt(Math.round(v))}`.replace(/\B(?=(\d{3})+$)/g, ",") : `${v}`;
  // One thing is one, as `counted` in helpers/live/words.py has it.
  const counted = say => say.replace(/(^|[^\d.,])(1 (?:token|sequence|layout|deployment|request|replica|expert))s\b/g, "$1$2");
  const fill = (say, by) => counted(say.replace(/\{(\w+)\}/g, (all, name) => by[name] ?? all));
  const filled = (say, by) => say.replace(/\{(\w+)\}/g, (all, name) => filled(by[name], by)); // as in helpers/live/words.py

  // Three digits and the unit, as `reading` in helpers/live/words.py writes them.
  function text(value, unit) {
    if (Number.isNaN(value)) return "unknown";
    if (unit === "count") return Number.isFinite(value) ? whole(value) : "infinite";
    if (value === 0) return `0 ${unit}`.trim();
    if (!Number.isFinite(value)) return unit === "s" ? "for ever" : "infinite";
    const [mantissa, exponent] = value.toExponential(2).split("e").map(Number), prefixed = PREFIXED.includes(unit);
    if (exponent > 2 && !prefixed) return `${whole(value)} ${unit}`.trim();
    const [least, most] = unit === "s" ? [-9, 0] : [0, 18];
    if (unit === "s" && exponent < -9) { // less than a nanosecond
      const ns = Number((value * 1e9).toPrecision(3));
      return `${ns >= 0.1 ? ns.toFixed(2) : ns} ns`;
    }
    const group = prefixed ? Math.min(most, Math.max(least, 3 * Math.floor(exponent / 3))) : 0, shift = exponent - group;
    return `${(mantissa * 10 ** shift).toFixed(Math.max(0, 2 - shift))} ${PREFIX[group]}${unit}`.trim();
  }

  const words = window.liveWords = { text, whole, fill };

  function start([data, compute]) {
    const box = document.getElementById(data.id), form = box.querySelector("form");
    if (!form.hidden) return; // a second figure on the page loads this file again
    const status = box.querySelector("[role=status]");
    const cells = data.results.map(r => box.querySelector(`[data-result="${r.name}"]`));
    const moving = data.moves ? box.querySelectorAll("[data-move]") : [];
    const marks = data.marks.map((_, n) => box.querySelector(`[data-mark="${n}"]`));
    const own = window[data.own]?.(data, compute, box, words); // of a figure with a script of its own
    const find = own?.find ?? (args => compute(...data.args.map(name => args[name])));
    const px = v => data.x[0] + data.x[1] * Math.log10(v), py = v => data.y[0] + data.y[1] * Math.log10(v);

    const set = { ...window.liveSettings(data, form, whole), ...own };
    const bars = data.results.map(r => r.share && box.querySelector(`[data-bar="${r.name}"]`));
    const rows = Object.entries(data.rows ?? {}).map(([name, label]) => [box.querySelector(`[data-row="${name}"]`), label]);

    // What a link asks for and does not get, until a control is moved.
    let stray = "";
    function strays(asked) {
      const others = new Map(set.query());
      const now = name => {
        const control = data.controls.find(c => c.name === name), field = form.elements[name];
        return control && !control.options ? set.size(control) : field ? field.value : others.get(name);
      };
      const lost = [...asked].filter(([name, v]) => `${now(name)}` !== v && Number(now(name)) !== Number(v || NaN));
      const all = lost.map(([name, v]) => `${name} = ${v.slice(0, 20)}`).join(", ");
      return all && `Not among this figure's settings, and so ignored: ${all}. ${set.refused(lost)}`;
    }

    function update() {
      const [args, said] = set.read(), values = find(args, said);
      for (const r of data.results) said[r.name] = r.words.length ? r.words[values[r.name]] ?? "unknown" : text(values[r.name], r.unit);
      data.results.forEach((r, n) => {
        if (cells[n]) cells[n].textContent = filled(said[r.name], said);
        if (data.layouts && cells[n]) cells[n].closest("tr").hidden = Number.isNaN(values[r.name]);
        if (!bars[n]) return;
        bars[n].style.width = `${(100 * values[r.name]) / values[r.share] || 0}%`;
        bars[n].closest("tr").hidden = !values[r.name];
      });
      if (data.alt) box.querySelector("svg title").textContent = filled(data.alt, said);
      for (const [row, label] of rows) {
        row.hidden = [...row.querySelectorAll("td span")].every(cell => Number.isNaN(values[cell.dataset.result]));
        row.firstChild.textContent = filled(label, said);
      }
      moving.forEach((shape, n) => {
        const known = data.moves[n].every(([, of]) => Number.isFinite(values[of]));
        shape.style.display = known ? "" : "none";
        if (known) for (const [name, of, factor, unit, start] of data.moves[n]) shape.setAttribute(name, `${(start + factor * values[of]).toFixed(2)}${unit}`);
      });
      data.marks.forEach(({ points }, n) => {
        const at = points.map(([x, y]) => [px(values[x]), py(values[y])]);
        marks[n].style.display = at.flat().every(Number.isFinite) ? "" : "none";
        if (marks[n].style.display) return;
        if (marks[n].tagName === "polyline") marks[n].setAttribute("points", at.map(p => p.join()).join(" "));
        else { marks[n].setAttribute("cx", at[0][0]); marks[n].setAttribute("cy", at[0][1]); }
      });
      const why = data.results.some(r => Number.isNaN(values[r.name])) && data.unknown;
      const sentence = stray + (said.say ? fill(said.say, said) : counted(filled(why || data.say, said)));
      if (status.textContent !== sentence) status.textContent = sentence;
    }

    // The first result stands in the page, as this would write it. So nothing waits for it: it is computed when the reader
    // comes near and the browser has time, which makes the first move quick, or when the page is printed.
    let watch = null;
    function begin() {
      watch?.disconnect();
      removeEventListener("beforeprint", begin);
      update();
      performance.mark(data.id);
    }

    // A setting can be linked to: #live-name?B=7&chip=H100
    const [target, query] = location.hash.slice(1).split("?"), asked = target === data.id && query && new URLSearchParams(query);
    if (asked) {
      set.link(asked);
      box.scrollIntoView();
      addEventListener("load", async () => { await document.fonts.ready; box.scrollIntoView(); }); // lines above may have moved
    }
    addEventListener("hashchange", () => location.hash.startsWith(`#${data.id}?`) && location.reload()); // another link to it
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", ({ target }) => {
      set.moved(target.name);
      stray = "";
      update();
    });
    form.addEventListener("change", () => history.replaceState(null, "", `#${data.id}?${new URLSearchParams(set.query())}`));
    form.hidden = false;
    if (asked) {
      begin();
      if (stray = strays(asked)) update();
    }
    performance.mark(`${data.id} ready`);
    if (asked) return;
    if (!window.IntersectionObserver) return begin();
    const idle = window.requestIdleCallback ?? setTimeout;
    watch = new IntersectionObserver(seen => {
      if (!seen.some(e => e.isIntersecting)) return;
      watch.disconnect();
      idle(begin);
    }, { rootMargin: "600px" });
    watch.observe(box);
    addEventListener("beforeprint", begin);
  }

  (window.liveFigures || []).forEach(start);
})();
