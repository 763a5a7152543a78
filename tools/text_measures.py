"""What a chapter's text is made of, by its source: `python -m tools.text_measures` prints a table of all chapters.

words        of prose, with those of boxes and lists, without code, formulas and what stands in questions' replies
a sentence   words of a sentence of prose
pictures     cells that draw, live figures and films
questions    of `{ask}`
open, folded lines of code that a page shows, and of code that it folds
unbroken     words of the longest stretch without a picture
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.M | re.S)
BLOCK = re.compile(r"^(:{3,}|`{3,})\{(ask|math|live|code-cell|figure|table)\}[^\n]*\n.*?^\1$", re.M | re.S)
PICTURE = "\u25a0"  # stands where one is drawn
DRAWS = re.compile(r"\bplot\.\w|\bfilm\b|\bfigure\(")


@dataclass(frozen=True)
class Measures:
    words: int
    sentence: float
    pictures: int
    questions: int
    open: int
    folded: int
    unbroken: int


def prose(text: str) -> str:
    """A chapter's sentences, with a mark where a picture stands.

    >>> prose("One two.\\n\\n```{live} roof\\n```\\n\\nThree `x` $y$ {{ 1 + 1 }} four.").split()
    ['One', 'two.', '■', 'Three', 'x', 'y', '1', 'four.']
    """

    def put(match):
        drawn = match[2] in ("live", "figure") or match[2] == "code-cell" and DRAWS.search(match[0])
        return PICTURE if drawn else ""

    text = re.sub(r"\A---\n.*?^---\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^% [^\n]*\n|^\([\w:.-]+\)=\n|^Practice: [^\n]*\n|^:\w+:[^\n]*\n", "", text, flags=re.M)
    text = BLOCK.sub(put, text)
    text = re.sub(r"\{\{.*?\}\}", "1", text, flags=re.S)
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.S)
    text = re.sub(r"\$[^$]+\$", "y", text)
    text = re.sub(r"\{(?:ref|doc|eq|cite|term|numref)\}`([^`<]*)[^`]*`", r"\1", text)
    return re.sub(r"[`*_#|]|^:{3,}[^\n]*$|^- ", " ", text, flags=re.M)


def measured(text: str) -> Measures:
    plain = prose(text)
    stretches = [len(re.findall(r"[\w'’-]+", part)) for part in plain.split(PICTURE)]
    ends = [s for s in re.split(r"(?<=[.?!:])\s+|\n\n+", plain.replace(PICTURE, "\n\n")) if len(s.split()) > 2]
    shown, hidden = [], []
    for cell in CELL.findall(text):
        code = [line for line in cell.split("\n") if line.strip() and not line.startswith((":tags:", "---", "tags:"))]
        tags = " ".join(re.findall(r"tags: \[(.*?)\]", cell))
        if "remove-input" not in tags and "remove-cell" not in tags:
            (hidden if "hide-" in tags else shown).extend(code)
    return Measures(
        words=sum(stretches),
        sentence=sum(len(s.split()) for s in ends) / max(len(ends), 1),
        pictures=plain.count(PICTURE),
        questions=len(re.findall(r"^:{3,}\{ask\}", text, re.M)),
        open=len(shown),
        folded=len(hidden),
        unbroken=max(stretches),
    )


def main(argv: list[str]) -> int:
    folder = Path(argv[0]) if argv else ROOT / "book"
    print(
        f"{'':16}{'words':>8}{'a sentence':>12}{'pictures':>10}{'questions':>11}{'open':>7}{'folded':>8}{'unbroken':>10}"
    )
    for path in sorted(folder.glob("ch[0-9][0-9]_*.md")):
        m = measured(path.read_text(encoding="utf-8"))
        print(
            f"{path.stem:16}{m.words:8,}{m.sentence:12.1f}{m.pictures:10}{m.questions:11}{m.open:7}{m.folded:8}{m.unbroken:10}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
