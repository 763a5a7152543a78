// The settings of a figure as data: what its controls say, and as a link. A size follows what a menu gives
// it until a reader moves it, and again once a control moves that it names in `until`.
window.liveSettings = ({ args, controls }, form, whole) => {
  const fields = form.elements, { size, set, move } = window.liveGrids(fields), own = new Set();
  const sizes = controls.filter(c => c.grid), menus = controls.filter(c => c.options);
  const first = {};

  // The arguments of the function, NaN for what no menu gives; sizes that follow one of them go where it is.
  function settings() {
    const at = Object.fromEntries(args.map(name => [name, NaN]));
    for (const c of sizes) at[c.name] = size(c);
    for (const c of menus) Object.assign(at, c.options[fields[c.name].value]);
    for (const c of sizes.filter(c => c.follows)) {
      const value = at[c.follows], used = !Number.isNaN(value);
      first[c.name] = used ? value : NaN;
      fields[c.name].disabled = !used;
      if (used && !own.has(c.name)) set(c, at[c.name] = value);
    }
    return at;
  }

  // The same, and what each control is called in a sentence.
  function read() {
    const at = settings(), said = {};
    for (const c of menus) Object.assign(said, c.options[fields[c.name].value], { [c.name]: fields[c.name].value });
    for (const c of sizes) {
      const field = fields[c.name], text = field.disabled ? "not used" : whole(at[c.name]);
      said[c.name] = whole(at[c.name]);
      field.setAttribute("aria-valuetext", text);
      field.nextElementSibling.textContent = text;
    }
    return [at, said];
  }

  return {
    size,
    read,
    moved(name) {
      for (const c of sizes) if (c.until?.includes(name)) own.delete(c.name);
      const moving = sizes.find(c => c.name === name);
      if (!moving) return;
      move(moving, fields[name]);
      own.add(name);
    },
    link(asked) {
      for (const field of form.querySelectorAll("[type=text]")) field.value = asked.get(field.name) ?? "";
      for (const c of menus) if (Object.hasOwn(c.options, asked.get(c.name) ?? "")) fields[c.name].value = asked.get(c.name);
      settings();
      for (const c of sizes) {
        const n = Number(asked.get(c.name));
        const known = c.exact ? c.grid.includes(n) : Number.isInteger(n) && n >= c.grid[0] && n <= c.grid.at(-1);
        if (fields[c.name].disabled || !known) continue;
        set(c, n);
        own.add(c.name);
      }
    },
    query() {
      const moved = c => c.options || !c.follows || (!fields[c.name].disabled && size(c) !== first[c.name]);
      const others = [...new FormData(form)].filter(([name, value]) => value && !controls.some(c => c.name === name));
      return [...controls.filter(moved).map(c => [c.name, c.options ? fields[c.name].value : size(c)]), ...others];
    },
    refused(lost) { // what is said of a size that a link asks for in vain
      const c = sizes.find(c => lost.some(([name]) => name === c.name));
      if (!c || fields[c.name].disabled) return "";
      const kind = c.exact ? "only some numbers" : "whole numbers";
      return `${c.name} takes ${kind} from ${whole(c.grid[0])} to ${whole(c.grid.at(-1))}. `;
    },
  };
};
