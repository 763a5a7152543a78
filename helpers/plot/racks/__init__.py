"""Draw: a GPU's parts, waves of tiles, the wiring of clusters and a cut of it, collectives in two tiers (chapter 7).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/racks.
"""
