"""Wrong answers (`wrong/`) and right ones written differently (`right/`), one file for each chapter.

May import: autograder.places, autograder.making, whose `bank` reads them.
Tests: tests/autograder/samples.
"""
