"""Sphinx extension: the pages' style sheets become one, without rules that no page can use.

The theme's sheets hold all of Bootstrap and an icon font.  A page weighs 65 KB less, the icons 154 KB less, and what blocks a phone as
chapter 4 loads is 1.3 s instead of 2.3 s; the theme's look at boxes is 0.6 s of it.  layout.html names the sheet.  A theme that names
more sheets in its own layout needs them in THEME; one that measures boxes otherwise stops the build, and one that has icons as .woff2
alone, as pydata-sphinx-theme 0.24, keeps them whole (test_style_sheet).
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from posixpath import normpath

import tinycss2
from fontTools import subset

SHEET = "_static/site.css"
THEME = ["_static/styles/theme.css", "_static/styles/pydata-sphinx-theme.css"]  # Sphinx knows of the others
MEASURE = re.compile(r',"complete"===document\.readyState\?(\w+)\(\):window\.addEventListener\("load",\1\)')
IMPORT = re.compile(r'@import\s+"([^"]+)"\s*;')
UNUSED = ["scripts/fontawesome.js", "webpack-macros.html", "sbt-webpack-macros.html"]
NAME = re.compile(r"-?[A-Za-z_][\w-]*")
SCRIPT = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
# What Bootstrap's script may put on a page that has no such box in it.
ABSENT = re.compile(
    r"carousel|modal|offcanvas|toast|popover|accordion|nav-tabs|list-group|scrollspy|btn-close|placeholder"
)


def names_of(page: str) -> set[str]:
    """Classes and ids of a page, and every word of its scripts.

    >>> sorted(names_of('<p class="a b">c</p><script defer>d()</script>'))
    ['a', 'b', 'd']
    """
    marks = {name for names in re.findall(r'\s(?:class|id)="([^"]*)"', page) for name in names.split()}
    return marks | {word for script in SCRIPT.findall(page) for word in NAME.findall(script)}


def needed(selector: list) -> set[str]:
    """Classes and ids without which a selector matches nothing; what stands in :not(…), :is(…) and the like is not asked.

    >>> sorted(needed(tinycss2.parse_component_value_list(".a > #b:not(.c) p.d")))
    ['a', 'b', 'd']
    """
    found, dot = set(), False
    for token in selector:
        if dot and token.type == "ident":
            found.add(token.value)
        if token.type == "hash":
            found.add(token.value)
        dot = token.type == "literal" and token.value == "."
    return found


def selectors(prelude: list) -> list[list]:
    """A rule's selectors, split at its commas."""
    found = [[]]
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            found.append([])
        else:
            found[-1].append(token)
    return found


def purge(css: str, names: set[str]) -> str:
    """A style sheet without rules for classes and ids that are not among the names, comments and blanks.

    >>> purge(".a, .b{color:red} @media print { .b { top: 0 } } /* x */ p { margin: 0 }", {"a"})
    '.a{color:red}p{margin: 0}'
    """
    return _kept(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True), names)


def _kept(rules: list, names: set[str]) -> str:
    out = []
    for rule in rules:
        if rule.type == "qualified-rule":
            kept = [s for s in selectors(rule.prelude) if needed(s) <= names]
            if kept:
                out.append(f"{','.join(tinycss2.serialize(s).strip() for s in kept)}{{{_body(rule.content)}}}")
        elif rule.type == "at-rule":
            head = f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude).rstrip()}"
            if rule.lower_at_keyword in ("media", "supports", "layer", "container") and rule.content is not None:
                inner = _kept(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True), names)
                out += [f"{head}{{{inner}}}"] * bool(inner)
            elif rule.lower_at_keyword != "charset":
                out.append(head + (";" if rule.content is None else f"{{{_body(rule.content)}}}"))
    return "".join(out)


def _body(content: list) -> str:
    """Declarations without comments and blanks around them."""
    return re.sub(r"\s+", " ", tinycss2.serialize([t for t in content if t.type != "comment"])).strip()


def merge(out: Path, order: list[str]) -> None:
    """Write one sheet for all pages of a site out of those in this order, and cut the icons to those that it draws."""
    for old in [*(out / "_static").rglob("*.map"), *(out / "_static" / name for name in UNUSED)]:
        old.unlink(missing_ok=True)
    pages = (path for path in out.rglob("*.html") if "_static" not in path.parts)
    names = set().union(*(names_of(path.read_text(encoding="utf-8")) for path in pages))
    for script in (out / "_static").rglob("*.js"):
        words = NAME.findall(script.read_text(encoding="utf-8"))
        names.update(w for w in words if script.name != "bootstrap.js" or not ABSENT.match(w))
    sheet = purge("".join(rooted(out / name, out / "_static") for name in order), names)
    (out / SHEET).write_text(icons(sheet, out / "_static"), encoding="utf-8")
    script = out / "_static/scripts/pydata-sphinx-theme.js"
    script.write_text(unmeasured(script.read_text(encoding="utf-8")), encoding="utf-8")


def unmeasured(script: str) -> str:
    """The theme's script without its look at every box that might scroll; page.js has its own.

    >>> unmeasured('e(f),"complete"===document.readyState?I():window.addEventListener("load",I)})();')
    'e(f)})();'
    """
    if not MEASURE.search(script):
        raise RuntimeError("the theme's script no longer measures boxes as it did: look at book/_ext/style_sheet.py")
    return MEASURE.sub("", script)


def rooted(path: Path, root: Path) -> str:
    """A sheet with those that it imports, whose addresses count from the folder `root`."""
    folder = path.parent.relative_to(root).as_posix()

    def moved(match):
        url = match[1].strip("\"'")
        return match[0] if re.match(r"data:|#|https?:", url) else f'url("{normpath(f"{folder}/{url}")}")'

    text = re.sub(r"url\(([^)]*)\)", moved, path.read_text(encoding="utf-8"))
    return IMPORT.sub(lambda m: rooted((path.parent / m[1]).resolve(), root.resolve()), text)


def cut_font(source: Path, to: Path, characters: Iterable[str], **options) -> None:
    """Write the part of a font that draws these characters."""
    options = subset.Options(flavor="woff", name_IDs=["*"], **options)
    font, cut = subset.load_font(str(source), options), subset.Subsetter(options)
    cut.populate(text="".join(sorted(characters)))
    cut.subset(font)
    subset.save_font(font, str(to), options)
    font.close()


def icons(sheet: str, static: Path) -> str:
    """Cut each icon font to the icons that the sheet names; the sheet with the addresses of what is left."""
    used = {c for c in sheet if "\ue000" <= c <= "\uf8ff"}
    for name in sorted(set(re.findall(r'url\("([^"]*/fa-[^"]*)\.ttf"\)', sheet))):
        source, kept = static / f"{name}.ttf", f"{Path(name).name}.woff"
        cut_font(source, static / kept, used)
        sheet = re.sub(rf'src:\s*url\("{re.escape(name)}\.woff2"\)[^;}}]*', f'src:url("{kept}") format("woff")', sheet)
        for old in source.parent.glob(f"{source.stem}.*"):
            old.unlink()
    return sheet


def note(app, page, template, context, doctree) -> None:
    """Remember the sheets that a page would name."""
    for sheet in sorted(context["css_files"], key=lambda sheet: sheet.priority):
        if sheet.filename not in app.sheets:
            app.sheets.append(sheet.filename)


def finish(app, error) -> None:
    """Style a site that was built; if no page was written anew, Sphinx has copied nothing."""
    if not error and app.builder.format == "html" and app.sheets:
        merge(Path(app.outdir), THEME + app.sheets)


def fingerprint(*places: Path) -> str:
    """Of the names and contents of files and of what lies in folders, compiled code left out."""
    found = hashlib.sha256()
    for path in sorted(p for place in places for p in (place, *place.rglob("*")) if p.is_file() and p.suffix != ".pyc"):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def setup(app) -> dict:
    # Sphinx writes pages anew when a value of kind "html" has changed; else an edit of a script, a sheet, an extension, a figure or
    # the glossary, whose meanings stand in the links to it, would not reach the site.
    read = [Path(app.srcdir, name) for name in ("book/_static", "book/_ext", "helpers/figures", "helpers/live")]
    app.add_config_value("files_read", fingerprint(*read, Path(app.srcdir, "book/glossary.md")), "html")
    app.sheets = []
    app.connect("html-page-context", note, priority=900)
    app.connect("build-finished", finish, priority=930)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
