// Deployments for serving, as helpers/figures/inference/planner/serving.py ranks them and promises.py speaks of them, with the functions that
// deployments.py has had traced from helpers/costs.
window.liveDeployments = (t, G, { text, whole, fill }) => {
  const s = t.serve, digits = x => Number(x.toPrecision(9)), half = x => Math.floor(x / 2);
  const sooner = (a, b) => { for (let n = 0; n < a.length; n++) if (a[n] !== b[n]) return a[n] < b[n] ? -1 : 1; return 0; };
  const first = some => some.reduce((best, r) => (best && sooner(best.key, r.key) <= 0 ? best : r), null);

  // Ways to lay one replica over chips: [tp, dp, ep, pp, whether halves of a batch overlap].
  function* shapes({ N, L, E }, moe, domain) {
    for (let size = 1; size <= Math.min(s.most, Math.max(s.largest, domain)); size *= 2) {
      let inside = Math.min(size, domain);
      while (inside > N) inside = half(inside);
      if (size <= domain && inside === size) yield [size, 1, 1, 1, 0];
      else if (!moe && Math.floor(size / inside) <= L) yield [inside, 1, 1, Math.floor(size / inside), 0];
      if (moe && size > 1 && E % size === 0) for (let tp = inside; tp >= 1; tp = half(tp))
        for (const overlap of size > domain ? [0, 1] : [0]) yield [tp, Math.floor(size / tp), size, 1, overlap];
    }
  }

  const words = ([tp, dp, ep, pp, overlap]) =>
    [...Object.entries({ tp, dp, ep, pp }).filter(([, n]) => n > 1).map(e => e.join("=")), ...(overlap ? ["overlap=True"] : [])].join(" ") || "one chip";
  const name = ([tp, dp, ep, pp, overlap], batch) => [tp, dp, ep, pp, ...(overlap ? ["overlap"] : []), batch].join(".");

  // Of each shape its batches that fit, estimated.
  function every(like, sizes, has, chip, at, { prompt, answer }) {
    const four = s.four.includes(at.weights) && like.moe, rest = four ? "bf16" : at.weights, [early, late] = like.to[chip.kind];
    const known = [...chip.rates, ...s.engines[at.engine][0], ...chip.types[at.weights], ...chip.types[rest], s.bits[at.cache] / 8];
    const lay = G[late](G[early](...sizes, ...known, prompt, answer));
    return [...shapes(has, like.moe, chip.domain)].map(shape => {
      const all = lay(...shape), plans = [];
      for (const n of s.sizes) {
        const batch = n * shape[1], [gap, wait, request, most] = all(batch);
        if (!(batch <= most)) break;
        plans.push({ shape, size: shape[0] * shape[1] * shape[3], batch, gap, first: wait, request, all });
      }
      return plans;
    }).filter(plans => plans.length);
  }

  // A plan with its replicas, beside what is asked.
  function judged(p, replicas, answer, target) {
    const users = p.batch * replicas, rate = users / p.request;
    const r = {
      ...p, replicas, users, rate, speed: 1 / p.gap, throughput: rate * answer, name: name(p.shape, p.batch),
      said: way => fill(s.say[way], { replicas: whole(replicas), shape: words(p.shape), batch: whole(p.batch) }),
      get words() { return [this.said("row"), ...this.missed.map(name => t.misses[name])].join("; "); },
    };
    const has = { speed: r.speed, first: 1 / r.first, users, rate };
    const asked = Object.entries(target).map(([name, x]) => [name, name === "first" ? 1 / x : x]);
    r.missed = asked.filter(([name, x]) => has[name] < x).map(([name]) => name);
    r.fits = !r.missed.length;
    const worst = Math.max(0, ...asked.map(([name, x]) => x / has[name]));
    r.key = r.fits ? [0, -digits(r.throughput), -digits(r.speed)] : [1, r.missed.length, digits(worst)];
    return r;
  }

  // Of which no other serves more at the same speed, from the slowest on.
  function frontier(some) {
    const out = [];
    for (const r of some.sort((a, b) => b.speed - a.speed || b.rate - a.rate)) if (!out.length || r.rate > out.at(-1).rate) out.push(r);
    return out.reverse();
  }

  // What is typed of a target; what is empty is not asked.
  const target = numbers => Object.fromEntries(Object.entries(s.fields).map(([name, field]) => [name, numbers[field]]).filter(([, x]) => !Number.isNaN(x)));

  // On the chips at hand, or the fewest that keep what is asked, or else come nearest.
  function search(every, { chips, answer }, asked) {
    let found = null;
    for (const n of Number.isNaN(chips) ? s.sizes : [chips]) {
      const plans = every.filter(([p]) => p.size <= n).map(some => some.map(p => judged(p, Math.floor(n / p.size), answer, asked)));
      const best = first(plans.flat());
      if (best && (!found || sooner(best.key, found.best.key) < 0)) found = { best, n, plans };
      if (best?.fits) break;
    }
    return found;
  }

  function noRoom(every, { chips, prompt, answer }, said, weights) {
    const enough = Math.min(...every.map(([p]) => p.size)), narrower = ["fp8", ...s.four].find(w => s.bits[w] < s.bits[weights]);
    const by = { S: whole(prompt + answer), n: whole(Number.isNaN(chips) ? s.most : chips), least: whole(enough), narrower };
    return fill(s.say.room + s.say[every.length ? "more" : narrower ? "narrower" : "larger"], { ...said, ...by });
  }

  // Everything that a setting leads to, or why nothing does.
  function serving(at, sizes, numbers, has, said) {
    const like = t.models[at.model], chip = t.chips[at.chip], asked = target(numbers);
    if (!chip.caches.includes(at.cache)) return { problem: fill(s.say.arithmetic, said) };
    const some = every(like, sizes, has, chip, at, numbers), found = search(some, numbers, asked);
    if (!found) return { problem: noRoom(some, numbers, said, at.weights) };
    let would = "";
    if (!found.best.fits && !Number.isNaN(numbers.chips)) {
      const fewest = search(some, { ...numbers, chips: NaN }, asked);
      would = fill(s.say[fewest?.best.fits ? "would" : "never"], { ...said, least: whole(fewest?.n) });
    }
    const edge = frontier(found.plans.flat()), wide = s.wide.map((x, k) => x * like.wide * s.engines[at.engine][1][k] * chip.served);
    // Deployments, best first; the one that is looked at has its own batch.
    function rows(picked) {
      return found.plans.map(some => some.find(r => r.name === picked) ?? first(some)).sort((a, b) => sooner(a.key, b.key));
    }
    function values(r, { price }) {
      const row = r.all(r.batch, true), all = Object.fromEntries(s.names.map((name, k) => [name, row[k]]));
      const { users, rate, speed, throughput } = r;
      return Object.assign(all, {
        users, rate, speed, throughput, each: throughput / found.n, most: Math.floor(all.most) * r.replicas,
        gap_low: all.gap / wide[0], gap_high: all.gap * wide[0], first_low: all.first / wide[1], first_high: all.first * wide[1],
        memory: all.m_weights + all.m_caches + all.m_reserve, cost_in: all.hours_in * price, cost_out: all.hours_out * price,
      });
    }
    const longest = (of, names) => Object.keys(of).reduce((a, b) => (names[b] > names[a] ? b : a));
    // What the sentence says of a line, beside its numbers.
    function spoken(some, k, all, shown, { price }) {
      const r = some[k], used = r.size * r.replicas, keeping = whole(some.filter(r => r.fits).length), { bars, serve } = t;
      const by = { ...said, ...shown, n: whole(found.n), used: whole(used), keeping, count: whole(some.length) };
      const on = used < found.n ? "on" : Number.isNaN(numbers.chips) && some[0].fits ? "fewest" : "all";
      const lacks = r.missed.map(name => fill(serve.say[name], { have: shown[name].replace(/ tokens\/s$/, ""), want: at[s.fields[name]] }));
      return {
        on: fill(serve.say[on], by), kept: fill(serve.say[Object.keys(asked).length ? "kept" : "free"], by), lacks: lacks.join("; "),
        refused: serve.say[k || some[0].fits ? "picked" : Number.isNaN(numbers.chips) ? "nowhere" : "nearest"], would, layout: r.said(r.replicas > 1 ? "replicas" : "one"), note: chip.noted,
        slow: text(1 / all.gap_high, ""), fast: text(1 / all.gap_low, "tokens/s"),
        bound: bars.time.serve[longest(bars.time.serve, all)], bound_first: bars.first.serve[longest(bars.first.serve, all)],
        paid: Number.isNaN(price) ? "" : fill(serve.say.paid, shown),
      };
    }
    return { rows, values, spoken, edge, wide: wide[0], problem: "" };
  }
  return { serving };
};
