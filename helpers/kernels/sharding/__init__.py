"""Run: collectives made of `ppermute`, sharded matmuls, any plan of `costs.sharding.matmul_plans` (chapter 2).

May import: rooflines of this floor; kernels.mesh, kernels.machine; helpers.costs.
Tests: tests/helpers/kernels/sharding.
"""
