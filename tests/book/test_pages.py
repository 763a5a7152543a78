"""Every page, opened once on a desktop and once on a phone: for everybody, from this site alone, with nothing sideways."""

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.areas import seed
from tests.book.conftest import ROOT, STILL, Visit, page_names, settle
from tests.tiers import FULL

PAGES = [*page_names(), "search.html", "genindex.html"]
SIZES = {"desktop": (1280, 900), "phone": (390, 800)}
NARROW = (390, 360, 320)  # pixels: common phones, and the least width of WCAG's 1.4.10
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]  # of which the other scheme changes results, and of nothing else

# Boxes of a page that scroll on a phone: tables with more columns than it has room for, and columns that a program printed.
# Formulas and code have none, other pages neither.
MOST = {
    "book/ch01_rooflines_gpu.html": (0, 1),
    "book/ch01_rooflines_machine.html": (0, 1),
    "book/ch01_rooflines_paths.html": (1, 1),
    "book/ch02_sharding.html": (1, 0),
    "book/ch02_sharding_compiler.html": (7, 0),
    "book/ch02_sharding_plans.html": (0, 1),
    "book/ch02_sharding_rings.html": (0, 2),
    "book/ch03_transformers.html": (2, 0),
    "book/ch03_transformers_experts.html": (1, 1),
    "book/ch03_transformers_program.html": (0, 2),
    "book/ch04_training.html": (4, 5),
    "book/ch04_training_estimate.html": (1, 3),
    "book/ch04_training_pipelines.html": (0, 2),
    "book/ch04_training_programs.html": (0, 4),
    "book/ch04_training_torus.html": (0, 1),
    "book/ch05_inference.html": (1, 6),
    "book/ch05_inference_cache.html": (0, 2),
    "book/ch05_inference_chips.html": (0, 4),
    "book/ch05_inference_engine.html": (0, 3),
    "book/ch06_attention.html": (1, 17),
    "book/ch06_attention_forms.html": (0, 2),
    "book/ch06_attention_kernels.html": (0, 2),
    "book/ch06_attention_linear.html": (0, 2),
    "book/ch07_racks.html": (1, 6),
    "book/ch07_racks_measured.html": (0, 1),
    "book/ch07_racks_one_gpu.html": (0, 1),
    "book/ch08_experts.html": (5, 0),
    "book/ch08_experts_balance.html": (1, 2),
    "book/ch08_experts_programs.html": (1, 2),
    "book/ch08_experts_serving.html": (0, 1),
    "book/hardware.html": (4 + any((ROOT / "book/results").glob("hardware_*.json")), 0),
    "book/instructor_reference.html": (5, 2),
    "book/jax_in_fifteen_minutes.html": (1, 0),
    "book/methods.html": (1, 0),
    "book/runs.html": (4, 0),
}
SIDEWAYS = """() => [...document.querySelectorAll(".bd-article *")].filter(e => {
    if (!e.clientWidth || e.scrollWidth <= e.clientWidth + 1 || e.closest("svg, math")) return false;
    return ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  }).map(e => e.matches("div.math") ? "formula" : e.querySelector("table") ? "table" : e.closest(".cell_output") ? "printed"
    : e.matches("pre") ? "code" : e.className)"""
# Each box that scrolls comes near once: only then is it measured, and becomes a stop of the keyboard.
NEAR = """async () => {
    const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const scrolls = e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1;
    for (const box of document.querySelectorAll(".bd-article :is(pre, div, table)"))
        if (scrolls(box) && getComputedStyle(box).overflow !== "visible") {
            box.scrollIntoView({ behavior: "instant" });
            await frame();
            await frame();
        }
    scrollTo(0, 0); await frame();
}"""
# axe-core's judgement: by rules with these tags, and of colours, which takes most of its time. So colours are judged of one text of
# each colour, size, ground and place in the style sheet, or of the whole.
AXE = """async ([tags, colours, whole]) => {
    const grounds = new Map(), kinds = new Map(), called = e => e && `${e.tagName}.${e.className}`;
    const ground = e => {
        if (e && !grounds.has(e)) {
            const { backgroundColor: colour, backgroundImage: image, opacity } = getComputedStyle(e), own = [colour, image, opacity].join();
            grounds.set(e, (own === "rgba(0, 0, 0, 0),none,1" ? "" : own) + ground(e.parentElement));
        }
        return e ? grounds.get(e) : "";
    };
    for (const e of document.querySelectorAll("body *")) {
        if (!e.checkVisibility({ visibilityProperty: true }) || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        const { color, fontSize, fontWeight } = getComputedStyle(e), place = [e, e.parentElement].map(called);
        kinds.set([color, fontSize, fontWeight, ground(e), ...place].join(), e);
    }
    const options = { resultTypes: ["violations"], preload: false }, off = colours.map(rule => [rule, { enabled: false }]);
    const rest = tags && await axe.run(document, { ...options, runOnly: tags, rules: Object.fromEntries(off) });
    const shown = await axe.run(whole ? document : { include: [...kinds.values()] }, { ...options, runOnly: colours });
    return [...rest?.violations ?? [], ...shown.violations];
}"""
UNFOLD = "document.querySelectorAll('article details').forEach(d => { d.open = true })"


@pytest.fixture(scope="module")
def axe() -> str:
    """axe-core's source, from npm."""
    package = "node_modules/axe-core/axe.min.js"
    places = (
        [os.environ["AXE_CORE"]] if "AXE_CORE" in os.environ else [ROOT / "tests/browser" / package, ROOT / package]
    )
    found = next((Path(p) for p in places if Path(p).is_file()), None)
    if found is None:
        pytest.skip("no axe-core: npm install --prefix tests/browser, or point AXE_CORE at its axe.min.js")
    return found.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def window(chromium_of_this_process, site):
    """One for all pages: to open another takes half a second of a processor."""
    visit = Visit(chromium_of_this_process.alive(), site)
    yield visit, visit("genindex.html")
    visit.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.sample(quick=0, draw=len(PAGES))
def test_a_page_on_a_desktop_and_on_a_phone(window, axe, name):
    """All that is wrong with it, a line each. The commit draws which of the two opens it and is judged by axe-core; with FULL=1 both."""
    visit, page = window
    visit.asked.clear()
    visit.errors.clear()
    faults = []
    for opens in SIZES if FULL else [random.Random(f"{seed()} {name}").choice([*SIZES])]:
        show(page, opens)
        visit.go(page, name)
        page.evaluate(UNFOLD)  # what is folded is judged too
        settle(page)
        faults += sideways(page, name)
        show(page, opens)
        faults += unreadable(page, axe, name, opens)
    faults += [f"asks another host: {url}" for url in visit.asked] + [f"error: {text}" for text in visit.errors]
    if faults:
        pytest.fail("\n".join([name, *faults]), pytrace=False)


def show(page, size: str) -> None:
    width, height = SIZES[size]
    page.set_viewport_size({"width": width, "height": height})


def sideways(page, name: str) -> list[str]:
    """A phone never scrolls a page sideways, nor formulas and code in it, and few tables; on a desktop no box does."""
    faults = []
    for width in (1280, *NARROW):
        page.set_viewport_size({"width": width, "height": 800})
        if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
            faults.append(f"scrolls sideways: {wide} pixels on {width}")
        boxes = Counter(page.evaluate(SIDEWAYS)) if width >= 360 else {}
        most = dict(zip(("table", "printed"), MOST.get(name, (0, 0)))) if width in NARROW else {}
        faults += [f"{n} x {kind} scroll sideways on {width}" for kind, n in boxes.items() if n > most.get(kind, 0)]
    return faults


def unreadable(page, axe: str, name: str, size: str) -> list[str]:
    """What axe-core finds in the light, then of colours in the dark, as when a reader's system turns dark in the evening."""
    page.evaluate(NEAR)
    page.evaluate(axe)
    faults = []
    for scheme, rules in (("light", RULES), ("dark", None)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        page.evaluate(STILL)
        if scheme == "light" or FULL:
            picture(page, f"{name.removesuffix('.html').replace('/', '-')}-{scheme}-{size}.jpg")
        for v in page.evaluate(AXE, [rules, COLOURS, FULL]):
            faults += [f"{size}, {scheme}: {v['id']}: {n['html'][:160]}: {n['failureSummary']}" for n in v["nodes"]]
    page.emulate_media(color_scheme="light")
    return faults


def picture(page, name: str) -> None:
    """Ten screens of the page, with FULL=1 all of it, kept under _build/screenshots; an empty one has next to no bytes."""
    folder = ROOT / "_build/screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    width, height = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    shown = {"x": 0, "y": 0, "width": width, "height": min(height, 65_000 if FULL else 9_000)}  # JPEG has 65,535 rows
    taken = page.screenshot(path=folder / name, full_page=True, clip=shown, quality=50, type="jpeg", timeout=120_000)
    assert len(taken) > 8_000, name
