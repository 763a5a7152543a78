// Questions in the text ({ask}): decides as helpers.check.questions.verdict does; a test holds the two together.
(() => {
  const number = text => {
    const plain = text.trim().replace(/[,\s_](?=\d{3}\b)/g, "").replace(",", ".").replace(/−/g, "-").replace(/\s*[×*x·]\s*10\s*(?:\^|\*\*)?\s*(-?\d+)/, "e$1");
    const found = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:\s*\/\s*(\d+\.?\d*(?:e[+-]?\d+)?))?$/i.exec(plain);
    return found ? found[1] / (found[2] ?? 1) : NaN;
  };
  const near = (given, wanted, within) => given === wanted || Math.abs(given - wanted) <= within * Math.abs(wanted);
  const verdict = (form, given) => {
    const right = +form.dataset.right, within = +form.dataset.within;
    if (near(given, right, within)) return true;
    for (const told of form.querySelectorAll("[data-for]")) if (near(given, +told.dataset.for, within)) return told.innerHTML;
    const power = given > 0 && right > 0 ? Math.round(Math.log10(given / right)) : 0;
    if (power && power % 3 === 0 && near(given, right * 10 ** power, within))
      return "the digits are right and the power of ten is not: look at the prefixes.";
    return given < right ? "too small." : "too large.";
  };
  const chosen = form => {
    const one = form.querySelector("input:checked");
    if (!one) return "choose one first.";
    return one.hasAttribute("data-right") || form.querySelector(`[data-for="${one.value}"]`).innerHTML;
  };
  const typed = form => {
    const field = form.querySelector("input"), given = number(field.value);
    return Number.isFinite(given) ? verdict(form, given) : "write a number, such as 100, 1e5 or 1/6.";
  };
  for (const form of document.querySelectorAll(".ask form")) {
    form.classList.add("on");
    form.addEventListener("submit", event => {
      event.preventDefault();
      const told = "right" in form.dataset ? typed(form) : chosen(form), out = form.querySelector("output");
      out.innerHTML = told === true ? "Right." : `Not yet: ${told}`;
      form.dataset.state = told === true ? "right" : "wrong";
      if (told === true) form.querySelector("details").open = true;
    });
  }
})();
