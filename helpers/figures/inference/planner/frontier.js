// The frontier of the planner: tokens/s of all users against those of each, with a point that the mouse, a finger or the arrow keys move.
window.liveFrontier = (box, { text, fill }, say, pick) => {
  const drawing = box.querySelector("[data-frontier]"), slider = box.querySelector(".live-frontier input"), { width, height } = drawing.viewBox.baseVal;
  const inside = [52, width - 14, height - 40, 12]; // left, right, foot, top
  let edge = [], px, py, at = null;
  const round = x => Math.round(10 * x) / 10;

  // 1, 2 and 5 times powers of ten about so many numbers, no fewer than needed to hold them.
  function ticks(some) {
    const low = Math.min(...some), high = Math.max(...some), every = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) for (const m of [1, 2, 5]) every.push(m * 10 ** e);
    const k = Math.max(0, every.findLastIndex(x => x <= low)), l = every.findIndex(x => x >= high);
    const out = every.slice(k, Math.max(l, k + 1) + 1), tens = out.filter(x => Number.isInteger(round(Math.log10(x))));
    return out.length > 9 ? [out[0], ...tens.filter(x => x > out[0] && x < out.at(-1)), out.at(-1)] : out;
  }

  const scale = (some, from, to) => {
    const [low, high] = [Math.log(some[0]), Math.log(some.at(-1))];
    return x => round(from + ((to - from) * (Math.log(x) - low)) / (high - low));
  };
  const short = x => text(x, "B").replace(/\.0+(?=\D|$)|(\.\d*[1-9])0+(?=\D|$)/, "$1").replace(" B", "").replace(" kB", "k").replace(" MB", "M");

  function draw(points, picked, wide, speed) {
    [edge, at] = [points, picked];
    const [left, right, foot, top] = inside, also = [...points, picked];
    const xs = ticks(also.map(r => r.speed)), ys = ticks(also.map(r => r.throughput));
    [px, py] = [scale(xs, left, right), scale(ys, foot, top)];
    const across = xs.map(x => `<path d="M${px(x)} ${top}V${foot}"/><text x="${px(x)}" y="${foot + 15}" text-anchor="middle">${short(x)}</text>`);
    const up = ys.map(y => `<path d="M${left} ${py(y)}H${right}"/><text x="${left - 5}" y="${py(y) + 4}" text-anchor="end">${short(y)}</text>`);
    const asked = speed >= xs[0] && speed <= xs.at(-1) ? `<path class="live-dash" d="M${px(speed)} ${top}V${foot}"/>` : "";
    const line = points.map(r => `${px(r.speed)},${py(r.throughput)}`);
    const dots = points.map(r => `<circle class="${r.fits ? "live-dot" : "live-ring"}" r="3" cx="${px(r.speed)}" cy="${py(r.throughput)}"/>`);
    const [slow, fast] = [picked.speed / wide, picked.speed * wide].map(x => Math.min(right, Math.max(left, px(x))));
    drawing.innerHTML = `<g class="live-grid">${across.join("")}${up.join("")}<text x="${(left + right) / 2}" y="${height - 6}" text-anchor="middle">${say.axis}</text></g>`
      + `${asked}<polyline class="live-line" points="${line.join(" ")}"/>${dots.join("")}`
      + `<path class="live-line" d="M${slow} ${py(picked.throughput)}H${fast}"/><circle class="live-ring" data-at r="8" cx="${px(picked.speed)}" cy="${py(picked.throughput)}"/>`;
    const said = r => fill(say.point, { speed: text(r.speed, "tokens/s"), throughput: text(r.throughput, "tokens/s"), words: r.words });
    drawing.setAttribute("aria-label", `${say.title}: ${fill(say.from, { n: points.length, first: said(points[0]), last: said(points.at(-1)) })}`);
    const near = points.reduce((a, r, n) => (Math.abs(Math.log(r.speed / picked.speed)) < Math.abs(Math.log(points[a].speed / picked.speed)) ? n : a), 0);
    slider.max = points.length - 1;
    slider.value = near;
    slider.setAttribute("aria-valuetext", said(picked));
  }

  slider.addEventListener("input", () => pick(edge[slider.value].name));
  function follow(event) {
    const seen = drawing.getBoundingClientRect(), x = ((event.clientX - seen.left) * width) / seen.width, y = ((event.clientY - seen.top) * height) / seen.height;
    const far = r => Math.hypot(px(r.speed) - x, py(r.throughput) - y), to = edge.reduce((a, r) => (far(r) < far(a) ? r : a));
    if (to.name !== at.name) pick(to.name);
  }
  drawing.addEventListener("pointerdown", event => {
    if (!edge.length) return;
    drawing.setPointerCapture(event.pointerId);
    follow(event);
  });
  drawing.addEventListener("pointermove", event => { if (drawing.hasPointerCapture(event.pointerId)) follow(event); });
  return draw;
};
