"""Predict: FLOPs, bytes and seconds of attention: Flash, linear, ring, MHA against GQA and MQA (chapter 6).

May import: rooflines, sharding and transformers of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/attention.
"""
