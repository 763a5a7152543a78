"""Grades for learning platforms: Canvas, Gradescope.

May import: autograder.grading and what that may import.
Tests: tests/autograder/lms.
"""
