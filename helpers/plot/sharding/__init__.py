"""Draw: which device holds which block, and the steps of a collective (chapter 2).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/sharding.
"""
