"""A learner's own copies of the notebooks, in work/: made from notebooks/, and brought up to date by cell.

    __main__    `python -m autograder.own_work`, before JupyterLab starts, and `… rescue`
    start       which copies are made or brought up to date
    copies      the folder work/; like `start`, it imports the standard library only
    following   one copy and a new release
    by_cell     a copy, the release that it was made from and a new one become the new one with the learner's work in it
    same_cells  which cell of a new release is which of the old
    damaged     cells out of a file that is no JSON any more, because git wrote its marks of a conflict into it
    versions    what git knows of a notebook
    rescue      answers out of notebooks/ into work/, and notebooks/ as the course has it

work/chNN_topic/ holds the copies, work/.released/ the releases that they were made from, work/kept/ what was replaced.
May import: autograder.grading, autograder.engine, autograder.places. Tests: tests/autograder/own_work.
"""
