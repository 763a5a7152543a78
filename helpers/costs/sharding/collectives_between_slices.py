"""Collectives over mesh axes of which some lie between slices, over the network (chapter 2).

Inside a slice they are those of `collectives`. The chips that differ only along axes of the network are counterparts: each sends over its
own share of the network, in one direction, W_dcn bytes/s. So each chip exchanges with its
counterparts only its own part of what a slice holds, as in `collectives.over_dcn`.
"""

from math import prod

from helpers.arguments import entries
from helpers.costs.rooflines.roofline import Move
from helpers.numeric import where

from .collectives import all_gather, all_reduce, all_to_all, over_dcn, scramble
from .sharded_array import Axis


def in_two_tiers(kind: str, V, inside, slices) -> tuple[Move, Move]:
    """A collective over axes inside slices, and over so many slices: what it puts on ICI links, and on a chip's network.

    kind, V  as in `collectives`; of a Permute V is what each device holds
    inside   the axes inside, an `Axis` or several; of one chip each if there is none
    slices   1: the collectives of one slice

    An AllToAll goes to the counterpart in the other slice first, and what has come is spread inside. A Permute between slices sends
    each array at once to where it belongs, for the network is a switch.

    >>> in_two_tiers("AllGather", 1024.0, Axis(8), 4)
    (Move(link='ici', bytes=512.0, hops=4), Move(link='dcn', bytes=96.0, hops=0))
    >>> [in_two_tiers(kind, 1024.0, Axis(1), 4)[1].bytes for kind in ("AllGather", "AllReduce", "AllToAll", "Permute")]
    [768.0, 1536.0, 192.0, 1024.0]
    """
    axes = (inside,) if isinstance(inside, Axis) else tuple(inside)
    more, n = slices > 1, prod(a.n for a in axes)
    if kind == "Permute":
        here = scramble(V, axes)
        return Move("ici", where(more, 0.0, here.bytes), where(more, 0, here.hops)), Move("dcn", where(more, V, 0.0))
    if kind == "AllToAll":
        across = V / (n * slices) * (slices - 1) / slices
        return all_to_all(V / slices, axes), Move("dcn", across)
    if kind != "AllReduce":
        across, _ = over_dcn("AllGather", V, axes, slices)
        return all_gather(V, axes), across
    once, both = all_reduce(V, axes), over_dcn(kind, V, axes, slices)
    twice = both[0].bytes + both[2].bytes, both[0].hops + both[2].hops
    return Move("ici", where(more, twice[0], once.bytes), where(more, twice[1], once.hops)), both[1]


def parted(axes) -> tuple[tuple[Axis, ...], int]:
    """The axes inside slices, at least one of one chip, and the slices along all others.

    >>> parted((Axis(4), Axis(8, False, "dcn")))
    ((Axis(n=4, wraps=True),), 8)
    """
    inside = tuple(a for a in axes if a.link == "ici")
    return inside or (Axis(1),), prod(a.n for a in axes if a.link == "dcn")


entries(__name__)
