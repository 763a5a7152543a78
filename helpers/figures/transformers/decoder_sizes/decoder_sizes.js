// The sliders of a decoder: a menu of models sets them to exact sizes, which stay until a slider itself is moved.
// Numbers come from the traced functions of helpers/figures/transformers/decoder_sizes/decoder.py; figure_controls.js calls what this hands out.
window.liveDecoder = ({ decoder: t, controls, results, ...data }, [counts, heads], box, { text, whole }) => {
  const form = box.querySelector("form"), fields = form.elements, { size, set, move } = window.liveGrids(fields);
  const grids = controls.filter(c => c.grid), menus = controls.filter(c => c.options);
  const bars = Object.entries(t.shares).map(([name, all]) => [name, all, box.querySelector(`[data-bar="${name}"]`)]);
  const note = box.querySelector(".live-unused");
  const model = () => t.models[fields.start.value];
  const used = name => !t.sizes.includes(name) || name in model();
  const restart = () => grids.forEach(c => { if (c.name in model()) set(c, model()[c.name]); });
  form.addEventListener("input", ({ target }) => {
    if (target.name === "start") restart();
    grids.forEach(c => { if (c.name === target.name) move(c, target); });
  });
  restart();

  function still() { // sliders that this structure has no use for
    const idle = grids.filter(c => !used(c.name));
    for (const c of grids) fields[c.name].disabled = !used(c.name);
    for (const c of idle) {
      fields[c.name].setAttribute("aria-valuetext", "not used");
      fields[c.name].nextElementSibling.textContent = "not used";
    }
    const said = (idle.length ? t.unused : t.all).replace("{model}", fields.start.value).replace("{unused}", idle.map(c => c.label).join("; "));
    if (note.textContent !== said) note.textContent = said;
  }

  return {
    size,
    find(args, said) {
      const numbers = data.args.slice(1).map(name => args[name]), width = results.length + 1;
      const [wrong, ...row] = counts(...numbers).slice(args.family * width, (args.family + 1) * width);
      const values = Object.fromEntries(results.map((r, n) => [r.name, wrong ? NaN : row[n]]));
      for (const [name, all, bar] of bars) {
        bar.style.width = `${(100 * values[name]) / values[all] || 0}%`;
        bar.closest("tr").hidden = values[name] === 0;
      }
      still();
      const changed = grids.some(c => c.name in model() && size(c) !== model()[c.name]), near = heads(args.N, args.K);
      said.who = (changed ? "Changed from " : "") + said.start;
      said.positions = whole(model().positions);
      said.fit = whole(near.fit);
      said.near = whole(near.near);
      said.note = model().positions && args.T > model().positions ? t.note.replace("{positions}", said.positions) : "";
      said.say = t.problems[wrong] || (values.active === values.total ? t.say : t.experts);
      return values;
    },
    // What a link says of a setting, and a setting as a link: the model, and sizes where they are others.
    link(asked) {
      for (const c of menus) if (Object.hasOwn(c.options, asked.get(c.name) ?? "")) fields[c.name].value = asked.get(c.name);
      restart();
      for (const c of grids) {
        const n = Number(asked.get(c.name));
        if (used(c.name) && Number.isInteger(n) && n >= c.grid[0] && n <= c.grid.at(-1)) set(c, n);
      }
    },
    query: () => controls.filter(c => c.options || (used(c.name) && size(c) !== (model()[c.name] ?? c.value)))
      .map(c => [c.name, c.options ? fields[c.name].value : size(c)]),
  };
};
