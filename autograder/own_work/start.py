"""Before JupyterLab starts: each copy is made, brought up to date if the course has changed, and otherwise left alone."""

from .copies import START, Work, current, is_copied, page, readable, sweep


def update(work: Work) -> None:
    """Every copy as the course has it now, with the learner's work in it. Whatever cannot be done is said."""
    sweep(work.folder)
    for source in sorted(work.tree.notebooks.glob("ch[0-9][0-9]_*/*.ipynb")):
        name = source.relative_to(work.tree.notebooks).as_posix()
        if not is_copied(source.name) or (readable(work.copy(name)) and current(work, name)):
            continue
        if readable(work.copy(name)) and work.has_kept(f"notebooks/{name}", source.read_bytes()):
            work.edited.append(name)  # and in work/ since it was kept
            continue
        from . import following, rescue  # what they need takes a second to import

        if not following.follow(work, name):
            rescue.import_edited(work, name)
    if work.edited:
        names = ", ".join(work.edited)
        work.said.append(
            f"In notebooks/ the course's files were written into ({names}): `course rescue` brings what is yours to work/ "
            "and makes notebooks/ as the course has it, so that `git pull` works."
        )
    start_page = work.tree.notebooks / START
    if start_page.is_file():
        page(work, start_page.read_bytes())
    work.note_down()
