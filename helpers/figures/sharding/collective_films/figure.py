"""The films of chapter 2: collectives on four devices, alone and overlapped with a product, over three kinds of links."""

from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.sharded_array import Axis

from .film import LiveFilm

TITLES = {
    "all-gather": "AllGather on four devices: each frame shows what a device holds, thick edges what it sends next.",
    "reduce-scatter": (
        "ReduceScatter on four devices: in each block the devices whose partial sums it holds, Σ for all of them."
    ),
    "all-reduce": (
        "AllReduce on four devices: round a ring a ReduceScatter, then an AllGather of the sums; along a line "
        "partial sums run to the middle, and sums run back."
    ),
    "all-to-all": "AllToAll on four devices: block sd goes from device s to device d; numbers on arrows count blocks.",
    "gather-matmul": "AllGather and matmul overlapped: dashed blocks are multiplied while they are sent on.",
    "matmul-scatter": (
        "Matmul and ReduceScatter overlapped: dashed blocks get the device's own partial sum while others travel."
    ),
}


def film(name: str) -> LiveFilm:
    """The film of that name: its frames are those of the function of `helpers.costs.sharding.collective_steps` that is called so."""
    of = getattr(collective_steps, name.replace("-", "_"))
    links = {"ring, both ways": of(Axis(4)), "ring, one way": of(Axis(4), ways=1), "line": of(Axis(4, wraps=False))}
    return LiveFilm(name, TITLES[name], links)


FIGURES = {name: film(name) for name in TITLES}
