"""From submissions to the gradebook: intake, rebuilding, jobs, records, nbgrader's converter, summary.

May import: autograder.making, autograder.engine, autograder.course, autograder.places.
Tests: tests/autograder/grading; attacks on all of it in tests/autograder/attacks.
"""
