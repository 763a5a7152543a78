"""Count what an exported program asks for, from its StableHLO: collectives, with mesh axes found from replica groups.

May import: trace.jaxpr; helpers.costs, helpers.kernels.
Tests: tests/helpers/trace/stablehlo.
"""
