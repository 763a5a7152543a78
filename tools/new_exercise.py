"""The skeleton of an exercise, behind the last one of its chapter: `python -m tools.new_exercise 4.27`.

It goes into solutions/ and into the samples, wrong and right. What is to be filled in begins with TODO; until then the build stops
with a sentence for each.
"""

import argparse
import re
import sys
from pathlib import Path

from autograder.making.exercises import by_exercise
from autograder.places import SourceError, Tree
from helpers.check.progress import REPLACED_BY

NUMBER = re.compile(r"([1-9]\d*)\.([1-9]\d*)")

SOURCE = '''
(ex-{chapter}-{n})=
### Exercise {chapter}.{n} — TODO: a title

★★☆ · importance 3/5 · 15 min · 3 points · after {{ref}}`TODO: label of a section` · needs TODO: exercises before it, as in 1.3

Assume: TODO: what is taken for granted, as in: bf16; W one way.

TODO: what is asked, a sentence a line, six lines at most.

```{{code-cell}} ipython3
---
nbgrader: {{schema_version: 3, grade_id: {grade_id}, solution: true, grade: false, locked: false, task: false}}
---
def TODO_name(B: int, D: int) -> dict[str, float]:
    """{{"flops": a number, "bytes": TODO: each entry with its unit}}.

    B, D  TODO: what they are, where the statement does not say so
    """
    ### BEGIN SOLUTION
    # TODO: our answer
    return {{"flops": 2 * B * D * D, "bytes": 2 * (2 * B * D + D * D)}}
    ### END SOLUTION
```

```{{code-cell}} ipython3
---
nbgrader: {{schema_version: 3, grade_id: {grade_id}-check, solution: false, grade: true, locked: true, points: 3, task: false}}
---
a = check.Answer(TODO_name, points=3, rtol=1e-6)
# TODO: arguments that a learner may see, among which each mistake shows
a.cases((7, 20), (4096, 8192))
a.law("TODO: a law that holds without our answer", lambda f: f(14, 20)["flops"] == 2 * f(7, 20)["flops"])

### BEGIN HIDDEN TESTS
def by_hand(B, D):
    """TODO: the same, written differently."""
    return {{"flops": sum(2 * D for _ in range(D)) * B, "bytes": (B * D + D * D + B * D) * 2}}

# TODO: what is drawn, in the order of the parameters
a.equals(by_hand, B=check.ints(1, 100_000), D=check.ints(256, 16_000, 64))
### END HIDDEN TESTS
check.report("{chapter}.{n}", a)
```

:::{{dropdown}} TODO: the question that a first confusion asks?
TODO: what clears it up, and not the answer.
:::
:::{{dropdown}} TODO: the question that another confusion asks?
TODO: what clears it up, and not the answer.
:::
:::{{dropdown}} After you pass
TODO: what the result means for a real model, with a number that is computed in double braces.
:::
'''
SAMPLES = {
    "wrong": """\
{grade_id}:
- 2 * B * D * D -> B * D * D: "TODO: five mistakes or more, each with a sentence"
""",
    "right": """\
{grade_id}:
- in-floats: |
    # TODO: two right answers, written differently
    flops = 2.0 * B * D**2
    return dict(bytes=2 * D * (B + B + D), flops=flops)
""",
}


def chapter_of(number: str, tree: Tree) -> tuple[Path, int, int]:
    """The source, the chapter and the place there of the exercise that a number such as 4.27 names; SourceError if it names none."""
    if not (named := NUMBER.fullmatch(number)):
        raise SourceError(f'An exercise is named by chapter and number, as in 4.27, not "{number}".')
    chapter, n = map(int, named.groups())
    sources = {int(path.stem[2:4]): path for path in tree.exercises}
    if chapter not in sources:
        raise SourceError(f"There is no chapter {chapter}: there are {', '.join(map(str, sources))}.")
    return sources[chapter], chapter, n


def add(number: str, tree: Tree) -> list[Path]:
    """Write the skeleton of an exercise; the files to fill in. SourceError if the number is not the next one of its chapter."""
    path, chapter, n = chapter_of(number, tree)
    there = [int(k.split(".")[1]) for k in by_exercise(path.read_text(encoding="utf-8"))]
    gone = [int(k.split(".")[1]) for k in REPLACED_BY if k.startswith(f"{chapter}.")]  # links to these lead elsewhere
    last = max(there + gone, default=0)
    if n != last + 1:
        why = "is taken" if n in there + gone else f"would leave a gap after {chapter}.{last}"
        raise SourceError(f"{chapter}.{n} {why}: the next exercise of chapter {chapter} is {chapter}.{last + 1}.")
    names = {"chapter": chapter, "n": n, "grade_id": f"ch{chapter:02}-q{n:02}"}
    samples = tree.root / "autograder" / "samples"
    files = {path: SOURCE} | {samples / kind / f"{path.stem}.yaml": text for kind, text in SAMPLES.items()}
    for file in files.keys() - {path}:
        if f"{names['grade_id']}:" in file.read_text(encoding="utf-8").split("\n"):
            raise SourceError(f"{file.relative_to(tree.root)} has samples of {names['grade_id']} already: remove them.")
    for file, text in files.items():
        before = file.read_text(encoding="utf-8").rstrip("\n")
        file.write_text(f"{before}\n{text.format(**names)}", encoding="utf-8", newline="\n")
    return list(files)


def main(argv: list[str] | None = None, tree: Tree | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.new_exercise", description=__doc__.split("\n")[0])
    parser.add_argument("number", help="of the exercise, such as 4.27")
    tree, number = tree or Tree(), parser.parse_args(argv).number
    try:
        files = add(number, tree)
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    print("Fill in each TODO at the end of", *(f"    {file.relative_to(tree.root)}" for file in files), sep="\n")
    print(f"and see what becomes of it by  make exercise TRY={number}")
    print("A line `Practice: …` at the end of a section of the chapter leads to it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
