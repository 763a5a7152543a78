"""Draw: a decoder and its products, heads and experts, and bars of parameters, FLOPs and bytes by role (chapter 3).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/transformers.
"""
