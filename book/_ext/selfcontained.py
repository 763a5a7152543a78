"""Sphinx extension: a built site asks no other host for anything, and reads well with assistive technology.

Jupyter Book's theme loads a run-on-a-server script nobody here uses, and an icon font twice.  This drops them and mends
the places of sphinx-book-theme 1.3 that axe-core rejects.  tests/book says when a new theme needs other repairs.
"""

import re
from pathlib import Path

DESCRIPTION = "Where the time goes when Transformers run on TPUs and GPUs: predict it, run it, count it."


def _spoken(classes: str, rest: str, formula: str) -> str:
    """A table heading that is a formula and nothing else, with words for it: α hbm. (axe-core counts no label there.)"""
    words = " ".join(re.sub(r"<[^>]*>", " ", formula).split())
    return f'<th class="{classes}"><span class="visually-hidden">{words}</span>{rest}'


# (what the theme writes, what should stand there)
REPAIRS = [
    (
        r'(<html [^>]*data-theme=)"auto"',
        r'\1"light"',
    ),  # "auto" has no colours; a script sets it at once where there is one
    (r"\s*<script[^>]*scripts/fontawesome\.js[^>]*></script>", ""),  # 1.5 MB; the web font draws the icons
    (r'\s*<script type="text/x-thebe-config">.*?</script>', ""),
    (r"\s*<script>kernelName = .*?</script>", ""),
    (r'(?<!<meta charset="utf-8" />\n    )<meta name="viewport"[^>]*>', ""),  # it stands there three times
    (r'(<button class="btn search-button-field[^>]*?) aria-label="Search"', r"\1"),  # label must hold the text
    (r'<summary aria-label="[^"]*">', "<summary>"),
    (
        r'<summary><span class="toctree-toggle"',
        '<summary aria-label="Pages of this chapter"><span class="toctree-toggle"',
    ),
    (r'<th class="[^"]*head[^"]*">(?:<p></p>)?</th>', "<td></td>"),  # the corner of a table heads nothing
    (
        r'<th class="([^"]*head[^"]*)">(<p>(<math>(?:(?!</math>).)*</math>)</p></th>)',
        lambda m: _spoken(*m.groups()),
    ),
    (
        r'<div id="jb-print-docs-body".*?(?=<div id="searchbox">)',
        "",
    ),  # a second title, and contents that paper cannot follow
    (r' role="(?:doc-biblioentry|list)"', ""),  # one is deprecated, the other holds what a list may not
    (
        r'<div id="pst-primary-sidebar" class',
        '<div id="pst-primary-sidebar" role="complementary" aria-label="Book" class',
    ),
]
REPAIRS = [(re.compile(pattern, re.DOTALL), new) for pattern, new in REPAIRS]


def clean_context(app, pagename, templatename, context, doctree) -> None:
    """Take thebe and doubled scripts off one page, and give the page a description if it has none."""
    kept, seen = [], set()
    for script in context.get("script_files", []):
        key = (script.filename, script.attributes.get("body"))
        if "thebe" in f"{key}".lower() or key in seen:
            continue
        seen.add(key)
        kept.append(script)
    context["script_files"] = kept
    context["css_files"] = [css for css in context.get("css_files", []) if "thebe" not in str(css.filename)]
    if 'name="description"' not in (context.get("metatags") or ""):
        context["metatags"] = (context.get("metatags") or "") + f'<meta name="description" content="{DESCRIPTION}" />'


def finish(app, error) -> None:
    """Repair the pages, delete what no page loads."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in out.rglob("*.html"):
        before = after = page.read_text(encoding="utf-8")
        for pattern, new in REPAIRS:
            after = pattern.sub(new, after)
        if after != before:
            page.write_text(after, encoding="utf-8")
    unused = [
        "scripts/fontawesome.js",
        "sphinx-thebe.js",
        "sphinx-thebe.css",
        "webpack-macros.html",
        "sbt-webpack-macros.html",
    ]
    for path in [*(out / "_static").rglob("*.map"), *(out / "_static" / name for name in unused)]:
        path.unlink(missing_ok=True)


def setup(app) -> dict:
    app.connect("html-page-context", clean_context, priority=900)
    app.connect("build-finished", finish, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
