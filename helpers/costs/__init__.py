"""Predict: FLOPs, bytes and seconds as arithmetic, on the standard library alone.

Every function takes floats, NumPy arrays, JAX arrays and JAX tracers alike.
Units are FLOPs, bytes, seconds and per second; prefixes appear in printing only.
One room for each chapter, which imports earlier ones only: rooflines, sharding, transformers, attention, training,
inference, racks, experts.
May import: helpers.numeric and the standard library; NumPy inside a search; never JAX.
Tests: tests/helpers/costs. Examples in docstrings have `model`, `chip`, `Slice`, `hosts`, `racks`, `slices` and `ENGINES` without
importing them (helpers/conftest.py).
"""
