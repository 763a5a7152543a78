"""What each kind of wall promises, tried from inside of a child and of the checker."""

import dataclasses
import os
import socket
import subprocess
import sys
import textwrap

import pytest

from autograder.engine import run_submission as engines, sandbox
from tests.autograder.engine.sandbox_escape_probes import PROBES
from tests.autograder.engine.small import ANSWERS, LIMITS, cell, checked, notebook
from tests.autograder.engine.test_attacks import BREAK
from tests.skip_conditions import needs

LESS = {"bubblewrap": {}, "namespaces": {"bubblewrap": False}, "landlock": {"user_namespaces": False}}
LEVELS = [pytest.param(x, marks=[pytest.mark.slow] * (x != "bubblewrap")) for x in LESS]


def host_of(level: str) -> sandbox.Host:
    host = dataclasses.replace(sandbox.available(), **LESS[level])
    needs(host.level == level and not host.refusal, f"{level} to be there: {host}")
    return host


@pytest.fixture(scope="module", params=LEVELS)
def walled(request):
    """An engine behind each kind of wall."""
    with engines.Engine(LIMITS, host_of(request.param)) as e:
        yield e


@pytest.fixture
def tried(tmp_path):
    """The probes, with a file and a socket of the host to reach."""
    proof, path = tmp_path / "proof", f"/tmp/grading-test-{os.getpid()}.socket"
    proof.write_text("untouched")
    before = proof.stat()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        yield f"HOST, PROOF, SOCKET = {os.getpid()}, {str(proof)!r}, {path!r}\n{PROBES}"
    os.unlink(path)
    after = proof.stat()
    assert proof.read_text() == "untouched"
    assert (after.st_mode, after.st_mtime, after.st_uid) == (before.st_mode, before.st_mtime, before.st_uid)


def test_the_probes_find_what_is_open(tried):
    """Without walls the harmless ones do; else the tests below would say nothing."""
    harmless = {*"read,list,write,watch,limits,signal,path socket,memory as a file,its environment".split(",")}
    only = f"ways = {{w: ways[w] for w in {sorted(harmless)}}}\nleaks = []"
    code = f"{tried.replace('leaks = []', only)}print(*leaks, sep=',')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert set(found.stdout.strip().split(",")) == harmless, found.stderr


def test_a_child_gets_out_nowhere(walled, tried):
    got = walled.grade(engines.bundle(notebook({})), notebook({}, f"{tried}\nprint('LEAKS', leaks)"))
    assert "".join(o.get("text", str(o)) for o in got.outputs["own-1"]) == "LEAKS []\n"


def test_the_checker_gets_out_nowhere(walled, tried):
    """A given cell runs there too, as does a program that an answer exported."""
    secret = "any('SECRET' in k or 'DB_URL' in k for k in os.environ)"
    given = notebook({})
    own = "leaks.remove('descriptors')  # its sockets"
    given.cells.append(cell(f"{tried}\n{own}\nassert not leaks and not {secret}, leaks", "given"))
    walled.open_checker(engines.bundle(given))


def test_a_child_may_run_programs_within_its_limits(walled):
    """It is the limits that hold, not a ban; without `site` an interpreter starts at once, also on a busy machine."""
    code = """
        import os, subprocess, sys
        print(subprocess.run(["/bin/echo", "said"], capture_output=True, text=True).stdout)
        limits = "import resource as r; print([r.getrlimit(w)[1] for w in (r.RLIMIT_AS, r.RLIMIT_FSIZE, r.RLIMIT_NPROC)])"
        print(subprocess.run([sys.executable, "-I", "-S", "-c", limits], capture_output=True, text=True).stdout)"""
    got = walled.grade(engines.bundle(notebook({})), notebook({}, textwrap.dedent(code)))
    assert not got.notes and len(got.outputs["own-1"]) == 1, got
    said, limits = got.outputs["own-1"][0].text.split("\n", 1)
    assert said == "said"
    space, file, processes = eval(limits)
    assert (space, file) == (LIMITS.address_space, LIMITS.disk)
    assert processes >= LIMITS.processes


@pytest.mark.parametrize(
    "name", ["fork-bomb", "memory", "disk", "files", "kill-everything", "orphan", "many-files", "deep-folders"]
)
@pytest.mark.sample(quick=4, slow=3, kind="walled")
def test_a_greedy_cell_ends_at_its_limits(walled, small, name):
    """It costs nobody else a point, and nothing of it stays on the disk."""
    more = {
        "many-files": "for i in range(100):\n    with open(str(i), 'wb') as f:\n        f.write(bytes(60_000_000))\nLEAK",
        "deep-folders": "import os\nfor i in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('x', 'w').close()",
    }
    got = walled.grade(small, notebook(ANSWERS, textwrap.dedent((BREAK | more)[name]).strip()))
    ended = (
        name not in BREAK and walled.zygote.sandbox.folder
    )  # a look at the disk may end it in the midst of an answer
    assert ended or sum(got.scores.values()) == 3, got
    assert "NameError" not in str(got.outputs["own-1"])  # not so far as to LEAK
    assert sum(walled.grade(small, notebook(ANSWERS)).scores.values()) == 3
    if walled.zygote.sandbox.folder:
        assert not [f for f in os.listdir(walled.zygote.sandbox.folder) if f.isdigit()]


def test_a_child_has_a_disk_of_its_own(walled):
    code = "import os, tempfile\nprint(tempfile.gettempdir() == os.getcwd() == os.environ['HOME'])"
    got = walled.grade(engines.bundle(notebook({})), notebook({}, code))
    assert got.outputs["own-1"][0].get("text") == "True\n"


@pytest.mark.slow("starts the checker again")
def test_a_program_that_ends_the_checker_costs_its_own_points(engine):
    """Whatever a hostile program does to the process that reads it, the next submission finds another."""
    ends = "import os\n    a = check.Answer(double, points=1)\n    a.gives(6, 3)\n    double(0) and os._exit(1)"

    def sent(answer):
        nb = notebook({"q2": answer})
        nb.cells[-1] = checked("q2-check", ends)
        return nb

    hostile, honest = sent("def double(x):\n    return 1"), sent(ANSWERS["q2"])
    bundle = engines.bundle(honest)
    assert engine.grade(bundle, hostile).scores == {"q2-check": 0}
    assert engine.grade(bundle, honest).scores == {"q2-check": 1}
