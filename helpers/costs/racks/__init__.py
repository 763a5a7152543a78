"""Predict: GPUs as machines and as clusters: hosts, NVLink domains, rails, racks and pods; collectives over tiers (chapter 7).

May import: every earlier room of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/racks.
"""
