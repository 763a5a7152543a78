"""Sphinx extension: search leads to sections, also from a file, in English, Korean and Chinese.

Sphinx's own index, 250 KB, knows pages alone, whose tops are 20,000 to 40,000 px from what was asked, splits Korean and Chinese at
blanks, and shows no excerpt where pages are files.  This reads the built pages, and writes one script for the page that searches: their
sections, each with title, anchor, prose and other names, from the glossary, the index of methods, the hardware page and the planner's
menus.  search.js ranks them.  The theme matters by the field and the box of results in its `search.html`, which ours fills.
"""

import json
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

from helpers import study_time
from helpers.check import progress
from helpers.costs.rooflines.chips import ALIASES, CHIPS
from helpers.costs.transformers.public_models import SAME_SIZES

INDEX = "_static/search_sections.js"
EXCERPTS = 650
"""Letters of a section that excerpts are taken from; of what follows each word stands once, which finds it and halves the script."""
COMMON = 1 / 5
"""Share of the sections: a word that stands in more of them hardly tells one from another, and is left out behind an excerpt."""
VOID = ("br", "col", "hr", "img", "input", "link", "meta", "source", "wbr")
UNREAD = {"script", "style", "svg", "form", "nav", "noscript", "pre", "caption", "dl"}
INNER = re.compile(r"(<pre>|<math[^>]*>)(.*?)(</pre>|</math>)", re.DOTALL)
LABEL = re.compile(r"(?:sec|ch|ex)-[\w-]+")
WORD = re.compile(r"[a-z][a-z0-9_]{3,}", re.I)
ENTRY = re.compile(r'<dt id="(term-[^"]+)">(.*?)<a class="headerlink".*?<dd>(.*?)</dd>', re.DOTALL)
ROW = re.compile(r'<tr id="chip-([^"]+)">(.*?)</tr>', re.DOTALL)
MAKERS = {
    "ICI": "Google TPU",
    "NVLink": "NVIDIA GPU",
    "Infinity Fabric": "AMD Instinct GPU",
    "NeuronLink": "AWS Trainium",
}


class Section:
    """What stands under one heading, or in one paragraph with a label of its own."""

    def __init__(self, page: str, anchor: str, level: int, parent: "Section | None"):
        self.page, self.anchor, self.level, self.parent = page, anchor, level, parent
        self.title, self.text, self.code, self.about, self.equations = "", "", set(), "", []
        self.names = []  # what else it is called
        self.labels = [anchor]  # all that lead here: of sections that became one, each keeps its own


class Sections(HTMLParser):
    """The sections of one built page, in order.

    >>> page = Sections("a.html", '<section id="b"><span id="sec-b"></span><h2>Two <i>clocks</i></h2><p>Tick.</p></section>')
    >>> [(s.anchor, s.title, s.text.strip()) for s in page.found]
    [('sec-b', 'Two clocks', 'Tick.')]
    """

    def __init__(self, name: str, html: str):
        super().__init__()
        self.name, self.found, self.path, self.around = name, [], [], []
        self.feed(INNER.sub(lambda m: m[1] + re.sub(r"<[^>]+>", "", m[2]) + m[3], html))  # nine tenths of the marks

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        name = attrs.get("id") or ""
        opens = tag == "section" or (tag == "p" and LABEL.fullmatch(name) and self.around)
        if opens:
            self.begin(name, len(self.around) + 1)
        elif tag in ("h2", "h3") and name:  # a cell wrote it, without a section around it: it goes on to the next
            while self.around[-1].level >= int(tag[1]):
                self.around.pop()
            self.begin(name, int(tag[1]))
        elif LABEL.fullmatch(name) and tag == "span" and self.around and not self.around[-1].title:
            self.around[-1].anchor = name
            self.around[-1].labels.append(name)
        if tag not in VOID:
            self.path.append((tag, set((attrs.get("class") or "").split()), opens and self.around[-1]))

    def begin(self, anchor: str, level: int) -> None:
        self.around.append(Section(self.name, anchor, level, self.around[-1] if self.around else None))
        self.found.append(self.around[-1])

    def handle_endtag(self, tag):
        if any(tag == opened for opened, *_ in self.path):
            while True:
                opened, _, section = self.path.pop()
                if section:
                    del self.around[self.around.index(section) :]
                if opened == tag:
                    return

    def handle_data(self, data):
        tags, classes = {tag for tag, *_ in self.path}, set().union(*(some for _, some, _ in self.path))
        if not self.around or "headerlink" in classes:
            return
        here = self.around[-1]
        if tags & {"h1", "h2", "h3", "h4"} or ("strong" in tags and here.anchor and not here.title):
            here.title += data
        if "pre" in tags and "cell_input" in classes and "details" not in tags:
            here.code.update(word.lower() for word in WORD.findall(data))
        if "eqno" in classes and data.strip():
            here.equations.append(f"equation {data.strip(' ()')}")
        # prose; no code, controls, displayed formulas, or numbers that a cell wrote as a table
        if not (
            tags & (UNREAD | {"h1", "h2", "h3", "h4"})
            or classes & {"math", "launch", "hide"}
            or ("table" in tags and classes & {"cell_output", "live"})
        ):
            here.text += data


def plain(html: str) -> str:
    """Text of a piece of a page, without its marks.

    >>> plain('<em>A</em> &amp;\\n B <a class="headerlink" href="#b">#</a>')
    'A & B'
    """
    html = re.sub(r'<a class="headerlink".*?</a>', "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", "", html)).split())


def entries(glossary: str) -> list[dict]:
    """Of each entry of the glossary's page: its anchor, term, definition, other names, and the section that explains it."""
    found = []
    for anchor, term, body in ENTRY.findall(glossary):
        definition, _, rest = body.rpartition('<a class="reference internal"')
        also = re.search(r"also: (.*?) · <span", rest, re.DOTALL)
        foreign = re.findall(r'<span lang="\w+">(.*?)</span>', rest)
        names = ", ".join(([also[1]] if also else []) + foreign).replace("*", "")
        found.append({
            "anchor": anchor, "term": plain(term), "definition": plain(definition), "names": plain(names).split(", "),
            "section": re.search(r'href="([^"#]+)#([^"]+)"', rest).groups(),
        })  # fmt: skip
    return found


def things(hardware: str, planner: str) -> list[list]:
    """Chips and models: title, address, names as people write them, and what the page says of them."""
    options = {
        menu: re.findall(r'<option value="([^"]+)"', inner)
        for menu, inner in re.findall(r'<select id="live-planner-(chip|model)".*?>(.*?)</select>', planner, re.DOTALL)
    }
    heads = [plain(h) for h in re.findall(r'<th scope="col">(.*?)</th>', hardware.partition("</thead>")[0], re.DOTALL)]
    found = []
    for anchor, row in ROW.findall(hardware):
        cells = [plain(c) for c in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        says = "FLOPs/s in " + "; ".join(f"{h}: {c}" for h, c in zip(heads[1:], cells[1:], strict=True) if c != "–")
        names = [cells[0], *(a for a, of in ALIASES.items() if of == cells[0])]
        chip = CHIPS[cells[0]]
        maker = MAKERS.get(chip.names[1], "")
        names += [f"{word} {cells[0]}" for word in maker.split()] + [maker, (chip.links or chip.generation).title()]
        found.append([cells[0], f"book/hardware.html#chip-{anchor}", [n for n in names if n], says])
        if cells[0] in options.get("chip", ()):
            found.append([f"{cells[0]} in the planner", f"book/planner.html#live-planner?chip={cells[0]}", [], ""])
    for model in options.get("model", ()):
        names = [model, *(a for a, of in SAME_SIZES.items() if of == model)]
        found.append([f"{model} in the planner", f"book/planner.html#live-planner?model={model}", names, ""])
    return found


def words(text: str) -> set[str]:
    """
    >>> sorted(words("One ring, one Chip's (all-reduce)."))
    ['all-reduce', "chip's", 'one', 'ring']
    """
    return {word.strip(".,;:!?()[]“”") for word in text.lower().split()} - {""}


def called(section: Section) -> str:
    """Its heading, or what begins its paragraph in bold, or its name in the index of methods, or the heading around it."""
    return " ".join(section.title.split()).rstrip(".") or (section.names or [section.parent.title])[0]


def index(pages: dict[str, str], methods: list[dict]) -> dict:
    """What the script of the search knows, from pages by name: pages, sections, terms of the glossary, chips and models."""
    sections = [s for name, html in pages.items() for s in Sections(name, html).found]
    at = {(s.page, label): n for n, s in enumerate(sections) for label in s.labels}
    for method in methods:
        page = study_time.sections()[method["section"]][0]  # a chapter's core, or a page further down
        section = sections[at[f"book/{page}.html", method["section"]]]
        section.names.append(method["name"])
        section.about += f"{method['computes']} "
    for section in sections:
        if number := re.fullmatch(r"ex-(\d+)-(\d+)", section.anchor):
            section.names += [f"Exercise {gone}" for gone in progress.former_numbers(f"{number[1]}.{number[2]}")]
    often = Counter(word for s in sections for word in s.code)
    stands = Counter(word for s in sections for word in words(s.text))
    common = {word for word, times in stands.items() if times > COMMON * len(sections)}
    names = list(pages)

    def listed(s: Section) -> list:
        parent = at[s.parent.page, s.parent.anchor] if s.parent else -1
        text = " ".join(s.text.split())
        shown = text[: text.find(" ", EXCERPTS)] if len(text) > EXCERPTS else text
        code = s.code - {word for word, times in often.items() if times > 12}
        code = (code | words(text[len(shown) :])) - words(shown) - common
        about = s.about + " ".join(sorted(code))
        return [names.index(s.page), s.anchor, called(s), parent, shown, s.names + s.equations, about]

    def term(e: dict) -> list:
        page, anchor = e["section"]
        others = [n for n in e["names"] if n != e["term"]]
        return [e["anchor"], e["term"], e["definition"], others, at[f"book/{page}", anchor]]

    return {
        "pages": names,
        "sections": [listed(s) for s in sections],
        "terms": [term(e) for e in entries(pages["book/glossary.html"])],
        "things": things(pages["book/hardware.html"], pages["book/planner.html"]),
    }


def write(app, error) -> None:
    """Read all pages of the site, those of earlier builds too, and write the script."""
    if error or app.builder.format != "html":
        return
    out = Path(app.outdir)
    pages = {}
    for name in sorted(f"{name}.html" for name in app.env.found_docs):
        text = (out / name).read_text(encoding="utf-8")
        pages[name] = text.partition("<article")[2].partition("</article>")[0]
    methods = json.loads(Path(app.srcdir, "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
    data = json.dumps(index(pages, methods), ensure_ascii=False, separators=(",", ":"))
    (out / INDEX).write_text(f"var SECTIONS={data};\n", encoding="utf-8")


def without_sphinx(app) -> None:
    """Nothing reads Sphinx's index."""
    app.builder.search = False


def page(app):
    """The page that searches, which Sphinx writes with its index only."""
    yield "search", {}, "search.html"


def setup(app) -> dict:
    app.connect("builder-inited", without_sphinx)
    app.connect("html-collect-pages", page)
    app.connect("build-finished", write, priority=920)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
