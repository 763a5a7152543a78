"""`make test-all`: what `make test` leaves out, then a part of the quick tests on the other supported Pythons found.

With FULL=1: all tests here, and all quick ones there. Where `TESTS_END` (seconds since 1970) sets an end, as CI does, a
Python for which a slow machine leaves no time is left out; it says so. `STAGES` names a file for the seconds of each stage.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.tiers import FULL

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
# What may differ by Python and JAX. A Python between the oldest and the newest has the newest one's packages.
BETWEEN = ["helpers", "tests/notebooks"]
NEWEST = [*BETWEEN, "tests/solutions", "tests/helpers/kernels", "tests/helpers/trace", "tests/helpers/check",
          "tests/autograder/engine", "tests/autograder/samples/test_chapters.py"]  # fmt: skip


def other_pythons() -> dict[str, str]:
    """Interpreters of the other supported versions that work here: on PATH, or where pyenv and uv keep theirs."""
    this, found = f"{sys.version_info.major}.{sys.version_info.minor}", {}
    homes = [
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path.home() / ".local/share/uv/python",
    ]
    for version in SUPPORTED:
        named = [shutil.which(f"python{version}")] + [
            str(p) for h in homes for p in sorted(h.glob(f"*{version}*/bin/python3"))
        ]
        works = (
            p
            for p in named
            if p
            and subprocess.run(
                [p, "-c", f"import sys, ensurepip; assert sys.version.startswith('{version}.')"], capture_output=True
            ).returncode
            == 0
        )
        if version != this and (python := next(works, None)):
            found[version] = python
    return found


def chosen(version: str) -> list[str]:
    """What `make` is told to run there; nothing more to say for all quick tests.

    >>> chosen("3.12")
    ['TESTS=helpers tests/notebooks']
    """
    return [] if FULL else [f"TESTS={' '.join(BETWEEN if version in SUPPORTED[1:-1] else NEWEST)}"]


def stage(name: str, command: list[str], **more) -> list[str]:
    """Run a command and note its seconds; its name if it failed."""
    began = time.time()
    failed = subprocess.run(command, cwd=ROOT, **more).returncode
    if os.environ.get("STAGES"):
        with open(os.environ["STAGES"], "a") as f:
            f.write(f"{time.time() - began:.0f} {name}\n")
    return [name] * bool(failed)


def main() -> int:
    """Exit status: 0 if all passed."""
    end = float(os.environ.get("TESTS_END", "inf"))
    marks = "" if FULL else "slow and not full"
    failed = stage("the long tests", [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", marks])
    for version, python in other_pythons().items():
        if time.time() > end:
            print(f"\nPython {version}: left out, for there is no time left", flush=True)
            continue
        print(f"\nPython {version}: {python}", flush=True)
        env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}
        env["THIN"] = "" if FULL else "3"  # of the programs' tests every third one
        failed += stage(f"Python {version}", ["make", "test", f"PYTHON={python}", *chosen(version)], env=env)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
