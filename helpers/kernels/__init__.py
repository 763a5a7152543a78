"""Run: the course's programs in JAX (and NumPy), on simulated or real devices.

`mesh` makes devices and meshes, `machine` measures this computer, `operands` looks at what a kernel was given.
One room for each chapter, which imports earlier ones only:
rooflines, sharding, transformers, attention, training, inference, racks, experts.
May import: helpers.costs.
Tests: tests/helpers/kernels.
"""
