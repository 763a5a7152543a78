"""Count what a program asks for, from its jaxpr: FLOPs, bytes, collectives, residuals, attention.

May import: helpers.costs, helpers.kernels.
Tests: tests/helpers/trace/jaxpr.
"""
