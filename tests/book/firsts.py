"""What each live figure weighs, and how soon it has its first result: python -m tests.book.firsts [RUNS]

Bytes of all that a figure adds to a page, compressed; milliseconds from the page's text to the figure's first result in Chromium,
the figure alone on a page, median of several runs.  Print them from a quiet machine only.
"""

import re
import statistics
import sys
import tempfile
from pathlib import Path

from tests.browser import chromium

from .standalone import ROOT, begun, load, size, write

LIVE = re.compile(r"^```\{live\} ([\w-]+)$", re.M)
MOST = {"planner": 100_000}  # bytes; a page of its own
READY = """() => performance.getEntriesByType("mark")[0].startTime - performance.getEntriesByType("navigation")[0].responseEnd"""


def names() -> list[str]:
    """Every live figure of the book, in the order of its pages."""
    pages = sorted((ROOT / "book").glob("*.md"))
    return list(dict.fromkeys(n for p in pages for n in LIVE.findall(p.read_text(encoding="utf-8"))))


def limit(name: str) -> int:
    """Bytes that a figure may weigh."""
    return MOST.get(name, 20_000)


def first_result(browser, address: str, runs: int) -> float:
    """Milliseconds until the controls are there and the first result stands, median of so many fresh pages."""
    times = []
    for _ in range(runs):
        context = browser.new_context(viewport={"width": 390, "height": 800})
        page = context.new_page()
        page.goto(address, wait_until="load")
        begun(page)
        assert page.locator("form").first.is_visible()
        times.append(page.evaluate(READY))
        context.close()
    return statistics.median(times)


def pages(folder: Path) -> dict[str, tuple[int, str]]:
    """Name of a figure -> bytes, and the address of a page in `folder` that holds it alone."""
    figures = [load(name) for name in names()]
    return {f.name: (size(f), write(f, folder).as_uri()) for f in figures}


def main(argv: list[str]) -> int:
    if argv[1:] or not all(n.isdigit() and int(n) for n in argv):
        print("usage: python -m tests.book.firsts [RUNS]")
        return 2
    with tempfile.TemporaryDirectory() as folder, chromium.browser() as browser:
        for name, (weight, address) in pages(Path(folder)).items():
            ready = first_result(browser, address, int(argv[0]) if argv else 5)
            print(f"{name:16} {weight / 1000:6.1f} KB of {limit(name) / 1000:.0f}  {ready:6.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
