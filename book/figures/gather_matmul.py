"""A film of chapter 2: AllGather and matmul overlapped."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import gather_matmul

FIGURE = LiveFilm(
    name="gather-matmul",
    title="AllGather and matmul overlapped: dashed blocks are multiplied while they are sent on.",
    films={
        "ring, both ways": gather_matmul(Axis(4)),
        "ring, one way": gather_matmul(Axis(4), ways=1),
        "line": gather_matmul(Axis(4, wraps=False)),
    },
)
