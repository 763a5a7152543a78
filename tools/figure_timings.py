"""What each live figure weighs, and how soon it answers: python -m tools.figure_timings [RUNS]

Each figure alone on a page, in Chromium; milliseconds are medians of several runs, each in a page that was never opened before.
  bytes   all that the figure adds to a page, compressed
  ready   from the page's text until the controls are there; the first result stands in the page
  link    the same for a link with settings, whose result has to be computed
  move    the slowest control: from its first move until the new result is laid out, with nothing computed before
Print them from a quiet machine only.
"""

import re
import statistics
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from helpers import figures
from tests.browser import chromium
from tests.helpers.figures.standalone import ROOT, size, write

LIVE = re.compile(r"^```\{live\} ([\w-]+)$", re.M)
MOST = {"planner": 100_000, "explorer": 22_000, "day": 30_000}  # bytes; on pages of their own
SINCE = """(last) => performance.getEntriesByType("mark").find(m => m.name.endsWith(last)).startTime
    - performance.getEntriesByType("navigation")[0].responseEnd"""
LAZY = "window.requestIdleCallback = () => {}"  # nothing is computed before a control moves
# Move a control to another of its values, as a reader would.
MOVE = """n => {
    const field = document.querySelector("figure form").elements[n];
    if (field.tagName === "SELECT") field.selectedIndex = (field.selectedIndex + 1) % field.options.length;
    else if (field.type === "range") field.value = +field.value + (field.value < +field.max ? 1 : -1);
    else field.value = field.value ? 2 * field.value : 3;
    const before = performance.now();
    field.dispatchEvent(new Event("input", { bubbles: true }));
    document.body.getBoundingClientRect();
    return performance.now() - before;
}"""
CONTROLS = """() => [...document.querySelector("figure form").elements].flatMap((e, n) => e.name && e.type !== "radio" ? [n] : [])"""
LINK = """() => {
    document.querySelector("figure form").dispatchEvent(new Event("change"));
    return location.href;
}"""


def names() -> list[str]:
    """Every live figure of the book, in the order of its pages."""
    pages = sorted((ROOT / "book").glob("*.md"))
    return list(dict.fromkeys(n for p in pages for n in LIVE.findall(p.read_text(encoding="utf-8"))))


def limit(name: str) -> int:
    """Bytes that a figure may weigh."""
    return MOST.get(name, 20_000)


@contextmanager
def fresh(browser, address: str, lazy: bool = False):
    """The page in a context of its own, when all that it does by itself is over."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    if lazy:
        page.add_init_script(LAZY)
    page.goto(address, wait_until="load")
    page.wait_for_timeout(400)  # what looks on from outside would delay it
    yield page
    context.close()


def ready(browser, address: str) -> float:
    """Milliseconds until the controls are there, and the first result."""
    with fresh(browser, address) as page:
        assert page.locator("form").first.is_visible() and page.locator("[role=status]").first.inner_text()
        return page.evaluate(SINCE, " ready")


def linked(browser, address: str) -> float:
    """Milliseconds until a link's settings have their result."""
    with fresh(browser, address) as page:
        link = page.evaluate(LINK)
    with fresh(browser, link) as page:
        return page.evaluate(SINCE, "")


def moved(browser, address: str, n: int) -> float:
    """Milliseconds that the first move of control n takes."""
    with fresh(browser, address, lazy=True) as page:
        return page.evaluate(MOVE, n)


def slowest(browser, address: str, runs: int) -> float:
    """Milliseconds of the control whose first move takes longest, each a median of so many pages."""
    with fresh(browser, address) as page:
        controls = page.evaluate(CONTROLS)
    return max(statistics.median(moved(browser, address, n) for _ in range(runs)) for n in controls)


def pages(folder: Path) -> dict[str, tuple[int, str]]:
    """Name of a figure -> bytes, and the address of a page in `folder` that holds it alone."""
    made = [figures.figure(name) for name in names()]
    return {f.name: (size(f), write(f, folder).as_uri()) for f in made}


def main(argv: list[str]) -> int:
    if argv[1:] or not all(n.isdigit() and int(n) for n in argv):
        print("usage: python -m tools.figure_timings [RUNS]")
        return 2
    with tempfile.TemporaryDirectory() as folder, chromium.browser() as browser:
        for name, (weight, address) in pages(Path(folder)).items():
            runs = int(argv[0]) if argv else 5
            first, link = (statistics.median(of(browser, address) for _ in range(runs)) for of in (ready, linked))
            move = slowest(browser, address, runs)
            said = f"{name:16} {weight / 1000:5.1f} KB of {limit(name) / 1000:.0f}"
            print(f"{said}   ready {first:4.0f} ms   link {link:4.0f} ms   move {move:4.0f} ms", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
