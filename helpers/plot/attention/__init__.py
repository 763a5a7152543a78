"""Draw: masks, and blocks of scores in the order in which they are computed (chapter 6).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/attention.
"""
