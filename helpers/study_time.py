"""How long the course takes: a chapter's sections by what stands in them, its exercises by their data lines.

Somebody who meets the subject for the first time reads about 100 words a minute, a line of open code in 6 seconds, and looks at a
figure or a formula for one minute; folded code takes none. These paces are ours, for want of measured ones.
"""

import re
from functools import cache
from pathlib import Path

BOOK = Path(__file__).parents[1]
WORDS, LINES = 100, 10  # a minute
NBSP = "\u00a0"  # a number and its unit stay on one line
LABEL = re.compile(r"^\(([\w:.-]+)\)=$", re.M)
CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.M | re.S)
EXERCISE = re.compile(r"^### Exercise (\d+\.\d+) .*\n+[★☆]{3}(?: · importance (\d)/5)? · (\d+) min · ", re.M)

PATHS = {
    "two hours": """
        sec-bounds 1.2 sec-intensity sec-matmul 1.3 sec-critical 1.4 sec-quantised 1.5 sec-sampling 1.10
        sec-per-example sec-roofline""",
    "two days": """
        sec-bounds 1.2 sec-intensity sec-matmul 1.3 sec-critical 1.4 sec-quantised 1.5 sec-sampling 1.10 sec-roofline sec-network
        sec-blocks 2.1 sec-outer-products sec-four-cases sec-case-1 sec-case-2 sec-case-3 sec-case-4 2.10 2.20
        sec-all-gather sec-latency 2.5 sec-several-axes sec-reduce-scatter sec-all-reduce 2.6 sec-all-to-all 2.19
        sec-decoder sec-dots 3.1 sec-back 3.3 sec-six-nd sec-context 3.6 sec-attention-intensity 3.9 sec-kv-cache 3.12
        sec-flash 3.16 sec-decoder-program 3.19
        sec-two-products 4.3 sec-four-ways sec-dp 4.5 sec-master-copy 4.1 sec-fsdp 4.2 4.6 sec-tp 4.7
        sec-prefill-generate 5.1 5.6 sec-replica-batch sec-step-time 5.3 5.4 sec-13b-tables 5.2 sec-latency-throughput sec-continuous 5.15
        sec-softmax-orders 6.4 sec-combine 6.5 sec-lazy 6.6 sec-flash-forward 6.8""",
}
"""Sections to read and exercises to do, in order. Who has two weeks does everything."""


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

    >>> pages("word " * 100), pages("```{code-cell} ipython3\\n" + "x = 1\\n" * 10 + "```")
    (1.0, 1.0)
    """
    cells = CELL.findall(text)
    seen = sum("plot." in cell for cell in cells) + text.count("```{live}") + text.count("```{math}")
    code = sum(len(c.split("\n")) - 2 for c in cells if "hide-" not in c and "remove-" not in c)
    words = re.findall(
        r"\w+", re.sub(r"\{\{.*?\}\}", "1", re.sub(r"^```.*?^```$|^% [^\n]*$", "", text, flags=re.M | re.S))
    )
    return len(words) / WORDS + code / LINES + seen


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


@cache
def exercises() -> dict[str, tuple[str, int, int]]:
    """Topic, importance and minutes of each exercise."""
    found = {}
    for path in sorted((BOOK / "solutions").glob("ch[0-9][0-9]_*.md")):
        for number, importance, minutes in EXERCISE.findall(path.read_text(encoding="utf-8")):
            found[number] = path.stem, int(importance or 3), int(minutes)
    return found


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


def _chapter(topic: str) -> str:
    own = [(importance, minutes) for of, importance, minutes in exercises().values() if of == topic]
    first = [minutes for importance, minutes in own if importance == 5]
    said = f"{spent(reading(topic))} to read"
    said += f", {spent(further(topic))} for what is further down" if further(topic) else ""
    said += f" and {spent(sum(m for _, m in own))} for its {len(own)} exercises" if own else ""
    return said + (f"; the {len(first)} most important of them take {spent(sum(first))}" if first else "")


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
            topic, _, minutes = exercises()[s]
            steps.setdefault(topic, []).append((f"{{ref}}`Exercise {s} <ex-{s.replace('.', '-')}>`", minutes))
    return "\n".join(
        f"* Chapter {int(topic[2:4])}, {spent(sum(m for _, m in own))}: "
        + ", ".join(f"{shown} ({max(1, round(minutes))}{NBSP}min)" for shown, minutes in own)
        for topic, own in steps.items()
    )


def length(name: str) -> float:
    """Minutes of a path."""
    return sum(sections()[s][1] if s in sections() else exercises().get(s, ("", 0, 0))[2] for s in PATHS[name].split())


def everything() -> str:
    """All chapters and their exercises as a list in MyST, a chapter a line."""
    topics = dict.fromkeys(chapter_of(page) for page, _ in sections().values())
    return "\n".join(f"* {{doc}}`{topic}`: {_chapter(topic)}." for topic in topics)


def total() -> float:
    """Minutes of all chapters and exercises."""
    return sum(m for _, m in sections().values()) + sum(m for _, _, m in exercises().values())
