"""A film of chapter 2: AllToAll."""

from helpers.costs.sharding import Axis
from helpers.film import LiveFilm
from helpers.frames import all_to_all

FIGURE = LiveFilm(
    name="all-to-all",
    title="AllToAll on four devices: block sd goes from device s to device d; numbers on arrows count blocks.",
    films={
        "ring, both ways": all_to_all(Axis(4)),
        "ring, one way": all_to_all(Axis(4), ways=1),
        "line": all_to_all(Axis(4, wraps=False)),
    },
)
