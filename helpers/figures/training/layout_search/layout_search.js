// The best layout: loops over the layouts of helpers/figures/training/layout_search/candidates.py, in its order, and prices each with the functions
// traced from helpers/costs. figure_controls.js calls what this hands out.
window.liveLayouts = ({ layouts: t, controls, results }, F, box, { text, whole, fill }) => {
  const fields = box.querySelector("form").elements;
  const bars = [...box.querySelectorAll("[data-bar]")], cells = [...box.querySelectorAll("[data-say]")];
  const { meshes, pricing, settings, suited, longest, layout } = window.liveMeshes(t, F);

  // The setting that suits best; with `any` only whether one fits.
  function search(model, chip, place, n, tokens, T, policies, any) {
    const prices = pricing(model, chip, place, tokens, T), best = suited();
    let tried = 0, fitting = 0, number = 0;
    const offer = (entry, hbm, number) => {
      if (entry.memory <= hbm) fitting++;
      best.offer(entry, hbm, number);
    };
    for (const [mesh, most] of meshes(model, n, tokens, T)) {
      const zeros = mesh[1] * mesh[2] * mesh[4] > 1 ? 4 : 1;
      tried += zeros * policies.length * (1 + Math.log2(most));
      if (settings(prices, mesh, most, zeros, policies, number++, offer) && any) return { tried, fitting };
    }
    const found = best.found();
    return found ? { tried, fitting, ...found, row: prices.all(found.mesh, found.zero, found.microbatches, found.policy) } : { tried, fitting };
  }

  // Why nothing was found, in words.
  function problem(said, args, found, model, chip, policies) {
    const { n, tokens, T } = args, hbm = chip.speeds[2], last = chip.places.length - 1, place = chip.places[Math.log2(n)];
    if (!place) return fill(t.many, { ...said, most: whole(2 ** last), place: chip.places[last][2] });
    if (tokens < T) return t.short;
    if (!found.row) {
      let need = 2 * tokens;
      while (meshes(model, n, need, T).next().done) need *= 2;
      return fill(t.few, { ...said, sequences: whole(tokens / T), need: whole(need) });
    }
    const more = chip.places.findIndex((p, k) => 2 ** k > n && search(model, chip, p, 2 ** k, tokens, T, policies, true).fitting);
    const larger = more < 0 ? t.noMore : fill(t.more, { least: whole(2 ** more), larger: chip.places[more][2] });
    return fill(t.lacks, { ...said, missing: text(found.row[1] - hbm, "B"), more: larger });
  }

  return {
    size: c => 2 ** fields[c.name].value,
    find(args, said) {
      const model = t.models[said.model], chip = t.chips[said.chip], { n, tokens, T } = args, place = chip.places[Math.log2(n)];
      const policies = said.keep === t.any ? t.kept.map((_, p) => p) : [t.kept.indexOf(said.keep)];
      const found = place && tokens >= T ? search(model, chip, place, n, tokens, T, policies) : { tried: 0, fitting: 0 };
      const values = Object.fromEntries(t.names.map((name, k) => {
        const shown = found.row && (found.fitting || k === 1 || k >= t.times + t.parts);
        return [name, shown ? found.row[k] * (["mfu", "hfu"].includes(name) ? 100 : 1) : NaN];
      }));
      for (const cell of cells) said[cell.dataset.say] = t.none;
      const { tried, fitting, policy } = found;
      if (found.row) Object.assign(said, { tried: whole(tried), fitting: whole(fitting), layout: layout(found, place[0]), policy: t.kept[policy] });
      if (found.fitting) said.most = box.querySelector(`[data-result=${longest(found.row)}]`).closest("tr").firstChild.textContent;
      Object.assign(said, { place: place?.[2], hbm: text(chip.speeds[2], "B") });
      for (const r of results) said[r.name] = text(values[r.name], r.unit);
      said.say = found.fitting ? t.best : problem(said, args, found, model, chip, policies);
      for (const cell of cells) cell.textContent = said[cell.dataset.say];
      for (const bar of bars) {
        const name = bar.dataset.bar, of = name[0] === "t" ? values.mid : Math.max(chip.speeds[2], values.memory);
        bar.style.width = `${(100 * values[name]) / of || 0}%`;
        bar.closest("tr").hidden = values[name] === 0;
      }
      return values;
    },
    // A link has numbers of chips and tokens, not places on a slider.
    link(asked) {
      for (const c of controls) {
        const value = asked.get(c.name) ?? "", place = Math.log2(value);
        if (c.options ? Object.hasOwn(c.options, value) : Number.isInteger(place) && place >= fields[c.name].min && place <= fields[c.name].max)
          fields[c.name].value = c.options ? value : place;
      }
    },
    query: () => controls.map(c => [c.name, c.options ? fields[c.name].value : 2 ** fields[c.name].value]),
  };
};
