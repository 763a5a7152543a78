"""Draw: what a device holds, where mesh axes lie, steps and pipelines over time, the plane of layouts, estimates (chapter 4).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/training.
"""
