"""The built site as one PDF: python book/pdf.py [_build/html]

Every page of the contents in its order, printed by Chromium as a reader would print it, with bookmarks.  It lies beside the
pages as rooflines-to-racks.pdf, and the start page leads to it.  Needs a site, Chromium, and tests/browser/requirements.txt.
"""

import io
import os
import shutil
import sys
from pathlib import Path

import yaml
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
NAME = "rooflines-to-racks.pdf"
PLACE = '<span id="pdf"></span>'
LINK = f'<span id="pdf">, and <a href="../{NAME}">the whole book</a> as a PDF</span>'
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
SETTLED = "async () => { await document.fonts.ready }"
OPEN = "document.querySelectorAll('article details:not(.hide)').forEach(d => { d.open = true })"
MARGIN = {"top": "15mm", "bottom": "15mm", "left": "14mm", "right": "14mm"}


def pages(root: Path = ROOT) -> list[str]:
    """Every page of the contents, in order, as the site names it."""

    def files(entry):
        yield from ([entry["file"]] if "file" in entry else [])
        for key in ("parts", "chapters", "sections"):
            for child in entry.get(key, ()):
                yield from files(child)

    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    return [f"{name}.html" for name in (toc["root"], *files(toc))]


def chromium() -> str | None:
    """Path of a Chromium or Chrome."""
    names = (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((p for n in names if n and (p := shutil.which(n))), None)


def make(browser, site: Path, names: list[str], to: Path) -> None:
    """Print these pages of a site into one file; answers that unfold are open in chapters, folded code and hints of exercises are not."""
    from pypdf import PdfReader, PdfWriter

    book = PdfWriter()
    page = browser.new_page(viewport={"width": 900, "height": 1200})
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    for name in tqdm(names, desc="pages", unit="page", disable=None):
        page.goto((site / name).resolve().as_uri(), wait_until="load")
        page.evaluate(SETTLED)
        if name.startswith("book/"):
            page.evaluate(OPEN)
        printed = PdfReader(io.BytesIO(page.pdf(format="A4", margin=MARGIN)))
        at = len(book.pages)
        for one in printed.pages:
            book.add_page(one)
        title = page.locator("h1").first.inner_text().strip().removesuffix("#")
        book.add_outline_item(title=title, page_number=at)
    page.close()
    with open(to, "wb") as file:
        book.write(file)


def lead(site: Path) -> None:
    """Let the start page lead to it."""
    start = site / "book/intro.html"
    start.write_text(start.read_text(encoding="utf-8").replace(PLACE, LINK), encoding="utf-8")


def main(argv: list[str]) -> int:
    site = Path(argv[0]) if argv else ROOT / "_build/html"
    if not (site / "book/intro.html").is_file():
        print(f"There is no site in {site}: run make book first.")
        return 2
    try:
        import pypdf  # noqa: F401
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("The PDF needs two packages: pip install -r tests/browser/requirements.txt")
        return 2
    if chromium() is None:
        print("The PDF needs Chromium: install it, or point CHROMIUM at its program.")
        return 2
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        make(browser, site, pages(), site / NAME)
        browser.close()
    lead(site)
    print(site / NAME)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
