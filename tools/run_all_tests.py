"""`make test-all`: the long tests that a change needs, then the quick ones on other Pythons. What runs where: `tests.areas`.

Of areas that differ from the commit BASE, or from the origin's main, all long tests, of the others a sample; where git cannot
tell, or every area differs, a sample of all. `AREAS="grading site"` runs all long tests of these and nothing else; with FULL=1
every case of every test.
TESTS_END (seconds since 1970) ends all but one test of each file, and soon all, as CI does; STAGES names a
file for the seconds of each stage.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import areas
from tests.tiers import FULL

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
SOME = "TESTS=helpers tests/notebooks"  # doctests and readings: what most often differs by Python and JAX


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


def chosen(pythons: list[str], seed: str, whole: bool, full: bool = FULL) -> dict[str, list[str]]:
    """What `make test` is told on which other Pythons; nothing more to say for all quick tests.

    >>> chosen(["3.12", "3.13"], "7", whole=True, full=True)
    {'3.12': [], '3.13': []}
    >>> chosen(["3.12", "3.13"], "7", whole=False, full=False)
    {'3.13': ['TESTS=helpers tests/notebooks']}
    """
    drawn = areas.drawn(pythons, [0] * len(pythons), [len(pythons) if whole else 1] * len(pythons), seed)
    return {version: [] if full else [SOME] for version, taken in zip(pythons, drawn, strict=True) if taken}


def stage(name: str, command: list[str], **more) -> list[str]:
    """Run a command and note its seconds; its name if it failed."""
    began = time.time()
    failed = subprocess.run(command, cwd=ROOT, **more).returncode
    if os.environ.get("STAGES"):
        with open(os.environ["STAGES"], "a") as f:
            f.write(f"{time.time() - began:.0f} {name}\n")
    return [name] * bool(failed)


def long_tests(marks: str, environment: dict[str, str]) -> list[str]:
    """The stage, and what its report says was left out."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as plan:
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-m", marks, "-rs"]
        failed = stage("long tests", command, env=os.environ | environment | {"PLAN": plan.name})
        print(plan.read(), flush=True)
    return failed


def main() -> int:
    """Exit status: 0 if all passed."""
    named, seed = os.environ.get("AREAS", "").split(), areas.seed()
    if unknown := set(named) - set(areas.AREAS):
        print(f"There is no area {', '.join(sorted(unknown))}: there are {', '.join(areas.AREAS)}", file=sys.stderr)
        return 2
    touched = areas.touched(areas.changed(areas.base()))
    whole = set(named) or areas.whole(touched)
    failed = []
    if FULL or named:
        if not named or set(named) - {areas.PYTHONS}:
            failed += long_tests("" if FULL else "slow and not full", {})
    else:
        print(f"touched: {', '.join(sorted(touched)) or 'nothing but text'}", flush=True)
        failed += long_tests("slow or full", {"DRAW": seed, "WHOLE": " ".join(sorted(whole))})
    if areas.PYTHONS in (named or touched) or FULL and not named:
        pythons = other_pythons()
        whole_pythons = FULL or areas.PYTHONS in whole and time.time() < float(os.environ.get("TESTS_END", "inf"))
        for version, words in chosen(list(pythons), seed, whole_pythons).items():
            print(f"\nPython {version}: {pythons[version]}", flush=True)
            skip = ("VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "AREAS")
            env = {k: v for k, v in os.environ.items() if k not in skip}
            failed += stage(f"Python {version}", ["make", "test", f"PYTHON={pythons[version]}", *words], env=env)
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall passed", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
