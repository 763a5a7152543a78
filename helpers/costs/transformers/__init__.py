"""Predict: a decoder's configuration, parameters, FLOPs, KV cache, activation memory, MFU (chapter 3).

May import: rooflines and sharding of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/transformers.
"""
