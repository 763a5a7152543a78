"""Before JupyterLab starts: each copy is made, brought up to date if the course has changed, and otherwise left alone."""

from .copies import START, Work, current, page, readable


def update(work: Work) -> None:
    """Every copy as the course has it now, with the learner's work in it. Whatever cannot be done is said."""
    for name in work.names():
        here = readable(work.copy(name))
        if here and current(work, name):
            continue
        if here and work.has_kept(f"notebooks/{name}", (work.tree.notebooks / name).read_bytes()):
            work.edited.append(name)  # and in work/ since it was kept
            continue
        from . import following, rescue  # what they need takes a second to import

        if not following.follow(work, name):
            rescue.import_edited(work, name)
    copies = {work.copy(name) for name in work.names()}
    for path in sorted({*work.folder.glob("ch*/*.ipynb")} - copies):
        if path.is_file() and path.with_name("exercises.ipynb") in copies and b'"grade_id"' in path.read_bytes():
            name = path.relative_to(work.folder).as_posix()
            work.say(
                name, "a copy of yours, which is neither graded nor brought up to date; exercises.ipynb beside it is."
            )
    if work.edited:
        names = ", ".join(work.edited)
        work.said.append(
            f"In notebooks/ the course's files were written into ({names}): `course rescue` brings what is yours to work/ "
            "and makes notebooks/ as the course has it, so that `git pull` works."
        )
    start_page = work.tree.notebooks / START
    if start_page.is_file():
        page(work, start_page.read_bytes())


def rescue(work: Work) -> None:
    """`course rescue`."""
    from .rescue import rescue

    rescue(work)
    nothing = not work.said
    update(work)
    if nothing:
        work.said.append("There is nothing to rescue: notebooks/ is as the course has it.")
