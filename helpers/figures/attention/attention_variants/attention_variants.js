// What attention moves: the forms of a phase, by the functions that helpers/figures/attention/attention_variants/variants.py has had traced from helpers/costs, at the
// chosen length and along the curves. figure_controls.js calls what this hands out.
window.liveAttention = (data, F, box, { text, whole, fill }) => {
  const { attention: t, controls, y } = data, form = box.querySelector("form"), fields = form.elements;
  const { size, set, move } = window.liveGrids(fields), grids = controls.filter(c => c.grid), menus = controls.filter(c => c.options);
  const lengths = controls.find(c => c.name === "S").grid, forms = Object.keys(t.short), KIB = 1024;
  const ticks = [...box.querySelectorAll("[data-tick]")], label = box.querySelector("[data-axis]"), alt = box.querySelector("svg title");
  const names = forms.map(name => box.querySelector(`[data-line="${name}"]`));
  const chip = () => t.chips[fields.chip.value], model = () => t.models[fields.model.value];
  const apply = sizes => grids.forEach(c => { if (c.name in sizes) set(c, sizes[c.name]); });
  form.addEventListener("input", ({ target }) => {
    if (target.name === "model") apply(model());
    if (target.name === "chip") apply(chip().sets);
    grids.forEach(c => { if (c.name === target.name) move(c, target); });
  });
  apply({ ...model(), ...chip().sets });

  // Every number of every form, for a number of tokens; unknown where the phase has no such form.
  function at(args, S, n, k, [fit, , back], C) {
    const { W, exps, gpu } = chip(), [x, s] = Object.values(t.widths)[k], known = t.phases[n][2];
    const numbers = { ...args, S, fit, back, gpu, x, s, C, W, exps: exps ?? Infinity };
    const row = C ? F[n](...t.args.map(name => numbers[name])) : [];
    return Object.fromEntries(forms.flatMap(name => t.what.map((what, m) => {
      const place = known.indexOf(name);
      return [`${name}_${what}`, C && place >= 0 ? row[place * t.what.length + m] : NaN];
    })));
  }

  // What is wrong, or what the chosen length says.
  function sentence(said, args, values, [, phase, known], fits, problem) {
    const [fit, need, back, needBack] = fits, own = ["N", "K", "H"].some(n => args[n] !== model()[n]);
    const wants = phase === "decode" ? [] : phase === "training" ? [[fit, need], [back, needBack]] : [[fit, need]];
    const no = wants.find(([most]) => !most), over = known.filter(name => values[`${name}_memory`] > chip().hbm);
    Object.assign(said, {
      who: own ? "Heads of your own" : said.model, fit: whole(fit), back: whole(back), smallest: t.smallest, hbm: text(chip().hbm, "B"),
      used: whole(Math.min(args.b, fit)), need: no && text(no[1], "B"),
      faster: text(values.fused_seconds / values.flash2_seconds, ""), share: text((100 * values.flash2_bytes) / values.fused_bytes, ""),
      names: over.map(name => t.short[name]).join(", "),
    });
    if (problem) return problem;
    const tight = wants.some(([most]) => args.b > most) ? (phase === "training" ? t.tightBack : t.tight) : "";
    const sooner = Number.isNaN(values.flash3_seconds) ? "" : t.sooner;
    return (no ? t.where + t.noBlock : t.where + t.says[phase] + sooner + tight) + (over.length ? t.lacks : "");
  }

  // What stands in the way of any number.
  function wrong(said, args, k) {
    if (args.N % args.K) {
      const near = F.at(-1)(args.N, args.K);
      return fill(t.heads, { ...said, fit: whole(near.fit), near: whole(near.near) });
    }
    return chip().C[k] ? "" : fill(t.noRate, { ...said, other: Object.keys(t.chips).find(name => t.chips[name].C[k]) });
  }

  // The vertical axis has as many decades as the lines need; what stands beside their ends moves apart.
  function scale(values, unit) {
    const seen = Object.entries(values).filter(([name, v]) => forms.includes(name.replace(/\d+$/, "")) && !Number.isNaN(v)).map(([, v]) => v);
    const low = seen.length ? Math.floor(Math.log10(Math.min(...seen))) : 0;
    const high = Math.max(seen.length ? Math.ceil(Math.log10(Math.max(...seen))) : 1, low + 1);
    const [top, foot] = t.box, px = e => y[0] + y[1] * e;
    y[1] = (top - foot) / (high - low);
    y[0] = foot - y[1] * low;
    ticks.forEach((tick, k) => {
      const e = low + k;
      tick.style.display = e > high ? "none" : "";
      if (e > high) return;
      tick.setAttribute("transform", `translate(0,${px(e).toFixed(1)})`);
      const [number, prefixed] = text(10 ** e, unit).split(" ");
      tick.querySelector("text").textContent = `${number.includes(".") ? number.replace(/\.?0+$/, "") : number} ${prefixed.slice(0, -unit.length)}`.trim();
    });
    Object.assign(values, { low: 10 ** low, high: 10 ** high });
    const ends = forms.map((name, n) => [names[n], px(Math.log10(values[`${name}${lengths.length - 1}`]))]).filter(([, v]) => Number.isFinite(v));
    ends.sort((a, b) => a[1] - b[1]);
    ends.reduce((least, end) => (end[1] = Math.max(end[1], least)) + t.gap, top);
    ends.reduceRight((most, end) => (end[1] = Math.min(end[1], most)) - t.gap, foot);
    for (const name of names) name.style.display = "none";
    for (const [name, v] of ends) {
      name.style.display = "";
      name.setAttribute("y", (v + 4).toFixed(1));
    }
  }

  return {
    size,
    find(args, said) {
      const n = t.phases.findIndex(([name]) => name === said.phase), k = Object.keys(t.widths).indexOf(said.widths);
      const [what, unit] = t.charts[said.chart], problem = wrong(said, args, k), C = problem ? 0 : chip().C[k];
      const from = 4 * (2 * k + chip().gpu), fits = F[t.phases.length](args.M * KIB, args.H).slice(from, from + 4);
      const there = S => at(args, S, n, k, fits, C), values = there(args.S);
      const over = v => (v > chip().hbm ? fill(t.over, { hbm: text(chip().hbm, "B") }) : "");
      lengths.forEach((S, m) => {
        const found = there(S);
        values[`x${m}`] = S;
        for (const name of forms) values[`${name}${m}`] = found[`${name}_${what}`];
      });
      for (const name of forms) values[`${name}_at`] = values[`${name}_${what}`];
      values.at = args.S;
      scale(values, unit);
      label.textContent = unit === "s" ? `${said.chart}, ${unit}` : said.chart;
      alt.textContent = `${said.chart[0].toUpperCase()}${said.chart.slice(1)}${alt.textContent.slice(alt.textContent.indexOf(" of each"))}`;
      said.say = sentence(said, args, values, t.phases[n], fits, problem);
      for (const row of box.querySelectorAll("[data-form]")) row.hidden = Number.isNaN(values[`${row.dataset.form}_bytes`]);
      for (const span of box.querySelectorAll("[data-over]")) span.textContent = over(values[`${span.dataset.over}_memory`]);
      return values;
    },
    // A link has numbers, not places on a slider.
    link(asked) {
      for (const c of menus) if (Object.hasOwn(c.options, asked.get(c.name) ?? "")) fields[c.name].value = asked.get(c.name);
      apply({ ...model(), ...chip().sets });
      for (const c of grids) {
        const v = Number(asked.get(c.name));
        if (Number.isInteger(v) && v >= c.grid[0] && v <= c.grid.at(-1)) set(c, v);
      }
    },
    query: () => controls.filter(c => c.options || size(c) !== ({ ...model(), ...chip().sets }[c.name] ?? c.value))
      .map(c => [c.name, c.options ? fields[c.name].value : size(c)]),
  };
};
