"""Run: a decoder and its layers, its backward pass, experts, rematerialisation, Adam, quantised weights (chapter 3).

May import: rooflines and sharding of this floor; kernels.mesh, kernels.machine; helpers.costs.
Tests: tests/helpers/kernels/transformers.
"""
