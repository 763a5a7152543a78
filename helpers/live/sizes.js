// Sizes on logarithmic sliders, 2 to the power of where they stand: a link has the number itself, which stays until its slider moves.
window.liveSizes = (controls, form, whole) => {
  const linked = {}, fields = form.elements;
  const slides = name => controls.some(c => c.name === name && !c.options);
  const size = ({ name }) => linked[name] ?? Math.round(2 ** fields[name].value);

  return {
    size,
    moved(name) { delete linked[name]; },
    link(asked) {
      for (const [name, value] of asked) {
        const control = controls.find(c => c.name === name), field = fields[name], place = Math.log2(value);
        if (!control) continue;
        if (control.options) field.value = Object.hasOwn(control.options, value) ? value : field.value;
        else if (Number.isInteger(field.step < 1 ? Number(value) : place) && place >= field.min && place <= field.max) {
          linked[name] = Number(value);
          field.value = place;
        }
      }
    },
    query: () => [...new FormData(form)].map(([name, value]) => [name, slides(name) ? size({ name }) : value]),
    refused(lost) { // what is said of the sizes that a link asks for in vain
      const first = lost.find(([name]) => slides(name));
      if (!first) return "";
      const { min, max, step } = fields[first[0]], kind = step < 1 ? "whole numbers" : "powers of two";
      return `${first[0]} takes ${kind} from ${whole(2 ** min)} to ${whole(2 ** max)}. `;
    },
  };
};
