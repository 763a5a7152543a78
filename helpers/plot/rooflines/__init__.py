"""Draw: the systolic array and the torus (chapter 1).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot.
"""
