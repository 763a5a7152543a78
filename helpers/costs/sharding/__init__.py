"""Predict: sharded arrays, collectives over links, reshardings, plans for a sharded product (chapter 2).

May import: rooflines of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/sharding.
"""
