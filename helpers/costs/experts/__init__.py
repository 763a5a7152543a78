"""Predict: experts over devices: two meshes of the same chips, the exchange, balance, measured layers (chapter 8).

May import: every other room of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/experts.
"""
