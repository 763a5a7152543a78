"""Practice links stand where all that an exercise needs has been read, by its data line and the order of the text."""

import json
import re

import pytest

from autograder.making.data_line import data_line
from autograder.making.edition_text import blocks
from autograder.making.further_down import BLOCK, further
from autograder.places import Tree
from helpers import study_time

TREE = Tree()
LABEL = re.compile(r"^\(([\w:.-]+)\)=$")
LINK = re.compile(r"<ex-(\d+)-(\d+)>")


def core(topic: str) -> str:
    """The text of a chapter's core up to its takeaways."""
    text = (TREE.root / f"book/{topic}.md").read_text(encoding="utf-8")
    return re.split(r"^\(sec-ch\d\d-takeaways\)=$", text, flags=re.M)[0]


def pages_of(topic: str) -> dict[str, str]:
    """The text of a chapter's pages further down, by name, in the order in which the core lists them."""
    path = TREE.root / f"book/{topic}.md"
    block = BLOCK.search(path.read_text(encoding="utf-8"))
    names = re.findall(r"^(\w+): ", block[1], re.M) if block else []
    return {name: further(path)[name].read_text(encoding="utf-8").partition("\n---\n")[2].strip() for name in names}


def lines_of(topic: str) -> list[str]:
    """The text of a chapter: its core, and what stands further down."""
    return "\n".join([core(topic), *pages_of(topic).values()]).split("\n")


def data_of(topic: str) -> dict:
    """{exercise: its data line} of a chapter."""
    source = (TREE.root / f"solutions/{topic}.md").read_text(encoding="utf-8")
    return {number: data_line("\n".join(lines)) for number, lines in blocks(source) if number}


def wrong(lines: list[str], data: dict, all_of_them: bool = True) -> list[str]:
    """What a reader meets too early, or never, a sentence each."""
    found, sections, linked = [], set(), set()
    for i, line in enumerate(lines):
        if m := LABEL.match(line):
            sections.add(m[1])
        if not line.startswith("Practice: "):
            continue
        behind = next(
            (after for after in lines[i + 1 :] if after.strip() and not after.startswith(("% ", "Further down: "))), ""
        )
        if behind and not LABEL.match(behind):
            found.append(f"after {line!r} its section goes on")
        for number in (f"{a}.{b}" for a, b in LINK.findall(line)):
            own = [n for n in data[number].needs if n.split(".")[0] == number.split(".")[0]]
            found += [f"{number} is linked before {n}, which it needs" for n in own if n not in linked]
            found += [f"{number} is linked before {s} is read" for s in data[number].after if s not in sections]
            linked.add(number)
    return found + [f"{n} is linked nowhere" for n in data if all_of_them and n not in linked]


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_each_exercise_is_linked_where_all_it_needs_has_been_read(topic):
    assert wrong(lines_of(topic), data_of(topic)) == []


def needed(text: str, own: set[str]) -> list[str]:
    """Labels of `own` that a text refers to outside of a line that leads further down."""
    lines = [line for line in text.split("\n") if not line.startswith(("Further down: ", "Practice: "))]
    return [label for label in re.findall(r"\{(?:ref|eq)\}`(?:[^`<]*<)?([\w-]+)>?`", "\n".join(lines)) if label in own]


@pytest.mark.parametrize("topic", [p.stem for p in TREE.chapters])
def test_a_core_needs_nothing_from_further_down(topic):
    """Neither does an exercise that it leads to, nor one page further down the next."""
    pages = {
        name: {*re.findall(r"^\(([\w:.-]+)\)=$|^:label: (\S+)$", text, re.M)} for name, text in pages_of(topic).items()
    }
    labels = {name: {a or b for a, b in found} for name, found in pages.items()}
    assert needed(core(topic), set().union(*labels.values())) == []
    assert wrong(core(topic).split("\n"), data_of(topic), all_of_them=False) == []
    for name, text in pages_of(topic).items():
        others = set().union(*(found for other, found in labels.items() if other != name))
        assert needed(text, others) == [], name
        assert wrong([*core(topic).split("\n"), *text.split("\n")], data_of(topic), all_of_them=False) == [], name


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_every_data_line_is_whole(topic):
    source = (TREE.root / f"solutions/{topic}.md").read_text(encoding="utf-8")
    for number, lines in blocks(source):
        if number:
            data = data_line("\n".join(lines))
            assert data.after, f"{number} says after no section"
            assert " · importance " in next(line for line in lines if re.match("[★☆]{3} · ", line)), number
    spread = [d.importance for d in data_of(topic).values()]
    assert 5 in spread and min(spread) <= 2  # else it tells nobody what to leave out


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_points_go_by_minutes(topic):
    data = data_of(topic)
    assert [n for n, d in data.items() if not 0.1 <= d.points / d.minutes <= 0.2 or 2 * d.points % 1] == []
    assert 60 <= sum(d.points for d in data.values()) <= 100


EVERY = {number: d for p in TREE.exercises for number, d in data_of(p.stem).items()}
READ = [m[1] for p in TREE.exercises for line in lines_of(p.stem) if (m := LABEL.match(line))]


@pytest.mark.parametrize(
    ("before", "name", "hours"), [("", "45 minutes", 0.75), *(("45 minutes", n, 3) for n in ("training", "inference"))]
)
def test_a_path_fits_its_time_and_nothing_in_it_needs_what_it_leaves_out(before, name, hours):
    read = study_time.PATHS[before].split() if before else []
    steps = study_time.PATHS[name].split()
    for i, step in enumerate(steps):
        if step in EVERY:
            missing = set(EVERY[step].needs + EVERY[step].after) - set(read + steps[:i])
            assert not missing, f"{step} needs {missing}"
    sections = [s for s in steps if s not in EVERY]
    assert sections == sorted(sections, key=READ.index)  # known, and in the order of the text
    assert hours * 60 * 0.5 < study_time.length(name) <= hours * 60
    shown = study_time.path(name)
    minutes = [int(n) for n in re.findall(r"\((\d+)\smin\)", shown)]
    assert len(minutes) == len(steps) and abs(sum(minutes) - study_time.length(name)) < len(steps)


def test_two_days_have_every_core_and_its_exercises():
    shown = study_time.cores()
    assert re.findall(r"\{doc\}`(\w+)`", shown) == [p.stem for p in TREE.chapters]
    core_ones = [n for p in TREE.exercises for n in study_time.core_exercises(p.stem)]
    assert re.findall(r"\{ref\}`([\d.]+) ", shown) == core_ones
    assert 5 * 60 < study_time.two_days() <= 16 * 60


def test_what_study_time_reads_is_what_data_lines_say():
    read = {n: own[1:] for n, own in study_time.exercises().items()}
    assert read == {n: (d.stars, d.importance, d.minutes, d.after, d.needs) for n, d in EVERY.items()}


@pytest.mark.parametrize("topic", [p.stem for p in TREE.exercises])
def test_a_chapter_has_five_to_twelve_core_exercises_and_its_notebook_says_which(topic):
    found = study_time.core_exercises(topic)
    assert 5 <= len(found) <= 12, found
    cells = json.loads(TREE.released(topic).read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    said = re.findall(r"^### Exercise (\S+) .+\n\n[★☆]{3} · (\*\*core\*\*|further) · ", text, re.M)
    assert [number for number, _ in said] == [*data_of(topic)]
    assert [number for number, part in said if part != "further"] == found
    assert re.findall(r"\[(\S+)\]\(#ex-", text.partition("Core exercises, ")[2].split("\n")[0]) == found


def test_the_first_page_of_jupyterlab_and_a_chapters_head_say_the_same_minutes():
    said = re.findall(
        r"\[reading\]\((\w+)/reading\.ipynb\), ([^|]*\w) \|",
        (Tree().notebooks / "README.md").read_text(encoding="utf-8"),
    )
    assert len(said) == len(Tree().chapters)
    assert said == [(topic, study_time.spent(study_time.reading(topic))) for topic, _ in said]


def test_reading_goes_by_what_a_text_holds():
    text = "(sec-a)=\n## A\n" + "word " * 373 + "\n% let a = 1\n"
    folded = "```{code-cell} ipython3\n:tags: [hide-input]\n\n" + "x = 1\n" * 50 + "```\n"
    open_ = "```{code-cell} ipython3\n" + "x = 1\n" * 20 + "```\n"
    formula = "```{math}\n:label: eq-a\nx\n```\n"
    short = study_time.pages(text)
    assert short == pytest.approx(3, abs=0.05)
    assert study_time.pages(text + folded) == short
    assert study_time.pages(text + open_ + formula) == pytest.approx(short + 2 + 1 / 2)


@pytest.mark.parametrize("path", TREE.chapters, ids=lambda p: p.stem)
def test_a_chapter_says_how_long_it_takes_and_needs_earlier_ones_only(path):
    head = path.read_text(encoding="utf-8").partition("\n(sec-")[0].split("\n")
    at = head.index(f"{{{{ study_time.takes('{path.stem}') }}}}")
    assert head[at + 1].startswith("It needs ")
    needs = re.findall(r"<(sec-[\w-]+)>", head[at + 1])
    earlier = {label for label, (topic, _) in study_time.sections().items() if topic < path.stem}
    assert set(needs) <= earlier and (needs or path == TREE.chapters[0])
