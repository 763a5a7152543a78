"""Sphinx extension: the pages' style sheets become one, without rules that no page can use, and scripts wait for the page.

The theme's sheets hold all of Bootstrap and an icon font of 156 KB; of both a book uses little, and a phone waits for all.
"""

import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from posixpath import normpath

import tinycss2
from fontTools import subset

SHEET = "_static/site.css"
LINK = re.compile(r'\s*<link (?=[^>]*rel="stylesheet")[^>]*href="((?:\.\./)*)(_static/[^"?]+\.css)[^"]*"[^>]*>')
PRELOAD = re.compile(r'\s*<link rel="preload" as="script"[^>]*>')
OPTIONS = re.compile(r"\s*<script>DOCUMENTATION_OPTIONS\.\w+ = [^<;]*;</script>")  # for parts that this book has not
MEASURE = re.compile(r',"complete"===document\.readyState\?(\w+)\(\):window\.addEventListener\("load",\1\)')
IMPORT = re.compile(r'@import\s+"([^"]+)"\s*;')
NAME = re.compile(r"-?[A-Za-z_][\w-]*")
# What Bootstrap's script may put on a page that has no such box in it.
ABSENT = re.compile(
    r"(?:carousel|modal|offcanvas|toast|popover|accordion|nav-tabs|list-group|scrollspy|btn-close|placeholder)"
)


class Names(HTMLParser):
    """Classes and ids of pages, and every word of their scripts."""

    def __init__(self):
        super().__init__()
        self.found, self.script = set(), False

    def handle_starttag(self, tag, attrs):
        self.script = tag == "script"
        self.found.add(tag)
        for key, value in attrs:
            if key in ("class", "id"):
                self.found.update((value or "").split())

    def handle_data(self, data):
        if self.script:
            self.found.update(NAME.findall(data))


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


def merge(out: Path) -> None:
    """Write one sheet for all pages of a site, let them name it alone, and cut the icons to those that it draws."""
    pages = {path: path.read_text(encoding="utf-8") for path in out.rglob("*.html") if "_static" not in path.parts}
    order = []
    for text in sorted(pages.values(), key=lambda t: -len(LINK.findall(t))):
        order += [name for _, name in LINK.findall(text) if name not in (*order, SHEET)]
    if not order:
        return  # no page was written anew, and Sphinx has copied nothing
    names = Names()
    for text in pages.values():
        names.feed(text)
    for script in (out / "_static").rglob("*.js"):
        words = NAME.findall(script.read_text(encoding="utf-8"))
        names.found.update(w for w in words if script.name != "bootstrap.js" or not ABSENT.match(w))
    sheet = purge("".join(rooted(out / name, out / "_static") for name in order), names.found)
    (out / SHEET).write_text(icons(sheet, out / "_static"), encoding="utf-8")
    for path, text in pages.items():
        path.write_text(lighten(text), encoding="utf-8")
    script = out / "_static/scripts/pydata-sphinx-theme.js"
    script.write_text(unmeasured(script.read_text(encoding="utf-8")), encoding="utf-8")


def unmeasured(script: str) -> str:
    """The theme's script without its look at every box that might scroll; page.js has its own.

    >>> unmeasured('e(f),"complete"===document.readyState?I():window.addEventListener("load",I)})();')
    'e(f)})();'
    """
    if not MEASURE.search(script):
        raise RuntimeError("the theme's script no longer measures boxes as it did: look at book/_ext/styles.py")
    return MEASURE.sub("", script)


def rooted(path: Path, root: Path) -> str:
    """A sheet with those that it imports, whose addresses count from the folder `root`."""
    folder = path.parent.relative_to(root).as_posix()

    def moved(match):
        url = match[1].strip("\"'")
        return match[0] if re.match(r"data:|#|https?:", url) else f'url("{normpath(f"{folder}/{url}")}")'

    text = re.sub(r"url\(([^)]*)\)", moved, path.read_text(encoding="utf-8"))
    return IMPORT.sub(lambda m: rooted((path.parent / m[1]).resolve(), root.resolve()), text)


def icons(sheet: str, static: Path) -> str:
    """Cut each icon font to the icons that the sheet names; the sheet with the addresses of what is left."""
    used = sorted({c for c in sheet if "\ue000" <= c <= "\uf8ff"})
    for name in sorted(set(re.findall(r'url\("([^"]*/fa-[^"]*)\.ttf"\)', sheet))):
        source, kept = static / f"{name}.ttf", f"{Path(name).name}.woff"
        options = subset.Options(flavor="woff", name_IDs=["*"])
        font = subset.load_font(str(source), options)
        cut = subset.Subsetter(options)
        cut.populate(text="".join(used))
        cut.subset(font)
        subset.save_font(font, str(static / kept), options)
        font.close()
        sheet = re.sub(rf'src:\s*url\("{re.escape(name)}\.woff2"\)[^;}}]*', f'src:url("{kept}") format("woff")', sheet)
        for old in source.parent.glob(f"{source.stem}.*"):
            old.unlink()
    return sheet


def lighten(page: str) -> str:
    """A page that names the one sheet and whose scripts wait until it is read.

    >>> lighten('<head><link href="../_static/a.css?v=1" rel="stylesheet" /><script src="../_static/b.js"></script></head>')
    '<head>\\n    <link rel="stylesheet" href="../_static/site.css" /><script defer src="../_static/b.js"></script></head>'
    """
    first = LINK.search(page)
    if first is None:
        return page
    one = f'\n    <link rel="stylesheet" href="{first[1]}{SHEET}" />'
    page = OPTIONS.sub("", PRELOAD.sub("", page[: first.start()] + one + LINK.sub("", page[first.start() :])))
    return once(page.replace('<script src="', '<script defer src="'))


def once(page: str) -> str:
    """A page that names no script twice.

    >>> once('<script defer src="a.js"></script>x<script defer src="a.js"></script>')
    '<script defer src="a.js"></script>x'
    """
    seen = set()

    def kept(match):
        new = match[0] not in seen
        seen.add(match[0])
        return match[0] if new else ""

    return re.sub(r"<script defer src=[^>]*></script>", kept, page)


def finish(app, error) -> None:
    """Lighten a site that was built."""
    if not error and app.builder.format == "html":
        merge(Path(app.outdir))


def fingerprint(*folders: Path) -> str:
    """Of the names and contents of what lies in the folders, compiled code left out."""
    found = hashlib.sha256()
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def setup(app) -> dict:
    # Sphinx writes pages anew when a value of kind "html" has changed; else an edit of a script, a sheet or an extension
    # would not reach the site.
    book = Path(app.srcdir, "book")
    app.add_config_value("static_files", fingerprint(book / "_static", book / "_ext"), "html")
    app.connect("build-finished", finish, priority=930)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
