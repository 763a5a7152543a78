"""Attacks on hosts that forbid something: they win no more there than behind full walls (slow)."""

import json
import os
import subprocess
import sys

import pytest

from tests.autograder.engine.test_weaker_walls import HOSTS
from tests.scratch import ROOT
from tests.skip_conditions import needs

FEW = """
    settrace_jump one_reply_ahead read_outside_file write_outside gradebook_trigger
""".split()

CLASS = """
import json, os, sys
from pathlib import Path
import pytest
from autograder.engine import sandbox
from tests.autograder.attacks import batch, kinds, test_batch
names = set(json.loads(sys.argv[2]))
attackers = [s for s in kinds.attackers() if s.name in names]
assert {s.name for s in attackers} == names
with pytest.MonkeyPatch.context() as patch:
    found = batch.graded(Path(sys.argv[1]), batch.among(attackers, kinds.honest()[1:2], every=50), patch)
    test_batch.hold(found)
print(json.dumps([sandbox.available().level, len(found.results)]))
"""


def attacked(folder, name: str, names: list[str]) -> tuple[str, int]:
    """The level that a grader found on this host, and how many students were graded, of a class with these attackers."""
    forbid, _, before, *_ = HOSTS[name]
    around = ["unshare", "-m", "--propagation", "private", "sh", "-c", " && ".join([*forbid, 'exec "$@"']), "sh"]
    (folder / "home").mkdir()
    done = subprocess.run(
        [*around, sys.executable, "-c", before + CLASS, str(folder), json.dumps(names)],
        cwd=ROOT, capture_output=True, text=True, timeout=900, env=os.environ | {"HOME": str(folder / "home")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow("grades a class of six where something is forbidden")
@pytest.mark.parametrize(
    "name", ["no namespaces", pytest.param("no libseccomp", marks=pytest.mark.full("takes as long again"))]
)
def test_attacks_win_nothing_at_a_weaker_level(tmp_path, name):
    needs(os.getuid() == 0, "to be root, so as to forbid something")
    level, graded = attacked(tmp_path, name, FEW)
    assert level == HOSTS[name][3] and graded >= len(FEW)
