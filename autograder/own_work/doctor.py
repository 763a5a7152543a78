"""Whether this machine and this folder are as the course needs them: a line each, and what to do where they are not."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from helpers.check import progress

from .copies import Work, current, readable
from .versions import Git

ROOM = 5e8  # bytes; notebooks with their outputs, kept copies and a compiled cache take less


def findings(work: Work) -> Iterator[tuple[bool, str]]:
    """(whether it is well, what was found and what to do)."""
    version = sys.version_info[:2]
    yield (3, 11) <= version <= (3, 14), f"Python {version[0]}.{version[1]}; the course needs 3.11 to 3.14"
    yield packages(work)
    yield program("JAX computes", "import jax; print(float(jax.numpy.arange(3.).sum()))", "3.0")
    free = shutil.disk_usage(work.tree.root).free
    yield free > ROOM, f"{free / 1e9:.1f} GB free on this disk; half a GB is enough"
    there = work.folder if work.folder.exists() else work.tree.root
    yield os.access(there, os.W_OK), f"{there.name}/ can be written"
    names = work.names()
    broken = [n for n in names if work.copy(n).exists() and not readable(work.copy(n))]
    told = f"; not {', '.join(broken)}: run `course copies`" if broken else ""
    yield not broken, f"notebooks in work/ can be read{told}"
    old = [n for n in names if not current(work, n)]
    told = ": run `course copies`" if old else ""
    yield not old, f"{len(names) - len(old)} of {len(names)} copies are the course's newest{told}"
    changed = Git(work.tree.root).text("status", "--porcelain", "--", "notebooks")
    yield not changed, f"notebooks/ is as the course has it{': run `course rescue`' if changed else ''}"
    try:
        progress.whole(work.folder / progress.NAME)
        yield True, f"{progress.NAME} can be read, or is not there yet"
    except (OSError, ValueError):
        yield False, f"{progress.NAME} cannot be read: the next check puts it aside and begins a new one"


def packages(work: Work) -> tuple[bool, str]:
    """Whether what requirements.txt pins for this Python is installed, in that version."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return False, "no package is installed here: run `make env`"
    wrong, pins = [], (work.tree.root / "requirements.txt").read_text(encoding="utf-8")
    for need in map(Requirement, re.findall(r"^\w.*?(?=\s*(?:\\?$|\s#|\s--hash))", pins, re.M)):
        if need.marker and not need.marker.evaluate():
            continue
        installed = next((d.version for d in importlib.metadata.distributions(name=need.name)), "none")
        if installed == "none" or not need.specifier.contains(installed, prereleases=True):
            wrong.append(f"{need.name} {installed} instead of {need.specifier}")
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    told = f"; not {', '.join(wrong[:3])}{more}: run `make env`" if wrong else ""
    return not wrong, f"packages are as requirements.txt has them{told}"


def program(what: str, code: str, prints: str) -> tuple[bool, str]:
    """Whether a small program prints what it should, in a Python of its own."""
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        if done.returncode == 0 and done.stdout.strip() == prints:
            return True, what
        why = (done.stderr.strip().splitlines() or ["it printed something else"])[-1]
    except subprocess.TimeoutExpired:
        why = "it took more than two minutes"
    return False, f"{what}: no, {why}; run `make env`"


def main(work: Work) -> int:
    well = True
    for fine, words in findings(work):
        print(f"{'✓' if fine else '✗'} {words}", flush=True)
        well = well and fine
    print("All is well." if well else "Begin with the first line that has ✗.")
    return 0 if well else 1
