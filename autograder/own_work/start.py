"""Before JupyterLab starts: each copy is made, brought up to date if the course has changed, and otherwise left alone."""

from .copies import NAMES, START, Work, current, page


def update(work: Work) -> None:
    """Every copy as the course has it now, with the learner's work in it. Whatever cannot be done is said."""
    for source in sorted(work.tree.notebooks.glob("ch[0-9][0-9]_*/*.ipynb")):
        name = source.relative_to(work.tree.notebooks).as_posix()
        if source.name in NAMES and not current(work, name):
            from . import following, rescue  # what they need takes a second to import

            if not following.follow(work, name):
                rescue.import_edited(work, name)
    start_page = work.tree.notebooks / START
    if start_page.is_file():
        page(work, start_page.read_bytes())
    work.note_down()
