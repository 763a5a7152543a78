"""Predict: prefill and decode, latency and throughput, sharded serving, preemption, engines as a simulation, loads
and promises, speculative decoding (chapter 5).

May import: rooflines, sharding, transformers, attention and training of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/inference.
"""
