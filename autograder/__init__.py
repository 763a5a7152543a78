"""From the exercises' source to graded classes: release, grading, and the checks on both.

nbgrader's course root is this folder.
"""
