"""From the exercises' source to graded classes: release, grading, and the checks on both.

    making      from sources to notebooks              engine    sandboxes and the checker
    grading     from submissions to the gradebook      lms       Canvas, Moodle
    samples     wrong and right sample answers         own_work  a learner's own copies of the notebooks

The commands are `release`, `grade`, `grade_own`, `own_work` and `edition`; `places` and `course` say where things lie.
nbgrader's course root is this folder. Tests: tests/autograder.
"""
