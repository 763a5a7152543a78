"""A clone in which notebooks/ itself was edited: what was written there goes into work/, and notebooks/ is the course's again."""

from dataclasses import dataclass

from nbformat import NotebookNode

from . import by_cell, damaged
from .copies import START, Work, is_copied, replace_file
from .following import bring, dumped, settle
from .versions import Git, course_version, is_release

ROUNDS = 200  # commits of one rebase that may each stop at a conflict
MESSAGE = "notebooks/ as the course has it; the answers are in work/"


@dataclass
class Edited:
    """A file of notebooks/ that is not as the course made it."""

    name: str
    versions: list[bytes]  # with something of the learner's in them
    course: bytes | None  # as it should be
    base: bytes | None = None  # what both sides of a conflict came from
    gone: bool = False  # whether the course has left it out since

    @property
    def notebooks(self) -> list[NotebookNode]:
        found = [nb for data in self.versions for nb in damaged.recovered(data)]
        return [nb for nb in found if not is_release(nb)]


def edited(work: Work, git: Git, names: list[str]) -> list[Edited]:
    """What in notebooks/ is the learner's, in the files and on both sides of a conflict."""
    conflicts, found = git.conflicts(), []
    for name in names:
        path, sides = f"notebooks/{name}", conflicts.get(f"notebooks/{name}", {})
        here = work.tree.root / path
        data = here.read_bytes() if here.is_file() else None
        if name == START:
            course = next(filter(None, (git.file(rev, path) for rev in git.revisions(path))), None)
            if course is not None and data != course:
                found.append(Edited(name, [data] if data else [], course))
            continue
        if not sides and data is not None and is_release(damaged.parsed(data)):
            continue
        blobs = {side: git("cat-file", "blob", blob) for side, blob in sides.items()}
        versions = [v for v in (blobs.get(2), blobs.get(3), data) if v and not is_release(damaged.parsed(v))]
        gone = bool(sides) and git.file(next(git.revisions(path)), path) is None
        found.append(Edited(name, versions, course_version(git, path), blobs.get(1), gone))
    return found


def take(work: Work, one: Edited) -> None:
    """Put what a file of notebooks/ holds of the learner's into the copy in work/, and keep every version of the file."""
    copy, kept = work.copy(one.name), f"notebooks/{one.name}"
    if copy.is_file():  # what was taken before is not taken again: the work has gone on since
        one.versions = [data for data in one.versions if not work.has_kept(kept, data)]
    if found := one.name != START and one.notebooks:
        if one.course:
            bring(work, one.name, one.course, found, (one.base,) if one.base else ())
            work.say(one.name, "What you wrote in notebooks/ is in work/ now.")
        elif not copy.is_file():
            settle(work, one.name, dumped(found[0]), None)
            work.say(
                one.name, "Yours was copied to work/ as it is: git has no version of the course's to compare with."
            )
    for data in one.versions:
        where = work.keep(kept, data)
        if not found or not one.course:
            work.say(one.name, f"What stood in notebooks/ is kept in {where}.")


def import_edited(work: Work, name: str) -> None:
    """Before JupyterLab starts, a notebook that was edited in notebooks/: it becomes the copy if there is none, and stays."""
    work.edited.append(name)
    if not work.copy(name).is_file():
        for one in edited(work, Git(work.tree.root), [name]):
            take(work, one)


def rescue(work: Work) -> None:
    """Everything out of notebooks/, round by round where a rebase stops at one commit after the other."""
    git, restored = Git(work.tree.root), set()
    for _ in range(ROUNDS):
        tracked = git.text("ls-files", "-z", "--", "notebooks").split("\0")  # also those that somebody has deleted
        names = {n.removeprefix("notebooks/") for n in tracked if n} | {*work.names()}
        found = edited(work, git, sorted(n for n in names if n == START or is_copied(n.rpartition("/")[2])))
        for one in found:
            take(work, one)
        # Only now, when what they held is in work/:
        restored |= {f"notebooks/{one.name}" for one in found if restore(work, git, one)}
        if not _went_on(work, git):
            break
    _commit(work, git, restored)
    _stashes(work, git)
    others = git.text("ls-files", "--others", "--exclude-standard", "--", "notebooks").split("\n")
    if any(others):
        work.said.append(f"These files are yours alone and stay where they are: {', '.join(others)}.")
    if restored:
        work.said.append("notebooks/ is as the course has it; whatever stood there is kept in work/kept/ as well.")


def restore(work: Work, git: Git, one: Edited) -> bool:
    """Make a file of notebooks/ the course's again."""
    if one.gone:
        (work.tree.notebooks / one.name).unlink(missing_ok=True)
        git("rm", "--quiet", "--cached", "--ignore-unmatch", "--", f"notebooks/{one.name}")
        work.say(one.name, "The course has no such notebook any more; yours stays in work/.")
        return True
    if one.course is None:
        work.say(one.name, "notebooks/ stays as it is here: git has no version of the course's.")
        return False
    replace_file(work.tree.notebooks / one.name, one.course)
    git("add", "--", f"notebooks/{one.name}")
    return True


def _went_on(work: Work, git: Git) -> bool:
    """Go on with a merge or a rebase that stopped at notebooks/; whether there is more to rescue."""
    if left := [n for n in git.conflicts() if not n.startswith("notebooks/")]:
        work.said.append(
            f"git has a conflict in {', '.join(left)} too: settle it, then type `git status` to see how to go on."
        )
        return False
    if git.rebasing():
        nothing = git("diff", "--quiet", "HEAD") is not None
        words = ("rebase", "--skip") if nothing else ("-c", "core.editor=true", "rebase", "--continue")
        if git(*words) is None and not git.conflicts():
            work.said.append("git could not go on with the rebase: type `git status` to see why.")
            return False
        return bool(git.conflicts())
    if git.merging() and git("commit", "--quiet", "--no-edit") is None:
        work.said.append("git could not end the merge: type `git commit --no-edit`.")
    return False


def _commit(work: Work, git: Git, restored: set[str]) -> None:
    """Where commits hold answers in notebooks/, one more that has the course's files, or the next pull meets them again."""
    changed = set(git.text("diff", "--name-only", "--relative", "HEAD", "--", "notebooks").split("\n")) & restored
    if not changed or git.rebasing() or git.merging() or git.conflicts():
        return
    done = git("commit", "--quiet", "-m", MESSAGE, "--only", "--", *sorted(changed)) is not None
    again = "one more commit makes it the course's again."
    held, typed = "Your commits held answers in notebooks/", f'type  git commit -m "{MESSAGE}" notebooks  to end that.'
    work.said.append(f"{held}: {again if done else typed}")


def _stashes(work: Work, git: Git) -> None:
    """What `git stash` has put away of notebooks/: whether it is in work/, too."""
    for stash in git.text("stash", "list", "--format=%gd").split():
        names = git.text("diff", "--name-only", "--relative", f"{stash}^1", stash, "--", "notebooks").split("\n")
        names = [n for n in names if is_copied(n.rpartition("/")[2])]
        there = f"{stash} holds nothing of notebooks/ that is not in work/ too."
        pop = f"{stash} holds work in notebooks/: type `git stash pop {stash}`, then `course rescue` again."
        if names:
            work.said.append(there if all(_held(work, git, stash, n) for n in names) else pop)


def _held(work: Work, git: Git, stash: str, name: str) -> bool:
    copy = work.copy(name.removeprefix("notebooks/"))
    mine = damaged.parsed(copy.read_bytes()) if copy.is_file() else None
    theirs, base = (damaged.parsed(git.file(rev, name) or b"") for rev in (stash, f"{stash}^1"))
    if mine is None or theirs is None:
        return False
    course = {c.source for c in base.cells} if base else set()
    return all(c.source in course or by_cell.held(c, mine) for c in theirs.cells)
