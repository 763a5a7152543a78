"""From sources to notebooks: cells, exercises, translation to what JupyterLab renders, links, editions; quick judging for authors.

May import: autograder.places, autograder.engine.
Tests: tests/autograder/making.
"""
