"""Labels, equations, pages and citations of all sources: where a link from a notebook leads."""

import posixpath
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from autograder.places import SourceError, Tree, reading_of

LABELLED = re.compile(r"^\(([\w:.-]+)\)=(?=\s*\n+(?:\([\w:.-]+\)=\s*\n+)*(?:#+ +(.+))?)", re.M)
EQUATION = re.compile(r"^```\{math\}\s*\n(?::[\w-]+:.*\n)*?:label:\s*(\S+)", re.M)
SHOWN = re.compile(r"^`{5,}\w*\n.*?^`{5,}$", re.M | re.S)
"""A source that a page shows, with labels that are not the page's."""
TITLE = re.compile(r"^# +(.+)$", re.M)
TITLED = re.compile(r"^(.*\S)\s*<([^<>]+)>$", re.S)


def slug(text: str) -> str:
    """Lower case words joined by hyphens, for ids.

    >>> slug("Exercise 1.4 — Title")
    'exercise-1-4-title'
    """
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")


def target_of(source: Path, root: Path) -> str:
    """What a reader of notebooks opens for a source, from the repository's root."""
    name = source.relative_to(root)
    if name.parts[0] == "solutions":
        return f"notebooks/{source.stem}/exercises.ipynb"
    if name.parts[0] == "book" and re.match(r"ch\d\d_", source.stem) and len(name.parts) == 2:
        return f"notebooks/{reading_of(source.stem)}"
    return name.as_posix()


@dataclass
class Links:
    """All that can be linked to. Targets are paths from the repository's root."""

    labels: dict[str, tuple[str, str]] = field(default_factory=dict)  # label -> (target, text)
    titles: dict[str, str] = field(default_factory=dict)  # target -> title
    cited: dict[str, tuple[str, str]] = field(default_factory=dict)  # key -> (text, address)

    @classmethod
    def of(cls, tree: Tree, texts: dict[Path, str]) -> "Links":
        """Links among the sources `texts` and the other pages of the book."""
        links = cls()
        for source in (*texts, *tree.pages):
            links.add(target_of(source, tree.root), texts.get(source) or source.read_text(encoding="utf-8"))
        for bib in sorted((tree.root / "book").glob("*.bib")):
            links.cited.update(citations(bib))
        return links

    def add(self, target: str, text: str) -> None:
        """Register labels and title of one document."""
        text = SHOWN.sub("", text)
        title = TITLE.search(text)
        self.titles[target] = title[1].strip() if title else Path(target).stem
        found = [(m[1], (m[2] or m[1]).strip()) for m in LABELLED.finditer(text)]
        found += [(m[1], f"({i})") for i, m in enumerate(EQUATION.finditer(text), 1)]
        for label, shown in found:
            if label in self.labels:
                raise SourceError(f'The label "{label}" stands twice: in {self.labels[label][0]} and {target}.')
            self.labels[label] = (target, shown)

    def _label(self, label: str) -> tuple[str, str]:
        if label not in self.labels:
            raise SourceError(f'No source has the label "{label}".')
        return self.labels[label]

    def _href(self, label: str, here: str) -> str:
        target = self._label(label)[0]
        page = "" if target == here else posixpath.relpath(target, posixpath.dirname(here))
        return f"{page}#{label}"

    def equation(self, label: str) -> str:
        """Number of an equation within its document."""
        return self._label(label)[1].strip("()")

    def eq(self, label: str, here: str) -> str:
        return f"[{self._label(label)[1]}]({self._href(label, here)})"

    def ref(self, text: str, here: str) -> str:
        m = TITLED.match(text)
        shown, label = (m[1], m[2]) if m else (self._label(text)[1], text)
        return f"[{shown}]({self._href(label, here)})"

    def doc(self, text: str, here: str) -> str:
        """A page by its path from the source's folder: book/ or solutions/."""
        m = TITLED.match(text)
        path = m[2] if m else text
        folder = "solutions" if here.endswith("/exercises.ipynb") else "book"
        page = posixpath.normpath(path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path))
        stem = posixpath.basename(page)
        known = [f"notebooks/{reading_of(stem)}", f"{page}.md", f"{page}.ipynb", page]
        target = next((t for t in known if t in self.titles), None)
        if target is None:
            raise SourceError(f'No page is called "{path}".')
        return f"[{m[1] if m else self.titles[target]}]({posixpath.relpath(target, posixpath.dirname(here))})"

    def cite(self, keys: str, here: str) -> str:
        shown = []
        for key in (k.strip() for k in keys.split(",")):
            if key not in self.cited:
                raise SourceError(f'The bibliography has no entry "{key}".')
            text, address = self.cited[key]
            shown.append(f"[{text}]({address})" if address else text)
        return "; ".join(shown)


def citations(bib: Path) -> dict[str, tuple[str, str]]:
    """Key -> ("Austin et al. 2025", address or "") of a BibTeX file."""
    from pybtex.database import parse_file

    found = {}
    for key, entry in parse_file(str(bib), bib_format="bibtex").entries.items():
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [" ".join(p.prelast_names + p.last_names).strip("{}") for p in people]
        who = names[0] + " et al." if len(names) > 2 else " and ".join(names)
        who = who or entry.fields.get("organization") or entry.fields.get("title", key)
        address = entry.fields.get("url") or ""
        if not address and "doi" in entry.fields:
            address = f"https://doi.org/{entry.fields['doi']}"
        found[key] = (f"{who} {entry.fields.get('year', '')}".strip().replace("{", "").replace("}", ""), address)
    return found
