"""The newest course out of the repository that a clone came from, and the packages that it asks for."""

import subprocess
import sys

from .copies import Work
from .start import update
from .versions import Git


def pull(work: Work) -> None:
    """`course update`: what is new, and then the copies."""
    fetch(work)
    update(work)


def fetch(work: Work) -> None:
    """`git pull` where it only adds what is new; otherwise a sentence that says what to do, and nothing has changed."""
    git, root = Git(work.tree.root), work.tree.root
    before = git.text("rev-parse", "HEAD")
    if not before or not git.text("rev-parse", "--abbrev-ref", "@{upstream}"):
        return work.said.append("This folder follows no repository, so there is nothing to fetch.")
    if git("fetch", "--quiet") is None:
        return work.said.append(
            "The course could not be fetched: is there a network? Your copies are as the course has them here."
        )
    if git("merge", "--ff-only", "--quiet", "@{upstream}") is None:
        work.said.append(
            "git cannot bring in what is new beside your own changes: `course rescue` takes answers out of notebooks/, "
            "`git status` says what else has changed; then run `course update` again."
        )
        return
    changed = git.text("diff", "--name-only", "--relative", before, "HEAD").split("\n")
    if not any(changed):
        return work.said.append("You have the newest course.")
    work.said.append("The course has moved on: CHANGELOG.md says how.")
    if {"requirements.txt", "pyproject.toml"} & {*changed}:
        print("It needs other packages, which pip installs now.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        for words in (["-r", "requirements.txt"], ["--no-deps", "--no-build-isolation", "-e", "."]):
            if subprocess.run([*pip, *words], cwd=root).returncode:
                return work.said.append(
                    "pip could not install what it needs: run `course update` again with a network."
                )
