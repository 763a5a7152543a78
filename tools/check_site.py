"""Judges a built site without a network: python -m tools.check_site _build/html

Dead links and anchors, doubled ids, anything loaded from another host, pictures without words, pages without a title or a
description, directives or expressions that nobody translated, and text that belongs to solutions or hidden tests.
"""

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

LEAKS = re.compile(r"BEGIN (?:SOLUTION|HIDDEN TESTS|MARK SCHEME)|### END SOLUTION|/solutions/ch\d")
# The page that prints an exercise's source, whole: its own, and none of the course's.
SHOWS_AN_EXERCISE = "instructor_own_exercise"
LEFTOVERS = re.compile(r"\{\{.+?\}\}|\{[a-z-]+\}`|(?:```|:::)\s*\{[a-z-]+\}|^:::", re.MULTILINE)
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}
REMOTE_CSS = re.compile(r"(?:@import\s+(?:url\()?|url\()\s*['\"]?(?:https?:)?//")
REMOTE_JS = re.compile(r"""(?:import\(|import\s+[^;'"]*from\s*|fetch\(|\.src\s*=\s*)\s*["'`](?:https?:)?//""")
TEXT = {".html", ".js", ".css", ".json", ".ipynb", ".md", ".txt", ".py", ".inv"}


class Fault(NamedTuple):
    file: str
    kind: str
    detail: str


class Page(HTMLParser):
    """What matters of one page: ids, links, loads, pictures, the text outside code."""

    def __init__(self, text: str):
        super().__init__()
        self.ids, self.links, self.loads, self.faults, self.prose = Counter(), [], [], [], []
        self.title = self.description = ""
        self.silent, self.in_title = 0, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.ids[attrs["id"]] += 1
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if attrs.get(LOADS.get(tag)):
            self.loads.append(attrs[LOADS[tag]])
        if tag == "link" and attrs.get("href") and attrs.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(attrs["href"])
        if tag == "img" and (not attrs.get("alt") or re.search(r"\.(svg|png|jpe?g)$|_images/", attrs["alt"])):
            self.faults.append(("picture without words", (attrs.get("src") or "")[:60]))
        if tag == "meta" and attrs.get("name") == "description":
            self.description = attrs.get("content") or ""
        self.in_title = tag == "title" and not self.title
        self.silent += tag in ("pre", "code", "script", "style")

    def handle_endtag(self, tag):
        self.in_title = False
        self.silent -= tag in ("pre", "code", "script", "style")

    def handle_data(self, data):
        if self.in_title:
            self.title += data
        if not self.silent:
            self.prose.append(data)


def pages(root: Path) -> dict[Path, Page]:
    """Every page of the site; the theme's own templates under _static are none."""
    found = (p for p in sorted(root.rglob("*.html")) if "_static" not in p.relative_to(root).parts)
    return {p: Page(p.read_text(encoding="utf-8")) for p in found}


def check(root: Path) -> list[Fault]:
    """All faults of the site under `root`, none if it is sound."""
    root = root.resolve()
    found = pages(root)
    if not found:
        return [Fault(str(root), "empty site", "there is no page")]
    faults = []
    for path, page in found.items():
        name = path.relative_to(root).as_posix()
        faults += [Fault(name, *f) for f in page.faults]
        faults += [Fault(name, "id used twice", i) for i, n in page.ids.items() if n > 1]
        faults += [Fault(name, "untranslated", m) for m in LEFTOVERS.findall("".join(page.prose))]
        if name != "index.html":  # the redirect to the first page
            faults += [Fault(name, f"no {k}", "") for k in ("title", "description") if not getattr(page, k).strip()]
        faults += [Fault(name, *f) for f in _targets(path, page, found)]
    return faults + _files(root)


def _targets(path: Path, page: Page, site: dict[Path, Page]):
    """Links that lead nowhere, and loads from elsewhere."""
    for kind, url in [("link", u) for u in page.links] + [("load", u) for u in page.loads]:
        parts = urlsplit(url)
        if parts.scheme in ("data", "mailto", "javascript"):
            continue
        if parts.scheme or parts.netloc:
            if kind == "load":
                yield "load from another host", url
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            yield "missing target", url
        elif kind == "link" and parts.fragment and target in site and unquote(parts.fragment) not in site[target].ids:
            yield "missing anchor", url


def _files(root: Path) -> list[Fault]:
    """Faults in any published text file, pages or not."""
    faults = []
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in TEXT):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8", errors="ignore")
        if path.stem != SHOWS_AN_EXERCISE and (leak := LEAKS.search(text)):
            faults.append(Fault(name, "leak", leak[0]))
        if (path.suffix == ".css" and REMOTE_CSS.search(text)) or (path.suffix == ".js" and REMOTE_JS.search(text)):
            faults.append(Fault(name, "code that loads from another host", ""))
        if (
            path.suffix == ".ipynb"
            and any("outputs" in c and c["outputs"] for c in json.loads(text)["cells"])
            and "exercises" in name
        ):
            faults.append(Fault(name, "exercises with outputs", ""))
    return faults


def main(argv: list[str]) -> int:
    if len(argv) != 1 or not Path(argv[0]).is_dir():
        print("usage: python -m tools.check_site _build/html (a folder that jupyter-book has built)")
        return 2
    root = Path(argv[0])
    faults = check(root)
    for fault in faults:
        print(f"{fault.file}: {fault.kind}: {fault.detail}")
    print(f"{len(pages(root))} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
