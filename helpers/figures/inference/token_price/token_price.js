// What a token costs: looks at every cut of a model over chips, and prices each with the functions that helpers/figures/inference/token_price/decode_step.py
// has had traced from helpers/costs. figure_controls.js calls what this hands out.
window.liveServing = ({ serving: t, controls, results, x, y }, F, box, { text, whole, fill }) => {
  const cells = [...box.querySelectorAll("[data-say]")];
  const names = [...box.querySelectorAll("[data-batch]")], batches = controls.find(c => c.name === "B").grid;

  // Every cut on these chips: the number of chips that share heads, and the function of a batch.
  function cuts(model, chip, [shape, n, ways], { w, cache, S }) {
    const [first, then] = model.at, on = F[then](F[first](...model.sizes, ...chip.speeds, w, cache, S, n));
    return ways.map(Y => [Y, n / Y, on(Y, n / Y, ...F[chip.kind](chip.speeds[3], ...shape, Y, n / Y))]);
  }

  // The quickest cut that fits, or the one that needs least memory: [seconds, tokens/s of a chip, bytes, most], and the cut.
  function best(some, B, hbm) {
    let found, most = 0;
    for (const cut of some) {
      const row = cut[2](B), fits = row[2] <= hbm;
      most = Math.max(most, row[3]);
      const key = fits ? [0, row[0]] : [1, row[2], row[0]];
      const k = found ? key.findIndex((v, m) => v !== found.key[m]) : 0;
      if (k >= 0 && (!found || key[k] < found.key[k])) found = { key, row, cut, fits };
    }
    return { ...found, most };
  }

  function curve(some, hbm, values) {
    const points = some && batches.map(B => best(some, B, hbm)), good = points?.filter(p => p.fits).length ?? 0;
    batches.forEach((_, n) => {
      const held = good ? points[Math.min(n, good - 1)].row : [NaN, NaN];
      const beyond = points && good < batches.length ? points[Math.max(n, good - 1, 0)].row : [NaN, NaN];
      Object.assign(values, { [`x${n}`]: held[0], [`y${n}`]: held[1], [`u${n}`]: beyond[0], [`v${n}`]: beyond[1] });
    });
    for (const name of names) { // which batch is where
      const n = name.dataset.batch, shown = n < good;
      name.style.display = shown ? "" : "none";
      if (!shown) continue;
      name.setAttribute("x", x[0] - 8 + x[1] * Math.log10(values[`x${n}`]));
      name.setAttribute("y", y[0] - 6 + y[1] * Math.log10(values[`y${n}`]));
    }
  }

  // Why it does not fit, and what would, in words.
  function lacks(said, args, found, model, chip) {
    const fit = (p, k) => 2 ** k <= model.most && best(cuts(model, chip, p, args), args.B, chip.speeds[2]).fits;
    const k = chip.places.findIndex(fit), by = { ...said, least: whole(2 ** k), larger: chip.places[k]?.[3] };
    const more = k < 0 ? t.noMore : fill(t.more, by);
    const less = fill(found.most ? t.less : t.notOne, said);
    return fill(t.lacks, { ...said, missing: text(found.row[2] - chip.speeds[2], "B"), less, more });
  }

  return {
    find(args, said) {
      const model = t.models[said.model], chip = t.chips[said.chip], hbm = chip.speeds[2], place = chip.places[Math.log2(args.n)];
      const some = place && args.n <= model.most ? cuts(model, chip, place, args) : null;
      const found = some && best(some, args.B, hbm), row = found?.cut[2](args.B, true);
      const values = Object.fromEntries(t.names.map((name, k) => [name, row && (found.fits || t.always.includes(name)) ? row[k] : NaN]));
      curve(some, hbm, values);
      const [dot, ring] = [found?.fits, found && !found.fits].map(shown => (shown ? found.row : [NaN, NaN]));
      Object.assign(values, { dot_x: dot[0], dot_y: dot[1], ring_x: ring[0], ring_y: ring[1] });
      for (const cell of cells) said[cell.dataset.say] = t.none;
      for (const r of results) said[r.name] = text(values[r.name], r.unit);
      if (found) {
        const [Y, Z] = found.cut;
        Object.assign(said, { cut: fill(t.cut, { Y, Z }), most: whole(found.most), critical: `B = ${whole(values.critical)}` });
        if (found.fits) said.bound = t.words[values.bound];
      }
      Object.assign(said, { place: place?.[3], hbm: text(hbm, "B"), heads: model.N, last: whole(Math.min(2 ** (chip.places.length - 1), model.most)) });
      said.say = found?.fits ? fill(t.fits, said) : found ? lacks(said, args, found, model, chip) : fill(place ? t.heads : t.many, said);
      for (const cell of cells) cell.textContent = said[cell.dataset.say];
      const spent = t.names.filter(n => n.startsWith("t_")).reduce((sum, n) => sum + values[n], 0);
      return Object.assign(values, { t_all: spent, m_all: values.held + values.free });
    },
  };
};
