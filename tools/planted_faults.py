"""Faults, one for each kind of check, planted in copies of the tree: CI's sample has to find them all. `make faults [FAULTS="…"]`

Each is one edit of one file. In its copy run the tests that look at such a thing, as CI runs them (the quick ones, then the
sample that this commit draws, or SEED, and all of the areas that the file touches), and one of them must fail (and say what
`says` has). Those that need the built book share one. A test that has not what it needs here is skipped, and then its fault
is not found.
`make faults FAULTS=unplanted` runs the same tests with nothing planted: none may fail.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import areas
from tests.scratch import ROOT, copy
from tools.faults import FAULTS, Fault
from tools.run_all_tests import other_pythons


def interpreter(fault: Fault) -> str | None:
    """This one, or that of the environment which `make` made for another version."""
    if not fault.python or sys.version.startswith(f"{fault.python}."):
        return sys.executable
    found = [p for p in sorted(ROOT.glob(f".venv-*{fault.python}*/bin/python")) if p.is_file()]
    return str(found[0]) if found else None


def ready(tree: Path) -> Path:
    """A copy of the working tree that the tests take for a clone."""
    copy(tree)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    modules = tree / "tests/browser/node_modules"
    if not modules.exists() and (ROOT / "tests/browser/node_modules").is_dir():
        modules.symlink_to(ROOT / "tests/browser/node_modules")
    return tree


def caught(fault: Fault, tree: Path, python: str, cache: Path) -> str:
    """The first test that failed as it should, or nothing: of the quick ones, then of the sample of long ones that CI draws."""
    only = ["-k", fault.only] if fault.only else []
    options = [
        "-o",
        f"cache_dir={cache}",
        "-o",
        "addopts=--doctest-modules -q --strict-markers",
        "--maxfail=1",
        "-o",
        "truncation_limit_lines=0",
    ]
    skip = ("FULL", "CI", "PYTEST_ADDOPTS", "AREAS", "DRAW", "WHOLE", "PLAN", "TESTS_END")
    plain = {k: v for k, v in os.environ.items() if k not in skip} | {"PYTHONPATH": str(tree)}
    whole = areas.whole(areas.touched([fault.file]))
    long = {"DRAW": areas.seed(), "WHOLE": " ".join(sorted(whole))}
    for marks, draw in (("not slow and not full", {}), ("slow or full", long)):
        command = [python, "-m", "pytest", *options, "-m", marks, *only, *fault.tests.split()]
        done = subprocess.run(command, cwd=tree, env=plain | draw, capture_output=True, text=True)
        # no file that is broken, but where another Python lacks what it imports
        failed = re.findall(rf"^(?:FAILED|ERROR) ({'' if fault.python else '[^ :]+::'}\S+)", done.stdout, re.M)
        if done.returncode in (1, 2) and failed and re.search(fault.says, done.stdout):
            return failed[0]
    return ""


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 if each fault that could be tried was found, or none where nothing was planted."""
    wanted = sys.argv[1:] if argv is None else argv
    planted = "unplanted" not in wanted
    wanted = [w for w in wanted if w != "unplanted"]
    faults = [f for f in FAULTS if not wanted or any(w in f.name for w in wanted)]
    missed, began = [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        cache, book = Path(folder) / "cache", None
        for fault in faults:
            if not (python := interpreter(fault)):
                where = other_pythons().get(fault.python, f"python{fault.python}")
                print(f"{fault.name:48} not tried: make env PYTHON={where}", flush=True)
                continue
            if not fault.site:
                tree = ready(Path(folder) / "tree")
                fault.plant(tree) if planted else None
            elif book is None:  # it is built once, with all of them
                tree = book = ready(Path(folder) / "book")
                for one in faults:
                    one.plant(tree) if one.site and planted else None
            test = caught(fault, book if fault.site else tree, python, cache)
            print(f"{fault.name:48} {test or ('NOT FOUND' if planted else 'nothing found')}", flush=True)
            missed += [fault.name] * (bool(test) != planted)
            if not fault.site:
                subprocess.run(["rm", "-rf", tree], check=True)
    print(
        f"{len(faults) - len(missed)} of {len(faults)} as they should be, in {(time.monotonic() - began) / 60:.0f} minutes"
    )
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
