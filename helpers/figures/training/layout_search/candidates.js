// What the pages that rank layouts share: the search of helpers/costs/training/layout_search.py, with prices and ranks that are traced from there, and
// the words for what was found.
window.liveMeshes = (t, F, rank) => {
  const width = t.names.length, brief = 3 * t.kept.length + 1, known = {};

  function divisors(n) {
    if (!known[n]) {
      const low = [];
      for (let d = 1; d * d <= n; d++) if (n % d === 0) low.push(d, n / d);
      known[n] = [...new Set(low)].sort((a, b) => a - b);
    }
    return known[n];
  }

  const nothing = {}, among = (some, given) => given === undefined ? some : some.filter(x => x === given);

  // Every [tp, cp, ep, pp, dp·fsdp] of n chips, with the most microbatches that it may have; `given` are sizes that are not searched.
  function* meshes({ may }, n, tokens, T, given = nothing) {
    const [pps, eps, cps, tps] = ["pp", "ep", "cp", "tp"].map(axis => among(may[axis] ?? divisors(T), given[axis]));
    for (const pp of pps) for (const ep of eps) for (const cp of cps) for (const tp of tps) {
      const data = n / (pp * ep * cp * tp), most = tokens / T / (ep * data);
      if (data % 1 === 0 && most % 1 === 0) yield [[tp, cp, ep, pp, data], most];
    }
  }

  // What prices layouts of a setting: of a mesh and its microbatches, a function of fsdp and zero; and all that is known of one layout.
  function pricing(model, chip, [pods, inside], tokens, T, stored) {
    const [first, then] = model.at[chip.kind], step = F[then](F[first](...model.sizes, tokens, T, ...chip.speeds, inside, pods, ...stored));
    const price = ([tp, cp, ep, fsdp, dp, pp], zero, microbatches, v) => step(tp, cp, ep, pp, dp * fsdp, microbatches)(fsdp, zero, v, true);
    const all = r => price(r.mesh, r.zero, r.microbatches, r.v).slice(brief + width * r.policy, brief + width * (r.policy + 1));
    const pieces = (pp, given) => (given === undefined ? t.pieces : [given]).filter(v => v === 1 || (pp > 1 && pp * v <= model.sizes[t.depth] + t.tables));
    return { step, price, all, pieces, hbm: chip.speeds[2] };
  }

  const sooner = (a, b) => { for (let n = 0; n < a.length; n++) if (a[n] !== b[n]) return a[n] - b[n]; return 0; };

  // A layout with its seconds, careful ones and bytes of one policy, and its rank.
  function ranked([mesh, zero, microbatches, v, policy, row], hbm, edges) {
    const [seconds, careful, memory] = row.slice(3 * policy), exposed = row[brief - 1];
    const fields = rank(...mesh, zero, microbatches, v, careful, memory, exposed, hbm, edges[exposed]);
    return { mesh, zero, microbatches, v, policy, seconds, memory, rank: [...fields, ...mesh, policy], fits: memory <= hbm };
  }

  // All meshes, the best first, each with the setting that suits it. What is given is not searched.
  function search({ step, pieces, hbm }, some, policies, given = nothing) {
    const meshes = [], low = [Infinity, Infinity];
    for (const [[tp, cp, ep, pp, data], most] of some) {
      const counts = among(divisors(most), given.microbatches);
      let open = among(divisors(data), given.fsdp).filter(fsdp => !given.dp || data / fsdp === given.dp).flatMap(fsdp => {
        const dp = data / fsdp, sizes = [tp, cp, ep, fsdp, dp, pp], mesh = { sizes, least: Infinity, may: [] };
        meshes.push(mesh);
        const zeros = given.zero === undefined ? [0, 1, 2, 3].slice(0, dp > 1 ? 3 : cp * ep > 1 ? 4 : 1) : [given.zero];
        return zeros.flatMap(zero => pieces(pp, given.v).map(v => [mesh, zero, v]));
      });
      for (let k = counts.length; k-- && open.length;) { // fewer microbatches need more memory
        const price = step(tp, cp, ep, pp, data, counts[k]);
        open = open.filter(([mesh, zero, v]) => {
          if (v > 1 && counts[k] % pp) return true;
          const row = price(mesh.sizes[3], zero, v), exposed = row[brief - 1];
          let some = false;
          for (const policy of policies) {
            const fits = row[3 * policy + 2] <= hbm, by = row[3 * policy + (fits ? 1 : 2)];
            if (fits) {
              some = true;
              low[exposed] = Math.min(low[exposed], by);
              if (!mesh.fits) Object.assign(mesh, { fits, least: Infinity, may: [] });
            } else if (mesh.fits) continue;
            // Only what may come first in the end: what may be as good as the best, the fastest, or the smallest.
            if (by <= t.near * mesh.least || (fits && by <= t.equal * low[exposed])) mesh.may.push([mesh.sizes, zero, counts[k], v, policy, row]);
            mesh.least = Math.min(mesh.least, by);
          }
          return some;
        });
      }
    }
    const edges = low.map(x => t.equal * x);
    const rows = meshes.map(({ fits, least, may }) => {
      const close = ([, , , , policy, row]) => !fits || row[3 * policy + 1] <= Math.max(edges[row[brief - 1]], t.near * least);
      return sorted(may.filter(close).map(r => ranked(r, hbm, edges)))[0]; // nothing, where what is given leaves a mesh no setting
    });
    return { rows: sorted(rows.filter(r => r)), edges };
  }

  const sorted = rows => rows.sort((a, b) => sooner(a.rank, b.rank));

  // Of ranked meshes the first of each line of a list, with the fsdp of the others: `designs` of layout_search.py.
  function designs(rows) {
    const last = {}, lines = [];
    for (const r of rows) {
      const [tp, cp, ep, fsdp, , pp] = r.mesh, design = [tp, cp, ep, pp, r.fits].join(), line = last[design];
      if (line && (!r.fits || r.seconds <= t.alike * line.seconds)) line.also.push(fsdp);
      else lines.push(last[design] = Object.assign(r, { also: [] }));
    }
    for (const { also } of lines) also.sort((a, b) => a - b);
    return lines;
  }

  // Which result a step takes longest for, kernels of its layers apart.
  function longest(row) {
    const parts = row.slice(t.times + 2, t.times + t.parts);
    return `t${2 + parts.indexOf(Math.max(...parts))}`;
  }

  function layout({ mesh: [tp, cp, ep, fsdp, dp, pp], zero, microbatches, v }, pods) {
    const all = Object.entries({ dp, fsdp, tp, pp, ep, cp, pods, zero, microbatches, v });
    return all.filter(([name, x]) => x !== (name === "zero" ? 0 : 1)).map(([name, x]) => `${name}=${x}`).join(" ") || "one chip";
  }

  return { meshes, pricing, search, ranked, sorted, designs, longest, layout };
};
