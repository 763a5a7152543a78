"""What runs where: the areas of the tests, which of them a change touches, and the sample of their long tests that every change gets.

An area is touched by a module that one of its tests imports, directly or by way of others, and by the files that `FILES` names.
`.ci/run` takes the long tests of touched areas whole and a sample of the others; if every area is touched, a sample of all.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = "pythons"  # the quick tests again, on the other interpreters
# The first folder that fits decides.
FOLDERS = {
    "tests/autograder/samples": "exercises",
    "tests/solutions": "exercises",
    "tests/autograder": "grading",
    "tests/tools/term": "grading",
    "tests/book": "site",
    "tests/browser": "site",
    "tests/notebooks": "site",
    "tests/helpers/figures": "site",
    "tests/helpers/live": "site",
    "tests/helpers/plot": "site",
    "tests/helpers": "programs",
    "tests/twins": "programs",
    "helpers": "programs",  # doctests
    "tests": "house",  # environments, style
    "tools": "house",
}
AREAS = (*dict.fromkeys(FOLDERS.values()), PYTHONS)
# What no import leads to. A file that no line fits touches every area.
FILES = {
    "notebooks/*": ("site", "exercises", PYTHONS),
    "solutions/*": ("site", "exercises", PYTHONS),
    "book/*": ("site",),
    "_*.yml": ("site",),
    "helpers/*": (
        "site",
        "exercises",
        PYTHONS,
    ),  # pages, solutions and doctests run all of it, besides what imports say
    "autograder/samples/*": ("exercises",),
    "autograder/*": ("grading", PYTHONS),
    "tools/*.py": (),
    ".github/*": (),  # read by quick tests
    ".gitignore": (),
    "*.md": (),
    "LICENSE": (),
}


def area(test: str) -> str:
    """The area of a test, by its path or its id.

    >>> area("tests/autograder/lms/test_senders.py::test_x"), area("helpers/show.py"), area("tests/test_style.py")
    ('grading', 'programs', 'house')
    """
    return next(FOLDERS[folder] for folder in FOLDERS if test.startswith(f"{folder}/"))


def base() -> str:
    """The commit that main had before: BASE, or that of the clone's origin if this tree differs from it; "" if nobody can tell."""
    ask = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()  # noqa: E731
    theirs = ask("rev-parse", "--verify", "--quiet", "origin/main")
    differs = theirs and (ask("rev-parse", "HEAD") != theirs or ask("status", "--porcelain"))
    return os.environ.get("BASE") or (theirs if differs else "")


def whole(touched: set[str]) -> set[str]:
    """Of which areas all long tests run: none, where every area is touched."""
    return touched if len(touched) < len(AREAS) else set()


def changed(base: str) -> list[str] | None:
    """The paths that differ from a commit, what is not committed included; None if git cannot tell."""
    ask = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)  # noqa: E731
    if not base or ask("merge-base", "--is-ancestor", base, "HEAD").returncode:
        return None
    listed = ask("diff", "--name-only", "--no-renames", base), ask("ls-files", "-o", "--exclude-standard")
    return (
        None
        if any(done.returncode for done in listed)
        else sorted({p for d in listed for p in d.stdout.split("\n") if p})
    )


def touched(paths: Iterable[str] | None) -> set[str]:
    """The areas that a change of these files touches; all if `paths` is None.

    >>> touched(["README.md"]), touched(["book/ch01_rooflines.md"]), touched(["requirements.txt"]) == set(AREAS)
    (set(), {'site'}, True)
    """
    if paths is None:
        return set(AREAS)
    paths, found = list(paths), set()
    modules = [p for p in paths if p.endswith(".py") and not p.startswith("book/")]
    for path in paths:
        if path.startswith("tests/"):
            found.add(area(path))
        else:
            found.update(next((areas for pattern, areas in FILES.items() if fnmatch(path, pattern)), AREAS))
    if {"tests/conftest.py", "tests/tiers.py", "tests/areas.py"} & set(paths):
        return set(AREAS)
    return found | (importing(modules) if modules else set())


def importing(modules: Sequence[str]) -> set[str]:
    """The areas with a test that imports one of these files, directly or by way of others.

    >>> importing(["autograder/lms/canvas.py"])
    {'grading'}
    """
    import grimp  # import-linter's graph; a second or two

    graph = grimp.build_graph("helpers", "autograder", "tests", "tools", cache_dir=None)
    found = set()
    for path in modules:
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if name not in graph.modules:  # deleted: what imported it has changed as well
            continue
        users = {name, *graph.find_downstream_modules(name)}
        found |= {area(f"{m.replace('.', '/')}.py") for m in users if m.startswith("tests.") and m != "tests.conftest"}
    return found


def seed() -> str:
    """What the sample is drawn by: SEED, or the commit."""
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return os.environ.get("SEED") or done.stdout.strip() or "0"


def drawn(ids: Sequence[str], families: Sequence, counts: Sequence[int], seed: str) -> list[bool]:
    """Which of these cases are in the sample: of each family as many as its count, others with another seed.

    >>> drawn(["a1", "a2", "a3", "b1"], "aaab", [1, 1, 1, 1], seed="7")
    [False, True, False, True]
    """
    order = sorted(range(len(ids)), key=lambda i: hashlib.sha256(f"{seed} {ids[i]}".encode()).digest())
    taken, chosen = {}, [False] * len(ids)
    for i in order:
        taken[families[i]] = taken.get(families[i], 0) + 1
        chosen[i] = taken[families[i]] <= counts[i]
    return chosen
