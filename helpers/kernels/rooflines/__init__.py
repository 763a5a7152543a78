"""Run: the systolic array of a TPU, cycle by cycle (chapter 1).

May import: kernels.mesh, kernels.machine; helpers.costs.
Tests: tests/helpers/kernels/rooflines.
"""
