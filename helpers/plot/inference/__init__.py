"""Draw: latency against throughput, timelines of a server, pages and their tables, a tree of prefixes (chapter 5).

May import: plot.picture; helpers.costs.
Tests: tests/helpers/plot/inference.
"""
