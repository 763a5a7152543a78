// What the pages that rank layouts share: the set of helpers/figures/training/layout_search/candidates.py in its order, the prices that are traced from
// helpers/costs, and the words for what was found.
window.liveMeshes = (t, F) => {
  const width = t.names.length, brief = 3 * t.kept.length;
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

  // What prices layouts of a setting: of a mesh and a zero, a function of microbatches.
  function pricing(model, chip, [pods, inside], tokens, T) {
    const [first, then] = model.at[chip.kind], step = F[then](F[first](...model.sizes, tokens, T, ...chip.speeds, inside, pods));
    const all = (mesh, zero, microbatches, policy) =>
      step(...mesh, zero)(microbatches, true).slice(brief + width * policy, brief + width * (policy + 1));
    return { step, all, hbm: chip.speeds[2] };
  }

  const digits = x => Number(x.toPrecision(9));
  const simple = (mesh, zero, microbatches, bytes) => [mesh.filter(n => n > 1).length, Number(mesh[5] > 1), microbatches, zero, digits(bytes)];

  // Of those up to a limit, or within a factor of the least, the first by the keys that were offered with it, in order.
  function least(near) {
    let some = [], low = Infinity;
    const sooner = (a, b) => { for (let n = 0; n < a.length; n++) if (a[n] !== b[n]) return a[n] - b[n]; return 0; };
    return {
      offer(by, keys, entry) {
        if (by > low * near) return;
        low = Math.min(low, by);
        some.push([by, keys, entry]);
      },
      get low() { return low; },
      found(edge = 0) { return some.filter(e => e[0] <= (low <= edge ? edge : low * near)).sort((a, b) => sooner(a[1], b[1]))[0]?.[2]; },
    };
  }

  // Which result a step takes longest for, kernels of its layers apart.
  function longest(row) {
    const parts = row.slice(t.times + 2, t.times + t.parts);
    return `t${2 + parts.indexOf(Math.max(...parts))}`;
  }

  // Every setting of a mesh that need be priced, to `offer` of each; whether one of them fits.
  function settings({ step, hbm }, mesh, most, zeros, policies, number, offer) {
    let any = false;
    for (let zero = 0; zero < zeros; zero++) {
      const price = step(...mesh, zero);
      for (let microbatches = most, fits = true; microbatches >= 1 && fits; microbatches /= 2) { // fewer microbatches need more memory
        const row = price(microbatches);
        fits = false;
        for (const policy of policies) {
          const [seconds, memory, rank] = row.slice(3 * policy, 3 * policy + 3);
          if (memory <= hbm) any = fits = true;
          offer({ mesh, zero, policy, microbatches, seconds, memory, rank }, hbm, number);
        }
      }
    }
    return any;
  }

  // The setting of a mesh, or of all of them, that suits: `offer` every one, then see `found`.
  function suited() {
    const fast = least(t.equal), small = least(t.near);
    return {
      fits: false,
      offer(entry, hbm, number) {
        const { mesh, zero, policy, microbatches, rank, memory } = entry;
        if (memory <= hbm) {
          this.fits = true;
          fast.offer(rank, [...simple(mesh, zero, microbatches, memory), policy, number], entry);
        } else if (!this.fits) small.offer(memory, [-microbatches, digits(rank), zero, policy, number], entry);
      },
      get fastest() { return fast.low; },
      found(edge) { return (this.fits ? fast : small).found(this.fits ? edge : 0); },
    };
  }

  function layout({ mesh: [tp, cp, ep, fsdp, dp, pp], zero, microbatches }, pods) {
    const all = Object.entries({ dp, fsdp, tp, pp, ep, cp, pods, zero, microbatches });
    return all.filter(([name, x]) => x !== (name === "zero" ? 0 : 1)).map(([name, x]) => `${name}=${x}`).join(" ") || "one chip";
  }

  return { meshes, pricing, settings, suited, simple, digits, longest, layout };
};
