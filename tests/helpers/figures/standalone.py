"""One live figure on a page of its own, without the book around it."""

import gzip
import math
from contextlib import contextmanager
from pathlib import Path

from helpers import figures

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = figures.scripts()
# Move controls, menus first, whose choice may move sliders; a slider on a grid takes the place of its value.
SET = """chosen => {
    const form = document.querySelector("figure form"), [data] = window.liveFigures[0];
    const control = name => data.controls.find(c => c.name === name), menu = ([name]) => Boolean(control(name)?.options);
    for (const [name, value] of Object.entries(chosen).sort((a, b) => menu(b) - menu(a))) {
        const field = form.elements[name], grid = control(name)?.grid;
        for (const again of grid ? [false, true] : [false]) { // a step of one may have stopped before it
            field.value = grid ? grid.indexOf(value) : value;
            field.dispatchEvent(new Event("input", { bubbles: true }));
        }
    }
}"""


def size(figure) -> int:
    """Bytes of everything that the figure alone adds to a page, compressed as a server sends it."""
    return len(gzip.compress(figure.html().encode() + _scripts(figure)))


def _scripts(figure) -> bytes:
    return figure.script().encode() + "".join(SCRIPTS[f] for f in figure.runners).encode()


def write(figure, to: Path) -> Path:
    """The page, with the theme's colours in place of the theme."""
    css = (ROOT / "book/_static/course.css").read_text(encoding="utf-8")
    ink = ":root { --pst-color-primary: #0f5ecb; --pst-color-background: #fff; --pst-color-text-muted: #555; }"
    files = "".join(f"<script>{SCRIPTS[name]}</script>" for name in figure.runners)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A live figure</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{ink}{css}</style></head>'
        f'<body><main class="bd-article"><h1>A live figure</h1>{figure.html()}<script>{figure.script()}</script>{files}'
        "</main></body></html>"
    )
    path = to / f"{figure.name}.html"
    path.write_text(page, encoding="utf-8")
    return path


@contextmanager
def alone(browser, address: str):
    """A page that reaches nothing, as wide as a phone; at the end it has asked nobody and had no error."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    asked, errors = [], []
    context.route(
        lambda url: not url.startswith(("file:", "data:")), lambda r: (asked.append(r.request.url), r.abort())
    )
    page = context.new_page()
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.on("console", lambda m: m.type == "error" and errors.append(m.text))
    page.goto(address)
    begun(page)
    yield page
    context.close()
    assert asked == [] and errors == []


def begun(page) -> None:
    """Wait until the figure on this page has computed; its first result stands there before."""
    page.wait_for_function("performance.getEntriesByType('mark').some(m => !m.name.endsWith(' ready'))")


def shown(page) -> dict[str, str]:
    """What stands in the cells of a figure's table, by name."""
    return page.eval_on_selector_all(
        "[data-result], [data-say]",
        "cells => Object.fromEntries(cells.map(c => [c.dataset.result ?? c.dataset.say, c.textContent]))",
    )


def same(got: float, want: float) -> bool:
    """Whether JavaScript's number is Python's."""
    return math.isclose(got, want, rel_tol=1e-12, abs_tol=1e-300) or (math.isnan(got) and math.isnan(want))


def status(page) -> str:
    return page.locator("[role=status]").inner_text()


def strays(page) -> str:
    """What a link has asked for in vain, which the figure says until a control is moved, as one is here."""
    start, said = "Not among this figure's settings, and so ignored: ", status(page)
    page.evaluate("document.querySelector('figure form').dispatchEvent(new Event('input'))")
    return said.removeprefix(start).split(". ")[0] if said.startswith(start) else ""


def link(page) -> str:
    """The address with what is set. `page.url` may lag behind it on a busy machine."""
    return page.evaluate("location.href")


def follow(page, address: str) -> None:
    """Go there from another page: an address that differs after # alone would load nothing."""
    page.goto("about:blank")
    page.goto(address)
    begun(page)
