// The best layout: loops over the layouts of helpers/figures/training/layout_search/candidates.py, in its order, and prices each with the functions
// traced from helpers/costs. figure_controls.js calls what this hands out.
window.liveLayouts = ({ layouts: t, controls, results }, F, box, { text, whole, fill }) => {
  const fields = box.querySelector("form").elements;
  const bars = [...box.querySelectorAll("[data-bar]")], cells = [...box.querySelectorAll("[data-say]")];
  const { meshes, pricing, least, heldUp, bound, layout } = window.liveMeshes(t, F), width = t.names.length, brief = 2 * t.kept.length;

  // Entries of `least`: seconds, bytes (or bytes, seconds if nothing fits), zero, policy, number of the mesh, microbatches, mesh.
  function search(model, chip, place, n, tokens, T, policies, any) {
    const { wires, step, hbm } = pricing(model, chip, place, tokens, T), fast = least(), small = least();
    let tried = 0, fitting = 0, number = 0;
    for (const [mesh, most] of meshes(model, n, tokens, T)) {
      const on = wires(mesh), zeros = mesh[1] * mesh[2] * mesh[4] > 1 ? 4 : 1;
      number++;
      for (let zero = 0; zero < zeros; zero++) {
        const price = step(...mesh, zero, ...on);
        tried += policies.length * (1 + Math.log2(most));
        for (let microbatches = most, fits = true; microbatches >= 1 && fits; microbatches /= 2) { // fewer microbatches need more memory
          const row = price(microbatches);
          fits = false;
          for (const p of policies) {
            const seconds = row[2 * p], bytes = row[2 * p + 1];
            if (bytes <= hbm) {
              fitting++;
              fits = true;
              fast.offer([seconds, bytes, zero, p, number, microbatches, mesh]);
            } else if (!fitting) small.offer([bytes, seconds, zero, p, number, microbatches, mesh]);
          }
          if (any && fits) return { tried, fitting };
        }
      }
    }
    const best = fitting ? fast.found : small.found;
    if (!best) return { tried, fitting };
    const [, , zero, policy, , microbatches, mesh] = best, row = step(...mesh, zero, ...wires(mesh))(microbatches, true);
    return { tried, fitting, zero, policy, microbatches, mesh, row: row.slice(brief + width * policy, brief + width * (policy + 1)) };
  }

  // The first batch that arithmetic bounds on this mesh, with some microbatches that fit.
  function enough(model, chip, place, T, { mesh, zero, policy }) {
    for (let tokens = 2 ** t.tokens[0]; tokens <= 2 ** t.tokens[1]; tokens *= 2) {
      const { wires, step, hbm } = pricing(model, chip, place, tokens, T), price = step(...mesh, zero, ...wires(mesh));
      for (let microbatches = tokens / T / (mesh[2] * mesh[3] * mesh[4]); microbatches >= 1; microbatches /= 2) {
        const row = price(microbatches, true).slice(brief + width * policy), parts = row.slice(t.times, t.times + t.parts);
        if (row[1] <= hbm && parts[0] >= parts[1] && !heldUp(row[0], parts)) return `${whole(tokens)} tokens`;
      }
    }
    return fill(t.never, { most: whole(2 ** t.tokens[1]) });
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
        return [name, shown ? found.row[k] * (["mfu", "bubble"].includes(name) ? 100 : 1) : NaN];
      }));
      values.waits = values.hidden - values.t0;
      for (const cell of cells) said[cell.dataset.say] = t.none;
      const { tried, fitting, policy } = found;
      if (found.row) Object.assign(said, { tried: whole(tried), fitting: whole(fitting), layout: layout(found, place[0].at(-1)), policy: t.kept[policy] });
      if (found.fitting) {
        said.bound = bound(found);
        said.enough = enough(model, chip, place, T, found);
      }
      Object.assign(said, { place: place?.[2], hbm: text(chip.speeds[2], "B") });
      for (const r of results) said[r.name] = text(values[r.name], r.unit);
      said.say = found.fitting ? t.best : problem(said, args, found, model, chip, policies);
      for (const cell of cells) cell.textContent = said[cell.dataset.say];
      for (const bar of bars) {
        const name = bar.dataset.bar, of = name[0] === "t" ? values.upper : Math.max(chip.speeds[2], values.memory);
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
