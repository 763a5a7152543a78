"""The attacks are worth defending against: in one interpreter with the checks many of them win."""

import json
import os
import random
import subprocess
import sys

import pytest

from autograder.making import in_process_grading
from autograder.places import ROOT
from tests import areas
from tests.autograder.attacks import edits, kinds, target
from tests.tiers import FULL

WINNERS = """
    shadow_np patch_assert_allclose patch_run_of_checks jax_numpy_patch patch_compile frame_constants settrace_jump setprofile
    thread_patches_helper_late gc_looks_for_checks ast_transformer input_transformer patch_run_cell pre_run_cell_patch_answer
    in_history_answer
""".split()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forgers_win_where_nothing_is_in_their_way(tmp_path):
    solved = in_process_grading.solved(target.TOPIC, target.tree(tmp_path / "tree"))
    notebooks = {}
    winners = WINNERS if FULL else random.Random(areas.seed()).sample(WINNERS, 6)
    for one in kinds.attackers():
        if one.kind == "forge" and one.name in winners or one.name == "baseline_wrong":
            notebooks[one.name] = cells(solved, one)
    done = subprocess.run(
        [sys.executable, "-m", "tests.autograder.attacks.unguarded"], input=json.dumps(notebooks), text=True, capture_output=True,
        cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path)}, timeout=600,
    )  # fmt: skip
    scores = json.loads(done.stdout)
    assert not any(scores.pop("baseline_wrong").values())
    assert [name for name in winners if not any(scores[name].values())] == []


def cells(solved, one: kinds.Student) -> list[dict]:
    """The code of a submission with the hidden tests in it."""
    nb = kinds.filled(json.loads(json.dumps(in_process_grading.blank(solved))), one.cells)
    made = []
    for cell in nb["cells"]:
        if cell["cell_type"] == "code":
            points = cell["metadata"].get("nbgrader", {}).get("points", 0)
            check = edits.grade_id(cell) if points else ""
            made.append({"source": cell["source"], "check": check, "points": points})
    return made
