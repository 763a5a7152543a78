"""Wrong answers (`wrong/`) and right ones written differently (`right/`), one file for each chapter, and `bank`, which reads them.

May import: autograder.places.
Tests: tests/autograder/samples.
"""
