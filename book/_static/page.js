// A box that scrolls by itself can be reached by keyboard; one that does not is no stop. Measured when it comes near: the
// theme measures all at once, and a phone lays out the whole chapter for it.
(() => {
  const measure = ({ target: box }) => {
    if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver(entries => entries.forEach(measure));
  const near = new IntersectionObserver(entries => entries.forEach(entry => {
    if (entry.isIntersecting) sizes.observe(entry.target);
    else sizes.unobserve(entry.target);
  }), { rootMargin: "1000px" });
  const boxes = "pre, div.math, .cell_output > .output, .jp-RenderedHTMLCommon, .pst-scrollable-table-container";
  addEventListener("DOMContentLoaded", () => document.querySelectorAll(boxes).forEach(box => near.observe(box)));

  // The page's contents mark the section at the top of the screen: the last whose heading is above a quarter of it.
  addEventListener("DOMContentLoaded", () => {
    const links = [...document.querySelectorAll("#page-contents a[href^='#']")], above = new Set();
    const headings = new Map(links.map(a => [document.getElementById(a.hash.slice(1))?.querySelector("h2, h3, h4"), a]));
    const reached = new IntersectionObserver(entries => {
      for (const entry of entries) above[entry.isIntersecting ? "add" : "delete"](entry.target);
      const here = [...headings].findLast(([heading]) => above.has(heading))?.[1];
      for (const a of links) a === here ? a.setAttribute("aria-current", "true") : a.removeAttribute("aria-current");
    }, { rootMargin: "1000000px 0px -75% 0px" });
    for (const heading of headings.keys()) if (heading) reached.observe(heading);
  });

  // A tap on a figure shows it in its own size above the page; Esc, the button, a tap beside it or Back closes it.
  addEventListener("click", event => {
    const link = event.target.closest?.("a.enlarge");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !window.HTMLDialogElement) return;
    event.preventDefault();
    const dialog = document.createElement("dialog"), image = link.querySelector("img").cloneNode();
    dialog.className = "enlarged";
    dialog.setAttribute("aria-label", "Figure, enlarged");
    dialog.innerHTML = '<form method="dialog"><span></span><button>Close</button></form><figure class="picture" tabindex="0"></figure>';
    dialog.lastChild.append(image);
    dialog.style.setProperty("--own", `${link.querySelector("img").naturalWidth}px`);
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
    // Where the focus is in a box that scrolls, or past the last stop, Chromium leaves it open.
    const escape = ({ key }) => key === "Escape" && dialog.close(), back = () => dialog.close();
    document.addEventListener("keydown", escape);
    addEventListener("popstate", back);
    dialog.addEventListener("close", () => {
      document.removeEventListener("keydown", escape);
      removeEventListener("popstate", back);
      dialog.remove();
      link.focus();
      if (history.state?.enlarged) history.back(); // not closed by Back
    });
    document.querySelector(".bd-article").append(dialog);
    dialog.showModal();
    history.pushState({ enlarged: true }, "");
    const { scrollWidth, clientWidth } = dialog.lastChild;
    dialog.querySelector("span").textContent = scrollWidth > clientWidth + 1 ? "More to the right: scroll" : "";
  });

  // Esc takes the meaning of a term away (course.css shows it) until pointer or focus comes to another.
  const { dataset } = document.documentElement, term = ({ target }) => target.closest?.("a.term") && delete dataset.quiet;
  addEventListener("keydown", ({ key }) => { if (key === "Escape") dataset.quiet = ""; });
  addEventListener("pointerover", term);
  addEventListener("focusin", term);

  // Paper is light.
  const root = document.documentElement;
  let shown;
  addEventListener("beforeprint", () => { shown = root.dataset.theme; root.dataset.theme = "light"; });
  addEventListener("afterprint", () => { root.dataset.theme = shown; });
})();
