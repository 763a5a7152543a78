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

  // Paper is light.
  const root = document.documentElement;
  let shown;
  addEventListener("beforeprint", () => { shown = root.dataset.theme; root.dataset.theme = "light"; });
  addEventListener("afterprint", () => { root.dataset.theme = shown; });
})();
