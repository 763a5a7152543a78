// Curves of a figure along one of its sliders, as helpers/live/curves.py draws them at first. The vertical axis has as many decades
// as they need, and their names stand beside their ends, moved apart.
window.liveCurves = ({ curves: t, controls, x, y }, box, { text }, filled) => {
  const all = name => [...box.querySelectorAll(`svg [data-${name}]`)], lines = all("curve"), ends = all("end"), ticks = all("tick");
  const { grid } = controls.find(c => c.name === t.over), [top, foot] = t.box;

  function tick(e, unit) {
    const [number, prefixed] = text(10 ** e, unit).split(" ");
    return `${number.includes(".") ? number.replace(/\.?0+$/, "") : number} ${prefixed.slice(0, prefixed.length - unit.length)}`.trim();
  }

  return (args, find, values, said) => {
    const along = grid.map(value => find({ ...args, [t.over]: value })), heights = t.names.map(name => along.map(v => v[name])), unit = t.units[values[t.by]];
    const seen = heights.flat().filter(v => !Number.isNaN(v)), log = v => Math.log10(v), py = v => y[0] + y[1] * log(v);
    const low = seen.length ? Math.floor(log(Math.min(...seen))) : 0;
    const high = Math.max(seen.length ? Math.ceil(log(Math.max(...seen))) : 1, low + 1);
    y[1] = (top - foot) / (high - low);
    y[0] = foot - y[1] * low;
    Object.assign(values, { low: 10 ** low, high: 10 ** high, [t.over]: args[t.over] }); // where the marks lie
    ticks.forEach((mark, k) => {
      const e = low + k;
      mark.style.display = e > high ? "none" : "";
      if (e > high) return;
      mark.setAttribute("transform", `translate(0,${(y[0] + y[1] * e).toFixed(1)})`);
      mark.querySelector("text").textContent = tick(e, unit);
    });
    box.querySelector("[data-axis]").textContent = filled(t.label, said);
    lines.forEach((line, n) => {
      const points = heights[n].flatMap((v, k) => (Number.isNaN(v) ? [] : [`${(x[0] + x[1] * log(grid[k])).toFixed(1)},${py(v).toFixed(1)}`]));
      line.setAttribute("points", points.join(" "));
    });
    const shown = heights.map((line, n) => [ends[n], py(line.at(-1))]).filter(([, v]) => Number.isFinite(v)).sort((a, b) => a[1] - b[1]);
    shown.reduce((least, end) => (end[1] = Math.max(end[1], least)) + t.gap, top);
    shown.reduceRight((most, end) => (end[1] = Math.min(end[1], most)) - t.gap, foot);
    for (const name of ends) name.style.display = "none";
    for (const [name, v] of shown) {
      name.style.display = "";
      name.setAttribute("y", (v + 4).toFixed(1));
    }
  };
};
