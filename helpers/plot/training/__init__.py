"""Draw: pipelines as their devices ran them, the plane of layouts, estimates beside measurements (chapter 4).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/training.
"""
