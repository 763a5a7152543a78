"""`make test-all`: what `make test` leaves out: the long tests here, and the quick ones on the other supported Pythons found.

A Python between the oldest and the newest has the newest one's packages: there only doctests, notebooks and answers run.
Where `TESTS_END` (seconds since 1970) sets an end, as CI does, a slow machine runs no more than these on the newest either,
or leaves a Python out; it says so.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
SHORT = ["helpers", "tests/notebooks", "tests/solutions", "tests/autograder/samples/test_chapters.py"]


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


def chosen(version: str, long: float, left: float) -> list[str] | None:
    """What `make` is told to run: all quick tests ([]), the short list, or nothing (None).

    long  seconds that the long tests took here: the quick ones take about half of that on a Python that has its
          environment to make, the short list an eighth
    left  seconds until the end

    >>> chosen("3.13", 2000, 3000), chosen("3.13", 2000, 100)
    ([], None)
    >>> chosen("3.12", 2000, 3000) == chosen("3.13", 4000, 2000) == [f"TESTS={' '.join(SHORT)}"]
    True
    """
    if version not in SUPPORTED[1:-1] and left > long * 0.6:
        return []
    return [f"TESTS={' '.join(SHORT)}"] if left > long * 0.2 else None


def main() -> int:
    """Exit status: 0 if all passed."""
    failed, began = [], time.time()
    end = float(os.environ.get("TESTS_END", "inf"))
    if subprocess.run([sys.executable, "-m", "pytest", "-n", "2", "-m", "slow"], cwd=ROOT).returncode:
        failed.append("the long tests")
    long = time.time() - began
    for version, python in other_pythons().items():
        what = chosen(version, long, end - time.time())
        if what is None:
            print(
                f"\nPython {version}: left out, for this machine took {long / 60:.0f} minutes for the long tests",
                flush=True,
            )
            continue
        print(f"\nPython {version}: {python}, {'the short list' if what else 'all quick tests'}", flush=True)
        env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}
        if subprocess.run(["make", "test", f"PYTHON={python}", *what], cwd=ROOT, env=env).returncode:
            failed.append(f"Python {version}")
    print(f"\nfailed on: {', '.join(failed)}" if failed else "\nall passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
