"""From submissions to the gradebook: intake, rebuilding, jobs on this machine or on Dask, records, nbgrader's converter, summary.

May import: autograder.making, autograder.engine, autograder.course, autograder.places.
Tests: tests/autograder/grading; attacks on all of it in tests/autograder/attacks.
"""
