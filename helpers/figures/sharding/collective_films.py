"""The films of chapter 2: collectives on four devices, step by step."""

from functools import partial

from helpers.costs.sharding import collective_steps
from helpers.costs.sharding.collective_steps import CollectiveFilm
from helpers.costs.sharding.sharded_array import Axis
from helpers.live.film import Film, LiveFilm
from helpers.plot.sharding.collective_steps import drawing, size


def summary(run: CollectiveFilm) -> str:
    """The film in a sentence.

    >>> summary(collective_steps.all_gather(Axis(4)))
    'AllGather over 4 devices: 2 hops, 2 blocks over the busiest link in one direction.'
    """
    blocks = f"{run.busiest:g} block{'s' * (run.busiest != 1)}"
    return f"{run.kind} over {run.axis.n} devices: {run.hops} hops, {blocks} over the busiest link in one direction."


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


def figure(name: str) -> LiveFilm:
    """The film of that name: its frames are those of the function of `helpers.costs.sharding.collective_steps` that is called so."""
    of = getattr(collective_steps, name.replace("-", "_"))
    runs = {"ring, both ways": of(Axis(4)), "ring, one way": of(Axis(4), ways=1), "line": of(Axis(4, wraps=False))}
    films = {links: Film(summary(run), run.frames, size(run), partial(drawing, run)) for links, run in runs.items()}
    return LiveFilm(name, TITLES[name], films, "Links")


FIGURES = {name: figure(name) for name in TITLES}
