"""A film of chapter 2: ReduceScatter."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import reduce_scatter

FIGURE = LiveFilm(
    name="reduce-scatter",
    title="ReduceScatter on four devices: in each block the devices whose summands it holds, Σ for all of them.",
    films={
        "ring, both ways": reduce_scatter(Axis(4)),
        "ring, one way": reduce_scatter(Axis(4), ways=1),
        "line": reduce_scatter(Axis(4, wraps=False)),
    },
)
