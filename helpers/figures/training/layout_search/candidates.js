// What the pages that rank layouts share: the set of helpers/figures/training/layout_search/candidates.py in its order, the prices that are traced from
// helpers/costs, and the words for what was found.
window.liveMeshes = (t, F) => {
  const fill = (say, by) => say.replace(/\{(\w+)\}/g, (_, name) => by[name]);

  // Every mesh, as [tp, cp, ep, fsdp, dp, pp], with the most microbatches that it may have.
  function* meshes({ may }, n, tokens, T) {
    const sequences = tokens / T;
    for (const pp of may.pp) for (const ep of may.ep) for (let cp = 1; cp <= Math.min(T, t.cp); cp *= 2) for (const tp of may.tp) {
      const rest = Math.floor(n / (pp * ep * cp * tp)), most = sequences / (ep * rest);
      if (!rest || most < 1) continue;
      yield [[tp, cp, ep, rest, 1, pp], most];
      if (rest > 1) yield [[tp, cp, ep, 1, rest, pp], most];
    }
  }

  // What prices layouts of a setting: the wires of a mesh, and a step, mesh by mesh.
  function pricing(model, chip, [place, inside], tokens, T) {
    const [C, through, hbm, W, dcn] = chip.speeds, [first, then] = model.at[chip.kind];
    const step = F[then](F[first](...model.sizes, tokens, T, C, through, hbm, inside, place.at(-1)));
    return { wires: mesh => F[chip.kind](W, dcn, ...place, ...mesh), step, hbm };
  }

  // The least by the first of its numbers, then the second, then the third; after these the earlier policy, mesh, microbatches.
  function least() {
    let some = [], edge = Infinity;
    return {
      offer(entry) {
        if (entry[0] > edge * t.near) return;
        edge = Math.min(edge, entry[0]);
        some.push(entry);
      },
      get found() {
        for (const n of [0, 1, 2]) {
          const low = Math.min(...some.map(e => e[n]));
          some = some.filter(e => e[n] <= low * t.near);
        }
        return some.sort((a, b) => a[3] - b[3] || a[4] - b[4] || a[5] - b[5])[0];
      },
    };
  }

  // What is sent beside the products, if a step takes its time for that.
  function heldUp(hidden, [math, through, ...sent]) {
    const most = Math.max(...sent);
    return most * t.near >= hidden && most > Math.max(math, through) ? 2 + sent.indexOf(most) : 0;
  }

  // What a step takes its time for, in words.
  function bound({ row }) {
    const parts = row.slice(t.times, t.times + t.parts), names = Object.keys(t.sent), sent = heldUp(row[0], parts);
    if (sent) return t.sent[names[sent]];
    const most = t.most[parts[0] >= parts[1] ? 0 : 1], axes = t.waited.filter(a => parts[names.indexOf(a)]).join(" and ");
    return axes ? fill(t.waiting, { most, axes }) : most;
  }

  function layout({ mesh: [tp, cp, ep, fsdp, dp, pp], zero, microbatches }, pods) {
    const all = Object.entries({ dp, fsdp, tp, pp, ep, cp, pods, zero, microbatches });
    return all.filter(([name, x]) => x !== (name === "zero" ? 0 : 1)).map(([name, x]) => `${name}=${x}`).join(" ") || "one chip";
  }

  return { meshes, pricing, least, heldUp, bound, layout };
};
