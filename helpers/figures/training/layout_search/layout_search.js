// The best layout of a setting, found by candidates.js. figure_controls.js calls what this hands out.
window.liveLayouts = ({ layouts: t, results }, { F, rank }, box, { text, whole, fill }) => {
  const cells = [...box.querySelectorAll("[data-say]")];
  const { meshes, pricing, search, longest, layout } = window.liveMeshes(t, F, rank);

  // The layout that suits best, or whether one fits; if none does, the one that needs least memory.
  function best(model, chip, place, { n, tokens, T }, policies, any) {
    const prices = pricing(model, chip, place, tokens, T, t.stored), found = search(prices, meshes(model, n, tokens, T), policies, any), first = found.rows?.[0];
    return first ? { ...found, ...first, row: prices.all(first) } : found;
  }

  // Why nothing was found, in words.
  function problem(said, args, found, model, chip, policies) {
    const { n, tokens, T } = args, last = chip.places.length - 1;
    if (!said.place) return fill(t.many, { ...said, most: whole(2 ** last), place: chip.places[last][2] });
    if (tokens < T) return t.short;
    if (!found.row) {
      let need = 2 * tokens;
      while (meshes(model, n, need, T).next().done) need *= 2;
      return fill(t.few, { ...said, sequences: whole(tokens / T), need: whole(need) });
    }
    const more = chip.places.findIndex((p, k) => 2 ** k > n && best(model, chip, p, { ...args, n: 2 ** k }, policies, true).fitting);
    const larger = more < 0 ? t.noMore : fill(t.more, { least: whole(2 ** more), larger: chip.places[more][2] });
    return fill(t.lacks, { ...said, missing: text(found.row[1] - chip.speeds[2], "B"), more: larger });
  }

  return {
    find(args, said) {
      const model = t.models[said.model], chip = t.chips[said.chip], { n, tokens, T } = args, place = chip.places[Math.log2(n)];
      const policies = said.keep === t.any ? t.kept.map((_, p) => p) : [t.kept.indexOf(said.keep)];
      const found = place && tokens >= T ? best(model, chip, place, args, policies) : { tried: 0, fitting: 0 };
      const values = Object.fromEntries(t.names.map((name, k) => {
        const shown = found.row && (found.fitting || k === 1 || k >= t.times + t.parts);
        return [name, shown ? found.row[k] : NaN];
      }));
      for (const cell of cells) said[cell.dataset.say] = t.none;
      const { tried, fitting, policy } = found;
      if (found.row) Object.assign(said, { tried: whole(tried), fitting: whole(fitting), layout: layout(found, place[0]), policy: t.kept[policy] });
      if (found.fitting) said.most = box.querySelector(`[data-result=${longest(found.row)}]`).closest("tr").firstChild.textContent;
      Object.assign(said, { place: place?.[2], hbm: text(chip.speeds[2], "B") });
      for (const r of results) said[r.name] = text(values[r.name], r.unit);
      said.say = found.fitting ? t.best : problem(said, args, found, model, chip, policies);
      for (const cell of cells) cell.textContent = said[cell.dataset.say];
      return Object.assign(values, { m_all: Math.max(chip.speeds[2], values.memory) });
    },
  };
};
