"""One style sheet: it holds what a page can use, no page misses what it had, and no line is too long to read."""

import re
from types import SimpleNamespace

import pytest
from fontTools.ttLib import TTFont

from tests.book.conftest import extension, page_names, settle

styles = extension("style_sheet")


def test_rules_stay_for_names_that_a_page_or_a_script_may_have():
    css = """@charset "utf-8"; .a:not(.gone) > p, .gone { top: 0; /* x */ left: 1px } .gone { top: 1px } #b:is(.gone, .a) { top: 2px }
    @media (min-width: 1px) { .gone { top: 3px } @supports (top: 0) { .a { top: 4px } } } @keyframes spin { to { top: 5px } }"""
    assert styles.purge(css, {"a", "b"}) == (
        ".a:not(.gone) > p{top: 0; left: 1px}#b:is(.gone, .a){top: 2px}"
        "@media (min-width: 1px){@supports (top: 0){.a{top: 4px}}}@keyframes spin{to { top: 5px }}"
    )


def test_sheets_that_are_imported_come_along_and_addresses_still_lead_there(tmp_path):
    (tmp_path / "styles").mkdir()
    (tmp_path / "basic.css").write_text("a { background: url(file.png) }")
    (tmp_path / "styles/theme.css").write_text(
        '@import "../basic.css";\nb { background: url("data:x"), url(../c/d.png) }'
    )
    found = styles.rooted(tmp_path / "styles/theme.css", tmp_path)
    assert re.findall(r"url\([^)]*\)", found) == ['url("file.png")', 'url("data:x")', 'url("c/d.png")']


def test_an_edited_script_or_sheet_has_every_page_written_anew(tmp_path):
    """Sphinx compares values of kind "html" with those of the build before."""
    static, told = tmp_path / "book/_static", []
    static.mkdir(parents=True)
    app = SimpleNamespace(srcdir=tmp_path, connect=lambda *_, **__: None, add_config_value=lambda *v: told.append(v))
    for name, text in ("a.js", "1"), ("a.js", "1"), ("a.js", "2"), ("b.css", "2"):
        (static / name).write_text(text)
        styles.setup(app)
    names, values, kinds = zip(*told, strict=True)
    assert set(kinds) == {"html"} and len(set(names)) == 1
    assert values[0] == values[1] and len(set(values)) == 3


def test_a_build_that_writes_some_pages_or_none_leaves_the_others_styled(tmp_path):
    """Sphinx copies all files of the theme again if it writes a page, and none if it does not."""
    static = tmp_path / "_static"
    (static / "scripts").mkdir(parents=True)
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    sheets = [SimpleNamespace(filename=f"_static/{name}.css", priority=p) for name, p in (("two", 800), ("one", 200))]

    def build(**pages):
        app.sheets = []
        for name in pages and ("styles/theme", "styles/pydata-sphinx-theme", "one", "two"):
            (static / f"{name}.css").parent.mkdir(exist_ok=True)
            (static / f"{name}.css").write_text({"one": ".a{top:0}.b{top:1px}", "two": ".c{top:2px}"}.get(name, ""))
        (static / "scripts/pydata-sphinx-theme.js").write_text(
            ',"complete"===document.readyState?I():window.addEventListener("load",I)'
        )
        for name, classes in pages.items():
            (tmp_path / f"{name}.html").write_text(f'<p class="{classes}">x</p>')
            styles.note(app, name, "page.html", {"css_files": sheets}, None)
        styles.finish(app, None)
        return (tmp_path / styles.SHEET).read_text()

    assert build(first="a", second="b") == ".a{top:0}.b{top:1px}"
    assert build(second="c") == ".a{top:0}.c{top:2px}"
    (static / "one.css").unlink()
    assert build() == ".a{top:0}.c{top:2px}"


def test_pages_name_one_sheet_whose_files_are_there(site):
    sheet = (site / styles.SHEET).read_text(encoding="utf-8")
    for url in re.findall(r'url\("([^"]+)"\)', sheet):
        assert url.startswith(("data:", "#")) or (site / "_static" / url).is_file(), url
    assert ".bd-article" in sheet and ".carousel" not in sheet and len(sheet) < 200_000
    for name in page_names():
        page = (site / name).read_text(encoding="utf-8")
        assert len(re.findall(r'rel="stylesheet"', page)) == 1 and "site.css" in page, name
        scripts = re.findall(r"<script [^>]*src=[^>]*>", page)
        assert len(set(scripts)) == len(scripts) > 5 and all(" defer" in script for script in scripts), name


def test_icons_that_the_sheet_names_are_in_its_fonts(site):
    sheet = (site / styles.SHEET).read_text(encoding="utf-8")
    used = {ord(c) for c in sheet if "\ue000" <= c <= "\uf8ff"}
    fonts = [TTFont(path) for path in (site / "_static").glob("fa-*.woff")]
    assert used and used <= {code for font in fonts for code in font.getBestCmap()}


@pytest.mark.parametrize("shown", ["search-button-field", "primary-toggle", "theme-switch-button"])
def test_icons_are_drawn(visit, shown):
    page = visit("book/intro.html")
    page.evaluate("async () => { await document.fonts.ready }")
    icon = page.locator(f".{shown} :is(i, span)[class*='fa-']:visible, .{shown}[class*='fa-']:visible").first
    assert icon.evaluate("e => document.fonts.check(`900 16px ${getComputedStyle(e, '::before').fontFamily}`)")
    assert icon.bounding_box()["width"] > 8


PAGE = "book/ch01_rooflines.html"
# The most characters that stand in one line of a paragraph without formulas and code, whose boxes are counted otherwise.
LONGEST = """() => Math.max(...[...document.querySelectorAll(".bd-article :is(section, li, .admonition) > p")].filter(
  p => !p.querySelector("math, code, .worked")).map(p => {
    const range = document.createRange(), texts = document.createTreeWalker(p, NodeFilter.SHOW_TEXT), lines = new Map();
    while (texts.nextNode()) for (let i = 0; i < texts.currentNode.length; i++) {
        range.setStart(texts.currentNode, i);
        range.setEnd(texts.currentNode, i + 1);
        const { width, bottom } = range.getBoundingClientRect();
        const line = [...lines.keys()].find(y => Math.abs(y - bottom) < 8) ?? bottom;
        if (width) lines.set(line, (lines.get(line) ?? 0) + 1);
    }
    return Math.max(0, ...lines.values());
}))"""


@pytest.mark.parametrize("width", [390, 820, 1280, 1680, 2560])
def test_a_line_has_at_most_75_characters(visit, width):
    page = visit(PAGE, width=width)
    settle(page)
    assert (30 if width == 390 else 55) < page.evaluate(LONGEST) <= 75
