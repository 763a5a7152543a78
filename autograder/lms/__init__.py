"""Learning platforms, a file each: their archives of submissions and class lists on the way in, grades on the way back.

May import: autograder.grading and what that may import.
Tests: tests/autograder/lms.
"""
