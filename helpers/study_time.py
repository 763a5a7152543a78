"""How long the course takes: a chapter's sections by what stands in them, its exercises by their data lines.

Somebody who meets the subject for the first time reads about 125 words a minute, a line of open code in 6 seconds, and looks at a
figure or a formula for half a minute; folded code takes none. One first reader took 45 minutes for 5,600 words of chapters 1 to 3 with
their figures, which is this pace or a little faster; nobody has timed more.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

BOOK = Path(__file__).parents[1]
WORDS, LINES, FIGURES = 125, 10, 2  # a minute
NBSP = "\u00a0"  # a number and its unit stay on one line
LABEL = re.compile(r"^\(([\w:.-]+)\)=$", re.M)
CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.M | re.S)
# Front matter, cells, comments and labels.
UNREAD = re.compile(r"\A---\n.*?^---$|^```.*?^```$|^% [^\n]*$|^\([\w:.-]+\)=$", re.M | re.S)
EXERCISE = re.compile(r"^### Exercise (\d+\.\d+) .*\n+([★☆]{3})(?: · importance (\d)/5)? · (\d+) min · (.*)", re.M)
AFTER = re.compile(r" · after \{ref\}`(?:[^`<]*<)?([\w:.-]+)>?`")

PATHS = {
    "45 minutes": """
        sec-bounds sec-intensity sec-matmul sec-sampling sec-blocks sec-four-cases
        sec-case-3 sec-price-list sec-all-gather sec-dots sec-back sec-six-nd sec-kv-cache""",
    "training": """
        1.3 2.1 sec-case-1 sec-case-2 sec-reduce-scatter sec-all-reduce 3.1
        sec-two-products 4.3 sec-four-ways sec-dp sec-master-copy 4.1 sec-fsdp 4.2 sec-tp""",
    "inference": """
        1.3 1.10 2.1 3.12 sec-prefill-generate 5.1 sec-replica-batch sec-step-time 5.3 5.4
        sec-latency-throughput""",
}
"""Sections to read and exercises to do, in order; the last two are an evening each, behind the 45 minutes."""


ESSENCE = {
    "sec-bounds": "what one chip waits for",
    "sec-four-cases": "what sharded products send",
    "sec-six-nd": "how much a model computes",
}
EVENINGS = {
    "training": ("sec-dp", "how many chips train a model"),
    "inference": ("sec-step-time", "how fast chips serve a model"),
}
"""What a path tells, where the section that tells it is there: an edition may have left it out."""


def essence() -> str:
    """What the 45 minutes are about."""
    *first, last = [about for label, about in ESSENCE.items() if label in sections()] or ["what stands in its chapters"]
    return f"{', '.join(first)} and {last}" if first else last


def evenings() -> str:
    """The evenings behind the 45 minutes, each with its path, as Markdown."""
    there = [(name, about) for name, (label, about) in EVENINGS.items() if label in sections()]
    begun = zip(("**An evening** more", "Or as the evening"), there, strict=False)
    return "\n\n".join(f"{begin}: {about} ({spent(length(name))}).\n\n{path(name)}" for begin, (name, about) in begun)


def spent(minutes: float) -> str:
    """A time as a person would give it.

    >>> spent(4.2), spent(52), spent(397), spent(1440)
    ('5\xa0min', '50\xa0min', '6\xa0h\xa040\xa0min', '24\xa0h')
    """
    whole = max(5, round(minutes / 5) * 5) if minutes < 90 else round(minutes / 10) * 10
    hours, rest = divmod(whole, 60)
    return NBSP.join([f"{hours}{NBSP}h"] * (hours > 0) + [f"{rest}{NBSP}min"] * (rest > 0))


def pages(text: str) -> float:
    """Minutes that a text takes, with its figures, formulas and open code.

    >>> pages("word " * 125), pages("```{code-cell} ipython3\\n" + "x = 1\\n" * 10 + "```")
    (1.0, 1.0)
    """
    cells = CELL.findall(text)
    seen = sum("plot." in cell for cell in cells) + text.count("```{live}") + text.count("```{math}")
    code = sum(len(c.split("\n")) - 2 for c in cells if "hide-" not in c and "remove-" not in c)
    words = re.findall(r"\w+", re.sub(r"\{\{.*?\}\}", "1", UNREAD.sub("", text)))
    return len(words) / WORDS + code / LINES + seen / FIGURES


@cache
def sections() -> dict[str, tuple[str, float]]:
    """Page and minutes of each section of all chapters by its label; a page's own label stands for its head.

    A page is named like its source: ch01_rooflines is a chapter's core, ch01_rooflines_systolic one of its pages further down.
    """
    found = {}
    for path in sorted((BOOK / "book").glob("ch[0-9][0-9]_*.md")):
        _, *parts = LABEL.split(path.read_text(encoding="utf-8"))
        found |= {label: (path.stem, pages(text)) for label, text in zip(parts[::2], parts[1::2], strict=True)}
    return found


class Exercise(NamedTuple):
    """What the data line of an exercise says, and its chapter; `autograder.making.data_line` says of what."""

    topic: str
    stars: int
    importance: int
    minutes: int
    after: tuple[str, ...]
    needs: tuple[str, ...]


@cache
def exercises() -> dict[str, Exercise]:
    """Each exercise by its number."""
    found = {}
    for path in sorted((BOOK / "solutions").glob("ch[0-9][0-9]_*.md")):
        for number, stars, importance, minutes, rest in EXERCISE.findall(path.read_text(encoding="utf-8")):
            after, needs = tuple(AFTER.findall(rest)), tuple(re.findall(r"\d\.\d+", rest.partition(" · needs ")[2]))
            found[number] = Exercise(path.stem, stars.count("★"), int(importance or 3), int(minutes), after, needs)
    return found


class Asked(Protocol):
    """What decides whether an exercise is of the core."""

    stars: int
    importance: int
    after: tuple[str, ...]
    needs: tuple[str, ...]


def core(asked: Mapping[str, Asked], read: Collection[str]) -> list[str]:
    """The core exercises among those of a chapter: of importance 5, or 4 with fewer than three stars, that need the core alone.

    read  labels of the sections of cores

    >>> one, two = (Exercise("ch01_sample", 2, i, 10, ("sec-a",), ("1.1",) * (i == 4)) for i in (5, 4))
    >>> core({"1.1": one, "1.2": two}, ["sec-a"]), core({"1.1": one._replace(importance=3), "1.2": two}, ["sec-a"])
    (['1.1', '1.2'], [])
    """

    def of_core(number: str) -> bool:
        own = asked[number]
        matters = own.importance == 5 or own.importance == 4 and own.stars < 3
        return matters and {*own.after} <= {*read} and all(of_core(n) for n in own.needs if n in asked)

    return [number for number in asked if of_core(number)]


@cache
def core_exercises(topic: str) -> list[str]:
    """Numbers of a chapter's core exercises."""
    own = {number: exercise for number, exercise in exercises().items() if exercise.topic == topic}
    return core(own, {label for label, (page, _) in sections().items() if page == chapter_of(page)})


def reading(topic: str) -> float:
    """Minutes that a chapter's core takes to read, such as ch01_rooflines."""
    return sum(minutes for of, minutes in sections().values() if of == topic)


def further(topic: str) -> float:
    """Minutes that a chapter's pages further down take to read."""
    return sum(minutes for of, minutes in sections().values() if of.startswith(f"{topic}_"))


def chapter_of(page: str) -> str:
    """
    >>> chapter_of("ch01_rooflines_systolic")
    'ch01_rooflines'
    """
    return "_".join(page.split("_")[:2])


def notebook_of(page: str) -> str:
    """The notebook of a chapter's core, or of a page further down, from the folder of notebooks.

    >>> notebook_of("ch01_rooflines"), notebook_of("ch01_rooflines_systolic")
    ('ch01_rooflines/reading.ipynb', 'ch01_rooflines/further_systolic.ipynb')
    """
    topic = chapter_of(page)
    name = page.removeprefix(topic).removeprefix("_")
    return f"{topic}/further_{name}.ipynb" if name else f"{topic}/reading.ipynb"


class Step(NamedTuple):
    """A section to read (`sec-bounds`) or an exercise to do (`1.3`) on a path.

    link  to it, from the folder of notebooks
    """

    name: str
    title: str
    link: str
    minutes: float


ALL = "all"
"""The path through every chapter's core and its core exercises, which also goes on behind each of the others."""


@cache
def steps(path: str) -> tuple[str, ...]:
    """Names of a path's steps, in order; those of an evening stand behind the 45 minutes."""
    if path != ALL:
        names = PATHS["45 minutes"].split() + PATHS[path].split() * (path != "45 minutes")
        return tuple(s for s in names if s in sections() or s in exercises())  # an edition may lack some
    names = []
    for topic in dict.fromkeys(chapter_of(page) for page, _ in sections().values()):
        names += [label for label, (page, _) in sections().items() if page == topic and not LISTS.search(label)]
        names += core_exercises(topic)
    return tuple(names)


LISTS = re.compile(r"-(?:exercises|reading)$")
"""Ends of labels of sections that are lists of links, and no steps of their own."""


def step(name: str) -> Step:
    """What there is to say of one step."""
    if name in exercises():
        own = exercises()[name]
        return Step(name, f"Exercise {name}", f"{own.topic}/exercises.ipynb#ex-{name.replace('.', '-')}", own.minutes)
    page, minutes = sections()[name]
    text = (BOOK / "book" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(rf"^\({re.escape(name)}\)=\n(?:\([\w:.-]+\)=\n)*#+ (.+)$", text, re.M)
    return Step(name, found[1] if found else name, f"{notebook_of(page)}#{name}", minutes)


def following(path: str, done: Collection[str], last: str = "") -> Step | None:
    """The next step that is not done: behind the one done last, or behind all that stands before it in the course; None where all is done.

    Who has chosen a path is on it until its end. Who has not is on the 45 minutes, and goes on through all as soon as they do
    something else.

    >>> following(ALL, ()).name == steps(ALL)[0], following(ALL, steps(ALL))
    (True, None)
    >>> following("45 minutes", ["1.3"], "1.3").name, following("", ["1.3"], "1.3").name
    ('sec-blocks', '1.4')
    """
    order, roads = steps(ALL), [steps(path or "45 minutes"), steps(ALL)]
    before = {*order[: order.index(last)]} if last in order else ()
    for names in roads if path else sorted(roads, key=lambda names: last not in names):
        behind = (i + 1 for i, name in enumerate(names) if name in before)
        begin = names.index(last) + 1 if last in names else max(behind, default=0)
        if left := [name for name in (*names[begin:], *names[:begin]) if name not in done]:
            return step(left[0])
    return None


def _chapter(topic: str) -> str:
    own = [exercise.minutes for exercise in exercises().values() if exercise.topic == topic]
    first = [exercises()[number].minutes for number in core_exercises(topic)]
    said = f"{spent(reading(topic))} to read"
    said += f", {spent(further(topic))} for what is further down" if further(topic) else ""
    said += f" and {spent(sum(own))} for its {len(own)} exercises" if own else ""
    return said + (f"; the {len(first)} core ones take {spent(sum(first))}" if first else "")


def takes(topic: str) -> str:
    """How long a chapter and its exercises take, for its head."""
    return f"This chapter takes about {_chapter(topic)}."


def path(name: str) -> str:
    """A path through the course as a list in MyST: a chapter a line, what to read and to do in order, each with its minutes."""
    steps = {}
    for s in PATHS[name].split():
        if s in sections():
            page, minutes = sections()[s]
            topic = chapter_of(page)
            steps.setdefault(topic, []).append((f"{{ref}}`{s}`", minutes))
        elif s in exercises():  # an edition may have left some out
            own = exercises()[s]
            steps.setdefault(own.topic, []).append((f"{{ref}}`Exercise {s} <ex-{s.replace('.', '-')}>`", own.minutes))
    return "\n".join(
        f"* Chapter {int(topic[2:4])}, {spent(sum(m for _, m in own))}: "
        + ", ".join(f"{shown} ({max(1, round(minutes))}{NBSP}min)" for shown, minutes in own)
        for topic, own in steps.items()
    )


def length(name: str) -> float:
    """Minutes of a path."""
    minutes = {s: m for s, (_, m) in sections().items()} | {s: own.minutes for s, own in exercises().items()}
    return sum(minutes.get(s, 0) for s in PATHS[name].split())


def cores() -> str:
    """All chapters' cores as a list in MyST, each with its minutes and its core exercises."""
    lines = []
    for topic in dict.fromkeys(chapter_of(page) for page, _ in sections().values()):
        own = core_exercises(topic)
        shown = ", ".join(f"{{ref}}`{n} <ex-{n.replace('.', '-')}>`" for n in own)
        begun = f"* {{doc}}`{topic}` ({spent(reading(topic))})"
        lines.append(
            f"{begun}, and {shown} to do ({spent(sum(exercises()[n].minutes for n in own))})" if own else begun
        )
    return "\n".join(lines)


def two_days() -> float:
    """Minutes of reading in `cores`."""
    return sum(map(reading, {chapter_of(page) for page, _ in sections().values()}))


def everything() -> str:
    """All chapters and their exercises as a list in MyST, a chapter a line."""
    topics = dict.fromkeys(chapter_of(page) for page, _ in sections().values())
    return "\n".join(f"* {{doc}}`{topic}`: {_chapter(topic)}." for topic in topics)


def total() -> float:
    """Minutes of all chapters and exercises."""
    return sum(m for _, m in sections().values()) + sum(own.minutes for own in exercises().values())
