"""An edition with exercises left out, one added and a seed of its own: it grades, and its site builds without a warning."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autograder import edition
from autograder.engine.sandbox import available
from autograder.making import bank
from autograder.places import ROOT, Tree
from tests.skip_conditions import needs

# One process: another would make the edition once more.
pytestmark = [
    pytest.mark.slow("makes an edition, grades in it, and builds its site"),
    pytest.mark.xdist_group("edition"),
]

OWN = """\
(ex-1-90)=
### Exercise 1.90 — Twice

★☆☆ · 5 min · 2 points

Return twice x, in prose that says 2.5 and no exercise.

```{code-cell} ipython3
---
nbgrader: {schema_version: 3, grade_id: ch01-q90, solution: true, grade: false, locked: false, task: false}
---
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
```

```{code-cell} ipython3
---
nbgrader: {schema_version: 3, grade_id: ch01-q90-check, solution: false, grade: true, locked: true, points: 2, task: false}
---
a = check.Answer(twice, points=2)
a.gives(6, 3)
### BEGIN HIDDEN TESTS
a.equals(lambda x: 2 * x, x=check.ints(2, 100))
### END HIDDEN TESTS
check.report("1.90", a)
```

:::{dropdown} I got four
Is that for two?
:::
:::{dropdown} I got an error
Is x a number?
:::
:::{dropdown} After you pass
Half of it is x.
:::
"""

WISHES = """\
title: "\\"Racks\\" & Roofs_1"
seed: 7
leave-out: [%s]
add: own
worked-solutions: true
dates: {ch01_rooflines: {release: 2030-01-01, due: 2030-02-03}}
"""
GONE = ["1.1", *(f"1.{n}" for n in range(9, 24)), "2.26", "ch03_transformers", "ch04_training", "ch05_inference", "ch06_attention",
        "ch07_racks"]  # fmt: skip
"""The first, the last, a chapter's all; and as many as there may be, to be quick."""

GRADED = """\
import json, sys
from pathlib import Path
from autograder import demo, grade
from autograder.making import in_process_grading as trial
from autograder.places import Tree

what = demo.open_class("ch01_rooflines", Tree(), Path(sys.argv[1]).resolve())
solved = trial.solved("ch01_rooflines", Tree())
demo.hand_in(what, {"solved": solved, "untouched": trial.blank(solved)})
print(json.dumps({r.student: [r.why, {n: s for n, s in r.scores.items()}] for r in grade.grade(what)}))
"""


def run(own: Path, code: str, *words: str) -> str:
    """What a program prints in the edition's folder, with its modules and its seed."""
    env = {**os.environ, "PYTHONPATH": str(own), "COURSE_SEED": "7"}
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=own, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("edition")
    (folder / "own").mkdir()
    (folder / "own/ch01_rooflines.md").write_text(OWN, encoding="utf-8")
    ours = {p: p.read_bytes() for p in (ROOT / "notebooks").rglob("*.ipynb")}
    edition.make(edition.read(WISHES % str(GONE)[1:-1], Tree(), folder), folder / "made")
    assert ours == {p: p.read_bytes() for p in (ROOT / "notebooks").rglob("*.ipynb")}
    return folder / "made"


def test_it_is_what_was_wished(own):
    made = (own / "notebooks/ch02_sharding/exercises.ipynb").read_text(encoding="utf-8")
    ids = {c["metadata"].get("nbgrader", {}).get("grade_id") for c in json.loads(made)["cells"]}
    assert "ch02-q25" in ids and "ch02-q26" not in ids and "BEGIN SOLUTION" not in made
    assert yaml.safe_load((own / "_config.yml").read_text(encoding="utf-8"))["title"] == '"Racks" & Roofs_1'
    worked = sorted((own / "worked").glob("ch*.md"))
    assert [p.stem for p in worked] == ["ch01_rooflines", "ch02_sharding"]
    assert (own / "_toc.yml").read_text(encoding="utf-8").count("file: worked/") == len(worked)
    assert "export COURSE_SEED ?= 7\n" in (own / "Makefile").read_text(encoding="utf-8")
    for kind in (bank.mutants, bank.variants):
        kept = [change for change in kind("ch02_sharding") if change.grade_id != "ch02-q26"]
        assert kind("ch02_sharding", own / "autograder/samples") == kept
    for page in (*(own / "book").rglob("*.md"), *worked):
        assert "BEGIN SOLUTION" not in page.read_text(encoding="utf-8")
        assert "ex-2-26" not in page.read_text(encoding="utf-8")


def test_solved_is_full_and_untouched_is_nothing(own, tmp_path):
    needs(available().refusal is None, f"grading needs a sandbox: {available().refusal}")
    rows = json.loads(run(own, GRADED, str(tmp_path / "course")).splitlines()[-1])
    for student, share in (("solved", 1), ("untouched", 0)):
        why, scores = rows[student]
        assert why == "" and {"ch01-q02", "ch01-q90"} <= set(scores) and not {"ch01-q01", "ch01-q09"} & set(scores)
        assert {name: got for name, (got, of) in scores.items() if got != share * of} == {}


def test_its_site_builds_without_a_warning(own):
    """No cell is run and no figure traced, to be quick; cells have no language then, which Sphinx is told not to mind.

    The scripts of figures are those of the course's own site, for an edition changes none of them.
    """
    keep = (own / "_config.yml").read_text(encoding="utf-8")
    config = yaml.safe_load(keep)
    config["execute"]["execute_notebooks"] = "off"
    config["sphinx"]["config"]["suppress_warnings"].append("myst-nb.lexer")
    (own / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    build = """\
import sys
from helpers import figures
from jupyter_book.cli.main import main

for name in figures.MODULES:
    type(figures.figure(name)).script = lambda self: ""
sys.exit(main())
"""
    try:
        run(own, build, "build", ".", "-W", "-n", "--keep-going", "-q")
    finally:
        (own / "_config.yml").write_text(keep, encoding="utf-8")
    pages = {p.relative_to(own / "_build/html").as_posix(): p for p in (own / "_build/html").rglob("*.html")}
    assert "notebooks/ch04_training/exercises.html" not in pages and "worked/ch01_rooflines.html" in pages
    said = {name: page.read_text(encoding="utf-8") for name, page in pages.items()}
    assert "Due on 2030-02-03." in said["notebooks/ch01_rooflines/exercises.html"]
    assert "Due on 2030-02-03." in said["book/ch01_rooflines.html"]
    assert "Racks” &amp; Roofs_1" in said["book/intro.html"]
    for gone in ("ex-1-1", "ex-1-23", "ex-4-1"):
        assert [name for name, text in said.items() if f'#{gone}"' in text or f'id="{gone}"' in text] == []


def test_its_notebooks_are_what_its_own_sources_give(own):
    code = "from autograder import release; from autograder.places import Tree; print(release.check(Tree()))"
    assert run(own, code).splitlines()[-1] == "[]"
    assert "Due on 2030-02-03." in (own / "notebooks/ch01_rooflines/exercises.ipynb").read_text(encoding="utf-8")
    assert "Due on 2030-02-03." in (own / "notebooks/ch01_rooflines/reading.ipynb").read_text(encoding="utf-8")
    assert (own / "notebooks/README.md").read_text(encoding="utf-8").startswith('# "Racks" \\& Roofs\\_1\n')
    for name in (".binder/postBuild", ".devcontainer/devcontainer.json", ".gitignore"):
        assert (own / name).is_file()
    assert os.access(own / ".binder/postBuild", os.X_OK)
