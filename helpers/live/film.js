// Steps through the frames of a collective, which stand in the page: a menu chooses the film, a slider the frame.
(() => {
  function start(box) {
    const form = box.querySelector("form"), strips = [...box.querySelectorAll(".film-strip")];
    if (!form.hidden) return; // a second figure on the page loads this file again
    const { links, step } = form.elements, status = box.querySelector("[role=status]");

    let stray = ""; // what a link asks for and does not get, until a control is moved

    function update() {
      const strip = strips[links.selectedIndex], frames = [...strip.children];
      strips.forEach(s => { s.hidden = s !== strip; });
      step.max = frames.length - 1;
      const now = frames[step.value];
      for (const frame of frames) frame.style.display = frame === now ? "" : "none";
      step.setAttribute("aria-valuetext", now.dataset.label);
      step.nextElementSibling.textContent = now.dataset.label;
      const [whole, frame] = status.children; // what the frame shows is said, and written nowhere: one sees it
      if (whole.textContent !== stray + strip.dataset.said) whole.textContent = stray + strip.dataset.said;
      frame.textContent = now.getAttribute("aria-label");
    }

    // A step can be linked to: #live-all-gather?links=line&step=2
    const [target, query] = location.hash.slice(1).split("?");
    if (target === box.id && query) {
      const wanted = new URLSearchParams(query);
      const kind = [...links.options].findIndex(o => o.value === wanted.get("links")), at = wanted.get("step");
      if (kind >= 0) links.selectedIndex = kind;
      step.max = strips[links.selectedIndex].children.length - 1;
      if (/^\d+$/.test(at) && +at <= step.max) step.value = at;
      const lost = [...wanted].filter(([name, v]) => form.elements[name]?.value !== v);
      if (lost.length) stray = `Not among this figure's settings, and so ignored: ${lost.map(([name, v]) => `${name} = ${v.slice(0, 20)}`).join(", ")}. `;
      box.scrollIntoView();
      addEventListener("load", async () => { await document.fonts.ready; box.scrollIntoView(); }); // lines above may have moved
    }
    addEventListener("hashchange", () => location.hash.startsWith(`#${box.id}?`) && location.reload()); // another link to it
    form.addEventListener("submit", event => event.preventDefault());
    form.addEventListener("input", () => { stray = ""; update(); });
    window.livePlay(form, status);
    form.addEventListener("change", () => history.replaceState(null, "", `#${box.id}?${new URLSearchParams(new FormData(form))}`));
    form.hidden = false;
    box.classList.add("film-stepped");
    update();
    performance.mark(`${box.id} ready`);
    performance.mark(box.id);
  }

  document.querySelectorAll("figure.film").forEach(start);
})();
