// Sliders over round numbers: a value between two of them, from a menu or a link, stays until the slider itself is moved.
window.liveGrids = fields => {
  const held = {};

  function nearest({ grid }, value) {
    const off = grid.map(g => Math.abs(Math.log(g / value)));
    return off.indexOf(Math.min(...off));
  }
  return {
    size: c => held[c.name] ?? c.grid[fields[c.name].value],
    set(c, value) {
      held[c.name] = value;
      fields[c.name].value = nearest(c, value);
    },
    move(c, field) { // a step from a value between two positions leads to the one that lies there
      const value = held[c.name], stood = nearest(c, value ?? 1), way = field.value - stood;
      if (Math.abs(way) === 1 && (c.grid[stood] - value) * way > 0) field.value = stood;
      delete held[c.name];
    },
  };
};
