"""A learner's command, and own copies of the notebooks, in work/: made from notebooks/, and brought up to date by cell.

    __main__    the command `course` and its words
    lab         JupyterLab where one was; labconfig/ has what it leaves out for learners
    commands    what is next, how far one is, the record as a line of text, cards of today, the newest course, an exercise anew
    doctor      whether machine and folder are as the course needs them
    start       which copies are made or brought up to date
    copies      the folder work/; like `start`, it imports the standard library only
    following   one copy and a new release
    by_cell     a copy, the release that it was made from and a new one become the new one with the learner's work in it
    damaged     cells out of a file that is no JSON any more, because git wrote its marks of a conflict into it
    versions    what git knows of a notebook
    rescue      answers out of notebooks/ into work/, and notebooks/ as the course has it

work/chNN_topic/ holds the copies, work/.released/ the releases that they were made from, work/kept/ what was replaced.
May import: all of autograder; `check` is autograder.grade_own. Tests: tests/autograder/own_work.
"""
