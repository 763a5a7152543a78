"""What git knows of a notebook: the course's version, earlier ones, and both sides of a conflict."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nbformat import NotebookNode

from autograder.making.cells import METADATA

from .by_cell import as_released
from .damaged import parsed

MOST = 200  # commits that are looked through for the release that a copy was made from


class Git:
    """git in the folder of a course; where there is none, or no git, it knows nothing."""

    def __init__(self, root: Path):
        self.root = root

    def __call__(self, *words: str) -> bytes | None:
        """What a command prints, or None if it fails."""
        with suppress(OSError):  # there is no git
            done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, stdin=subprocess.DEVNULL)
            return done.stdout if done.returncode == 0 else None
        return None

    def text(self, *words: str) -> str:
        return (self(*words) or b"").decode(errors="replace").strip()

    def file(self, rev: str, name: str) -> bytes | None:
        return self("show", f"{rev}:./{name}")

    def place(self, name: str) -> Path:
        """A file of git's own, such as MERGE_HEAD."""
        return self.root / (self.text("rev-parse", "--git-path", name) or ".git-is-not-here")

    def conflicts(self) -> dict[str, dict[int, str]]:
        """File, from the course's folder -> side of the conflict (1 both came from, 2 and 3) -> blob."""
        found: dict[str, dict[int, str]] = {}
        for line in (self("ls-files", "-u", "-z") or b"").decode(errors="replace").split("\0"):
            if line:
                (_, blob, side), name = line.partition("\t")[0].split(), line.partition("\t")[2]
                found.setdefault(name, {})[int(side)] = blob
        return found

    def rebasing(self) -> bool:
        return self.place("rebase-merge").is_dir() or self.place("rebase-apply").is_dir()

    def merging(self) -> bool:
        return self.place("MERGE_HEAD").is_file()

    def revisions(self, name: str) -> Iterator[str]:
        """Commits that may have the course's version of a file, the likeliest first."""
        if self.merging():
            yield "MERGE_HEAD"
        for folder in ("rebase-merge", "rebase-apply"):
            onto = self.place(folder) / "onto"
            if onto.is_file():
                yield onto.read_text().strip()
        yield "HEAD"
        if base := self.text("merge-base", "HEAD", "@{upstream}"):
            yield base
        yield from self.text("log", "--format=%H", "-n", str(MOST), "--", name).split()


def is_release(nb: NotebookNode | None) -> bool:
    """Whether a notebook is as the course makes it: nothing was run, no answer or check was changed, no Jupyter has saved it."""
    return nb is not None and (
        {k: v for k, v in nb.metadata.items() if k != "course"} == METADATA
        and not any(c.get("outputs") or c.get("execution_count") for c in nb.cells)
        and all(as_released(c) for c in nb.cells if "nbgrader" in c.metadata)
    )


def course_version(git: Git, name: str) -> bytes | None:
    """The newest version of a notebook that holds nothing of a learner's, among commits."""
    versions = (git.file(rev, name) for rev in git.revisions(name))
    return next((data for data in versions if data and is_release(parsed(data))), None)


def made_from(copy: NotebookNode, likely: list[NotebookNode], git: Git, name: str) -> NotebookNode | None:
    """The release that a copy was made from: the one that it agrees with most, the latest of equals; None if none is like it.

    likely  releases at hand: where one of them fits, git is not asked
    """

    there = {c.source for c in copy.cells}

    def fit(release: NotebookNode) -> tuple[int, int]:
        texts = {c.source for c in release.cells}
        return len(texts & there), -len(texts - there)

    def share(release: NotebookNode) -> float:
        marked = [c for c in release.cells if not (c.metadata.get("nbgrader") or {}).get("solution")]
        return fit(release)[0] / max(len({c.source for c in marked}), 1)

    best = max(likely, key=fit, default=None)
    if best is None or share(best) < 0.9:
        versions = (parsed(git.file(rev, name) or b"") for rev in git.revisions(name))
        best = max(filter(None, (best, *filter(is_release, versions))), key=fit, default=None)
    return best if best is not None and share(best) >= 0.5 else None
