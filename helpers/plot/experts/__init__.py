"""Draw: two meshes on the same chips, a token's copies over hosts, the load of experts over training (chapter 8).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot.
"""
