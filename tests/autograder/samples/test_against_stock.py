"""The engine gives every answer of the bank what stock nbgrader gives it.

Stock runs a kernel for each submission, which takes long, so it judges a part of the class, and `in_process_grading` a part of the
rest, or all of it with FULL=1: the same checks in one process, by nbgrader's rule.
"""

import nbformat
import pytest

from autograder.engine.cell_names import key_of
from autograder.grading import one_submission
from autograder.making import bank, in_process_grading
from autograder.making.exercises import meta
from autograder.places import ROOT, Tree
from tests.skip_conditions import needs
from tests.tiers import FULL, repeats

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

TOPICS = [p.stem for p in Tree(ROOT).exercises]
BY_STOCK = repeats(
    1, 4
)  # submissions of each chapter that run in a kernel: by turns the reference, a right and a wrong one
SECONDS = dict(cell=120, check=240, submission=900)  # on a machine that may be busy


def submissions(topic: str) -> dict[str, tuple[nbformat.NotebookNode, list[str]]]:
    """Name -> notebook and the answers that differ from ours: every variant and every mutant, the k-th of each at once."""
    solved = in_process_grading.solved(topic)
    made = {"reference": (solved, []), "blank": (in_process_grading.blank(solved), [])}
    for kind, found in (("mutant", bank.mutants(topic)), ("variant", bank.variants(topic))):
        k = 0
        while changes := bank.kth(found, k):
            made[f"{kind}-{k}"] = bank.applied(solved, changes), [c.grade_id for c in changes]
            k += 1
    return made


def by_stock(nb: nbformat.NotebookNode, where) -> dict[str, float]:
    """What nbgrader's own kernel and its own rule give."""
    from nbgrader.utils import determine_grade

    done = one_submission.executed(nbformat.from_dict(nb), where, timeout=300)
    checks = [c for c in done.cells if c.cell_type == "code" and meta(c).get("grade") and not meta(c).get("solution")]
    return {key_of(c): float(determine_grade(c)[0]) for c in checks}


@pytest.fixture(scope="module")
def engine():
    from autograder.engine.run_submission import Engine
    from autograder.engine.sandbox import Limits, available

    why = available().refusal
    needs(not why, why)
    with Engine(Limits(**SECONDS)) as e:
        yield e


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.sample(quick=0, slow=2)
def test_scores_are_those_of_stock(topic, engine, tmp_path, monkeypatch):
    from autograder.engine.bundle import bundle

    for name in ("HOME", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    made = submissions(topic)
    mutants = [n for n in made if n.startswith("mutant")]
    kinds, first = ["reference", "variant-1", mutants[0], mutants[-1]], TOPICS.index(topic)
    stock = {kinds[(first + k) % len(kinds)] for k in range(BY_STOCK)}
    judged = set(made) if FULL else {"blank", mutants[first % len(mutants)]}
    course = bundle(made["reference"][0])
    for name, (nb, changed) in made.items():
        if name in stock:
            wanted = by_stock(nb, tmp_path)
        elif name not in judged:
            continue
        else:  # our own answers are judged once, in the reference
            wanted = {c: v.score for c, v in in_process_grading.judge(nb, *changed).items()}
        assert wanted
        assert engine.grade(course, nb, only=wanted).scores == wanted, name
