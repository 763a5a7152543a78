"""Predict: layouts of a training step, what it sends and holds, pipelines, estimates, the search of layouts (chapter 4).

May import: rooflines, sharding, transformers and attention of this floor; helpers.numeric and the standard library.
Tests: tests/helpers/costs/training.
"""
