"""Predict: chips and what they do per second, machines of them, rooflines, distances on a torus, tiers of links, what fits on an SM
(chapter 1).

May import: helpers.numeric and the standard library.
Tests: tests/helpers/costs/rooflines.
"""
