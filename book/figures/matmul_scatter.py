"""A film of chapter 2: Matmul and ReduceScatter overlapped."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import matmul_scatter

FIGURE = LiveFilm(
    name="matmul-scatter",
    title="Matmul and ReduceScatter overlapped: dashed blocks get the device's own summand while others travel.",
    films={
        "ring, both ways": matmul_scatter(Axis(4)),
        "ring, one way": matmul_scatter(Axis(4), ways=1),
        "line": matmul_scatter(Axis(4, wraps=False)),
    },
)
