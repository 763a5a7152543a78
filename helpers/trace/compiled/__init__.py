"""Count what a compiler made of a program: collectives, overlap and memory, beside what was asked for.

May import: trace.jaxpr, trace.stablehlo; helpers.costs, helpers.kernels.
Tests: tests/helpers/trace/compiled.
"""
