"""A chapter's core ends in a list of its pages further down, which also is where addresses of sections that moved arrive.

In the core's source

    ```{further}
    systolic: how 16,384 multipliers feed each other.
    ```

stands for one line for each `book/chNN_topic_NAME.md`: its title, what is said here, and its sections.
`book/data/addresses.json` has the anchors that each chapter had when it was one page, label -> the ids of its section.  An anchor that
the core has no more is put behind the heading of its label, or into the entry of the page where the label stands now.
"""

import json
import re
from pathlib import Path

from autograder.places import SourceError

from .links import LABELLED, TITLE, slug

BLOCK = re.compile(r"^```\{further\}\n(.*?)^```$", re.M | re.S)
LINE = re.compile(r"^([a-z0-9_]+): +(.+)$")
HEADING = re.compile(r"^#{1,4} +(.+)$", re.M)
KINDS = {"equation-": r"^:label: {}$", "live-": r"^```\{{live\}} {}$"}
PREFIX = "Further down: "


def anchors(text: str) -> set[str]:
    """All labels, ids of headings, equations and live figures that a source has on the site.

    >>> sorted(anchors("(sec-a)=\\n## Two times\\n\\n```{math}\\n:label: eq-b\\nx\\n```\\n\\n```{live} roof\\n```\\n"))
    ['equation-eq-b', 'live-roof', 'sec-a', 'two-times']
    """
    found = {m[1] for m in LABELLED.finditer(text)} | {slug(m[1]).lstrip("-0123456789") for m in HEADING.finditer(text)}
    for kind, line in KINDS.items():
        found |= {f"{kind}{name}" for name in re.findall(line.format(r"(\S+)"), text, re.M)}
    return found


def moved(text: str, pages: dict[str, str], known: dict[str, list[str]]) -> dict[str, list[str]]:
    """Label in the core, or name of a page further down -> the anchors to put there.

    pages  name of each page -> its source
    known  label -> the other anchors that its section had
    """
    there, found = anchors(text), {}
    for label, ids in known.items():
        if gone := [i for i in (label, *ids) if i not in there]:
            place = label if label in there else next((n for n, page in pages.items() if label in anchors(page)), None)
            if place is None:
                raise SourceError(f'An address of the course, "{label}", leads nowhere: label what its text became.')
            found.setdefault(place, []).extend(gone)
    return found


def marks(ids: list[str], notebook: bool) -> str:
    """Empty elements with these ids; a notebook has labels and equations only, by their own names."""
    if not notebook:
        return "".join(f'<span id="{i}"></span>' for i in ids)
    names = [i.removeprefix("equation-") for i in ids if re.match(r"(?:equation-eq|sec|ch)-", i)]
    return "".join(f'<a id="{i}"></a>' for i in names)


def expanded(path: Path, text: str, notebook: bool = False) -> str:
    """A core's source with its list of pages, and with every address that it had; any other source as it is."""
    file = path.parent / "data/addresses.json"
    known = json.loads(file.read_text(encoding="utf-8")).get(path.stem, {}) if file.is_file() else {}
    block = BLOCK.search(text)
    if not (known or block):
        return text
    lines = dict(_line(path, line) for line in block[1].strip().split("\n")) if block else {}
    pages = {name: page.read_text(encoding="utf-8") for name, page in further(path, text).items()}
    if set(lines) != set(pages):
        raise SourceError(f"{path.name} lists {sorted(lines)} further down, and there is {sorted(pages)}.")
    ids = moved(text, pages, known)
    entries = [
        _entry(path, name, said, pages[name], marks(ids.pop(name, []), notebook)) for name, said in lines.items()
    ]
    text = BLOCK.sub(lambda _: "\n".join(entries), text)
    for label, gone in ids.items():
        heading = re.search(rf"^\({label}\)=\n(?:\(.*\)=\n)*#+ .*\n", text, re.M)
        text = f"{text[: heading.end()]}\n{marks(gone, notebook)}\n{text[heading.end() :]}"
    return text


def further(path: Path, text: str | None = None) -> dict[str, Path]:
    """Name -> source of each page further down of a chapter, in the order of the core's list; text: the core, if it was read."""
    block = BLOCK.search(path.read_text(encoding="utf-8") if text is None else text)
    listed = [line.partition(":")[0] for line in block[1].split("\n")] if block else []
    found = {page.stem.removeprefix(f"{path.stem}_"): page for page in sorted(path.parent.glob(f"{path.stem}_*.md"))}
    return {name: found[name] for name in listed if name in found} | found


def _line(path: Path, line: str) -> tuple[str, str]:
    if not (m := LINE.match(line)):
        raise SourceError(f'{path.name}: "{line}" is no line such as "systolic: how a chip multiplies."')
    return m[1], m[2]


def _entry(path: Path, name: str, said: str, page: str, put: str) -> str:
    """One line of the list: the page, what it is about, its sections, but for one with the page's own title."""
    title = TITLE.search(page)[1].strip().removeprefix(PREFIX)
    title = title[0].upper() + title[1:]
    labels = {m[2]: m[1] for m in LABELLED.finditer(page.partition("\n# ")[2]) if m[2]}  # of stacked ones the last
    sections = ", ".join(f"{{ref}}`{label}`" for heading, label in labels.items() if heading != title)
    return f"* {put}{{doc}}`{title} <{path.stem}_{name}>`: {said}" + (f" ({sections})" if sections else "")
