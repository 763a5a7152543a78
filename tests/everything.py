"""`make test-all`: what `make test` leaves out: the long tests here, and the quick ones on the other supported Pythons found.

A Python between the oldest and the newest has the newest one's packages: there only doctests, notebooks and answers run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
BETWEEN = ["helpers", "tests/notebooks", "tests/solutions", "tests/autograder/test_chapters.py"]


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


def main() -> int:
    """Exit status: 0 if all passed."""
    failed = []
    if subprocess.run([sys.executable, "-m", "pytest", "-n", "2", "-m", "slow"], cwd=ROOT).returncode:
        failed.append("the long tests")
    for version, python in other_pythons().items():
        print(f"\nPython {version}: {python}", flush=True)
        env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")}
        what = [f"TESTS={' '.join(BETWEEN)}"] if version in SUPPORTED[1:-1] else []
        if subprocess.run(["make", "test", f"PYTHON={python}", *what], cwd=ROOT, env=env).returncode:
            failed.append(f"Python {version}")
    print(f"\nfailed on: {', '.join(failed)}" if failed else "\nall passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
