"""A film of chapter 2: AllReduce."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import all_reduce

FIGURE = LiveFilm(
    name="all-reduce",
    title="AllReduce on four devices: a ReduceScatter, then an AllGather of the sums.",
    films={
        "ring, both ways": all_reduce(Axis(4)),
        "ring, one way": all_reduce(Axis(4), ways=1),
        "line": all_reduce(Axis(4, wraps=False)),
    },
)
