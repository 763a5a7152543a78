"""Attacks on hosts that forbid something: they win no more there than behind full walls (slow)."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.autograder.engine.test_weaker_walls import HOSTS, on_host
from tests.scratch import ROOT
from tests.skip_conditions import needs

FEW = """
    settrace_jump one_reply_ahead read_outside_file write_outside gradebook_trigger ipython_startup_persist
""".split()
CALLS = ["new_rights", "network_dns", "shared_memory"]  # without libseccomp these reach their own namespaces

CLASS = """
import json, os, sys
from pathlib import Path
import pytest
from autograder import grade
from autograder.engine import sandbox
from tests.autograder.attacks import batch, kinds, test_batch
names = set(json.loads(sys.argv[2]))
attackers = [s for s in kinds.attackers() if s.name in names]
assert {s.name for s in attackers} == names
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("COURSE_WORKERS", "1")
    patch.setattr(grade, "write_feedback", lambda *_: None)  # pages are made outside of these walls, and elsewhere tried
    patch.setattr(batch, "missing", lambda _: [])
    found = batch.graded(Path(sys.argv[1]), batch.among(attackers, kinds.honest()[1:2], every=50), patch)
    test_batch.hold(found)
    assert found.results.keys() == found.students.keys()
print(json.dumps([sandbox.available().level, len(found.results), os.getuid()]))
"""


def attacked(folder: Path, name: str, names: list[str]) -> tuple[str, int, int]:
    """The level that a grader found on this host, how many students were graded of a class with these attackers, and by whom."""
    around, before = on_host(name)
    (folder / "home").mkdir()
    if "another user" in name:
        for place in (folder, folder / "home"):
            os.chown(place, 65534, 65534)
    done = subprocess.run(
        [*around, sys.executable, "-B", "-c", before + CLASS, str(folder), json.dumps(names)],
        cwd=ROOT, capture_output=True, text=True, timeout=900, env=os.environ | {"HOME": str(folder / "home")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


WHOLE = pytest.mark.full("takes as long again")


@pytest.mark.slow("grades a class of ten where something is forbidden")
@pytest.mark.parametrize(
    "name",
    [
        "another user, no namespaces",  # no cgroup either: the least that grades
        *(pytest.param(n, marks=WHOLE) for n in ("no namespaces", "no libseccomp", "another user, no libseccomp")),
    ],
)
def test_attacks_win_nothing_at_a_weaker_level(name):
    needs(os.getuid() == 0, "to be root, so as to forbid something")
    names = FEW + CALLS * ("no libseccomp" not in name)
    with tempfile.TemporaryDirectory(prefix="weaker-") as folder:  # another user cannot enter those of pytest
        level, graded, user = attacked(Path(folder), name, names)
    assert level == HOSTS[name][0] and graded >= len(names) and user == (65534 if "another user" in name else 0)
