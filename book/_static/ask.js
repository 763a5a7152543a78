// Questions in the text ({ask}): decides as helpers.check.questions.verdict does; a test holds the two together.
(() => {
  const near = (given, wanted, within) => given === wanted || (within > 0 && given === Number(wanted.toPrecision(2)))
    || Math.abs(given - wanted) <= within * Math.abs(wanted);
  const verdict = (form, given) => {
    const right = +form.dataset.right, within = +form.dataset.within;
    if (near(given, right, within)) return true;
    for (const told of form.querySelectorAll("[data-for]")) if (near(given, +told.dataset.for, within)) return told.innerHTML;
    const power = given > 0 && right > 0 ? Math.round(Math.log10(given / right)) : 0;
    if (power && near(given, right * 10 ** power, within))
      return "the digits are right and the power of ten is not: look at units and prefixes.";
    return given < right ? "too small." : "too large.";
  };
  const UNANSWERED = ["choose one first.", "write a number, such as 100, 1e5 or 1/6."]; // told, but kept by nobody
  const chosen = form => {
    const one = form.querySelector("input:checked");
    if (!one) return UNANSWERED[0];
    return one.hasAttribute("data-right") || form.querySelector(`[data-for="${one.value}"]`).innerHTML;
  };
  const typed = form => {
    const field = form.querySelector("input"), unit = form.dataset.unit, text = field.value.trim();
    const given = typedNumber(unit && text.endsWith(unit) ? text.slice(0, -unit.length) : text.replace(/%$/, ""));
    return Number.isFinite(given) ? verdict(form, given) : UNANSWERED[1];
  };
  // review.js asks in forms of its own.
  globalThis.askIn = form => {
    form.classList.add("on");
    form.addEventListener("input", () => { form.querySelector("output").textContent = ""; delete form.dataset.state; });
    form.addEventListener("submit", event => {
      event.preventDefault();
      const told = "right" in form.dataset ? typed(form) : chosen(form), out = form.querySelector("output");
      out.innerHTML = told === true ? "Right." : `Not yet: ${told}`;
      form.dataset.state = told === true ? "right" : "wrong";
      if (UNANSWERED.includes(told)) return;
      if (form.dataset.name) courseRecord.note(`q:${form.dataset.name}`, told === true ? 1 : 0);
      if (told === true) form.querySelector("details").open = true;
      form.dispatchEvent(new CustomEvent("answered", { detail: told === true }));
    });
  };
  document.querySelectorAll(".ask form:not(.on)").forEach(askIn);
})();
