"""Predict: FLOPs, bytes and seconds as arithmetic, on the standard library alone.

Every function takes floats, NumPy arrays, JAX arrays and JAX tracers alike.
Units are FLOPs, bytes, seconds and per second; prefixes appear in printing only.
"""
