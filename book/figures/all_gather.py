"""A film of chapter 2: AllGather."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import all_gather

FIGURE = LiveFilm(
    name="all-gather",
    title="AllGather on four devices: each frame shows what a device holds, thick edges what it sends next.",
    films={
        "ring, both ways": all_gather(Axis(4)),
        "ring, one way": all_gather(Axis(4), ways=1),
        "line": all_gather(Axis(4, wraps=False)),
    },
)
