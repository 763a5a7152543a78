// The button of a film: plays the frames under the slider `step` of a form, one after the other, or pauses; the arrow keys step.
// A reader who has asked for less motion gets one frame a press.
window.livePlay = (form, status) => {
  const { play, step } = form.elements, still = matchMedia("(prefers-reduced-motion: reduce)"), SECONDS = 1.2;
  let timer = 0;
  const word = () => { play.textContent = timer ? "Pause" : still.matches ? "Next step" : "Play"; };

  function go(by) {
    step.value = +step.value + by;
    for (const kind of ["input", "change"]) step.dispatchEvent(new Event(kind, { bubbles: true })); // a move of the slider: the frame, the address
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    status.setAttribute("aria-live", "polite");
    word();
  }

  play.addEventListener("click", () => {
    if (timer) return pause();
    if (step.value === step.max) go(-step.max);
    else if (still.matches) go(1);
    if (still.matches) return;
    status.setAttribute("aria-live", "off"); // else every frame would be read aloud over the last
    timer = setInterval(() => {
      go(1);
      if (step.value === step.max) pause();
    }, 1000 * SECONDS);
    word();
  });
  play.addEventListener("keydown", event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    pause();
    go(by);
  });
  form.addEventListener("input", event => event.isTrusted && timer && pause()); // a reader's own move
  still.addEventListener("change", pause);
  word();
};
