"""An edition with exercises left out, one added and a seed of its own: it grades, and its site builds without a warning."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autograder import edition
from autograder.engine.sandbox import available
from autograder.making import bank, edition_tree
from autograder.places import ROOT, SourceError, Tree
from tests.skip_conditions import needs

# One process: another would make the edition once more.
pytestmark = [
    pytest.mark.slow("makes an edition, grades in it, and builds its site"),
    pytest.mark.xdist_group("edition"),
]

GUIDE = (ROOT / "book/instructor_own_exercise.md").read_text(encoding="utf-8")
OWN = re.search(r"^`{5}md\n(.*?)^`{5}$", GUIDE, re.M | re.S)[1]
"""The exercise that the guide shows whole."""

WISHES = """\
title: "\\"Racks\\" & Roofs_1"
class: CS 448
term: spring 2030
course_id: cs448
repository: https://github.com/ada/cs448
seed: 7
chapters: [2, 1, 3]
leave-out: [%s]
points: {"2.3": 6, "1.4": 1.5}
add: own
solutions: after-due
dates: {ch01_rooflines: {release: 2030-01-01, due: 2030-02-03}, ch02_sharding: {release: 2020-01-01, due: 2020-02-03}}
"""
GONE = ["1.1", *(f"1.{n}" for n in range(9, 24)), "2.26", "ch03_transformers"]
"""The first, the last, a chapter's all; and as many as there may be, to be quick."""

ORDER = ["ch02_sharding", "ch01_rooflines", "ch03_transformers"]
GRADED = """\
import json, sys
from pathlib import Path
from autograder import grade, release
from autograder.making import cells, in_process_grading as trial
from autograder.places import Tree

scratch = Path(sys.argv[1]).resolve()
release.generate(Tree(), scratch, scratch / "notebooks", database=True)
what, solved = grade.Class("ch01_rooflines", scratch), trial.solved("ch01_rooflines", Tree())
for student, nb in {"solved": solved, "untouched": trial.blank(solved)}.items():
    release.write(what.notebook("submitted", student), cells.dumps(nb))
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
    edition_tree.make(edition.read(WISHES % str(GONE)[1:-1], Tree(), folder), folder / "made")
    assert ours == {p: p.read_bytes() for p in (ROOT / "notebooks").rglob("*.ipynb")}
    return folder / "made"


def test_it_is_what_was_wished(own):
    made = (own / "notebooks/ch02_sharding/exercises.ipynb").read_text(encoding="utf-8")
    ids = {c["metadata"].get("nbgrader", {}).get("grade_id") for c in json.loads(made)["cells"]}
    assert "ch02-q25" in ids and "ch02-q26" not in ids and "BEGIN SOLUTION" not in made
    assert yaml.safe_load((own / "_config.yml").read_text(encoding="utf-8"))["title"] == '"Racks" & Roofs_1'
    worked = sorted((own / "worked").glob("ch*.md"))
    assert [p.stem for p in worked] == ["ch02_sharding"], "the day of the other one is to come"
    assert (own / "_toc.yml").read_text(encoding="utf-8").count("file: worked/") == len(worked)
    assert "export COURSE_SEED ?= 7\n" in (own / "Makefile").read_text(encoding="utf-8")
    for kind in (bank.mutants, bank.variants):
        kept = [change for change in kind("ch02_sharding") if change.grade_id != "ch02-q26"]
        assert kind("ch02_sharding", own / "autograder/samples") == kept
    for page in (*(own / "book").rglob("*.md"), *worked):
        assert "BEGIN SOLUTION" not in page.read_text(encoding="utf-8") or page.stem == "instructor_own_exercise"
        assert "(ex-2-26)=" not in page.read_text(encoding="utf-8") or page.stem == edition_tree.GONE
    toc = yaml.safe_load((own / "_toc.yml").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in toc["parts"][0]["chapters"]] == [f"book/{t}" for t in ORDER]
    assert "git+https://github.com/ada/cs448@" in made and "rooflines-to-racks/rooflines-to-racks" not in made
    start = (own / "notebooks/README.md").read_text(encoding="utf-8")
    assert "what one chip waits for, what sharded products send and how much a model computes" in start
    assert "how many chips" not in start and "how fast chips" not in start  # chapters 4 and 5
    assert re.findall(r"^\| (\d) · ", start, re.M) == ["2", "1", "3"]
    assert 'course_id = "cs448"' in (own / "autograder/nbgrader_config.py").read_text(encoding="utf-8")


def test_students_get_nothing_that_answers_can_be_read_from(own):
    """Of chapter 2, whose day is past, they have the answers; of chapter 1 neither these nor words that promise them."""
    students = edition_tree.students_of(own)
    assert [p.stem for p in sorted((students / "solutions").glob("*"))] == ["ch02_sharding"]
    assert {p.stem for p in (students / "autograder/samples").glob("*/ch*.yaml")} == {"ch02_sharding"}
    answers = re.findall(
        r"### BEGIN SOLUTION\n(.*?)### END SOLUTION",
        (own / "solutions/ch01_rooflines.md").read_text(encoding="utf-8"),
        re.S,
    )
    lines = {line.strip() for answer in answers for line in answer.splitlines() if len(line.strip()) > 40}
    open_ = [students / "solutions/ch02_sharding.md", students / "book/instructor_own_exercise.md"]
    for path in [
        p
        for p in students.rglob("*")
        if p.is_file() and p.suffix in (".md", ".ipynb", ".json", ".yaml") and p not in open_
    ]:
        text = path.read_text(encoding="utf-8")
        assert not [line for line in lines if line in text] and "BEGIN HIDDEN TESTS" not in text, path
    assert not (students / "_build").exists()
    for topic, promised in (("ch01_rooflines", False), ("ch02_sharding", True)):
        text = (students / f"notebooks/{topic}/exercises.ipynb").read_text(encoding="utf-8")
        assert ("check.solution(" in text) == promised and ("`course check`" in text) == promised
    said = run(students, "from helpers import check; check.solution('1.2'); check.solution('2.1')").splitlines()
    assert said[0] == "This copy of the course carries no solutions." and "opens after a pass" in said[1]


def test_what_make_names_is_there(own):
    for folder, teaches in ((own, True), (edition_tree.students_of(own), False)):
        parts = [folder / name for name in ("Makefile", "autograder/teaching.mk", "tools/course.mk")]
        assert [p.is_file() for p in parts] == [True, teaches, False]
        rules = "".join(p.read_text(encoding="utf-8") for p in parts if p.is_file())
        modules = [m.replace(".", "/") for m in re.findall(r"python -m ((?:autograder|tools|tests)[.\w]*)", rules)]
        assert modules and all((folder / f"{m}.py").is_file() or (folder / m).is_dir() for m in modules)


def test_made_again_it_keeps_the_class(own, tmp_path):
    """The course's files come anew; gradebook, submissions, late rule and extensions stay."""
    kept = {"gradebook.db": b"grades", "submitted/ada/ch01_rooflines/exercises.ipynb": b"{}", "late.py": b"RULE = 1\n",
            "class_config.py": b"", "extensions.csv": b"student,assignment,until\n"}  # fmt: skip
    for name, data in kept.items():
        (own / "autograder" / name).parent.mkdir(parents=True, exist_ok=True)
        (own / "autograder" / name).write_bytes(data)
    (own / "helpers/prose.py").unlink()
    with pytest.raises(SourceError, match='has grades of the course "cs448": keep that'):
        edition_tree.make(edition.read("course_id: other", Tree()), own)
    files = edition_tree.OF_A_CLASS | {"late.py", "gradebook.db"}
    fresh = tmp_path / "fresh"
    shutil.copytree(own, fresh, ignore=lambda _, names: [n for n in names if n in files])
    shutil.copy(ROOT / "helpers/prose.py", fresh / "helpers/prose.py")
    (fresh / edition_tree.LIST).unlink()
    edition_tree.lay(fresh, own)
    assert (own / "helpers/prose.py").read_bytes() == (ROOT / "helpers/prose.py").read_bytes()
    for name, data in kept.items():
        assert (own / "autograder" / name).read_bytes() == data
        (own / "autograder" / name).unlink()


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
    assert "book/ch04_training.html" not in pages and "worked/ch02_sharding.html" in pages
    assert "notebooks/ch03_transformers/exercises.html" not in pages
    said = {name: page.read_text(encoding="utf-8") for name, page in pages.items()}
    assert "Due on 2030-02-03." in said["notebooks/ch01_rooflines/exercises.html"]
    assert "Due on 2030-02-03." in said["book/ch01_rooflines.html"]
    assert "Racks” &amp; Roofs_1" in said["book/intro.html"]
    assert "CS 448 · spring 2030" in said["book/intro.html"] and "ch04_training.html" not in said["book/intro.html"]
    for gone in ("ex-1-1", "ex-1-23", "ex-4-1", "sec-dp"):
        assert [name for name, text in said.items() if f'id="{gone}"' in text] == [f"book/{edition_tree.GONE}.html"]
    for led in ("ex-1-1", "sec-dp"):
        assert any(f'{edition_tree.GONE}.html#{led}"' in text for text in said.values()), led


def test_its_notebooks_are_what_its_own_sources_give(own):
    code = "from autograder import release; from autograder.places import Tree; print(release.check(Tree()))"
    assert run(own, code).splitlines()[-1] == "[]"
    assert "Due on 2030-02-03." in (own / "notebooks/ch01_rooflines/exercises.ipynb").read_text(encoding="utf-8")
    assert "Due on 2030-02-03." in (own / "notebooks/ch01_rooflines/reading.ipynb").read_text(encoding="utf-8")
    assert (own / "notebooks/README.md").read_text(encoding="utf-8").startswith('# "Racks" \\& Roofs\\_1\n')
    for name in (".binder/postBuild", ".devcontainer/devcontainer.json", ".gitignore"):
        assert (own / name).is_file()
    assert os.access(own / ".binder/postBuild", os.X_OK)
