"""Grades for learning platforms: Canvas and Moodle; and their archives of submissions on the way in.

May import: autograder.grading and what that may import.
Tests: tests/autograder/lms.
"""
