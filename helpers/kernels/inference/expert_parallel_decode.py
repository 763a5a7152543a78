"""Experts on different devices while decoding: W_in[E_Z, D, F_Y] (chapter 5).

A step reads the weights of every expert that some token chose, soon all of them; spread over Y and Z each device reads its own.
Two ways to bring tokens and experts together:

    whole     x[B, D] is whole everywhere, as tensor parallelism leaves it: each device serves the tokens that want its experts, and
              one AllReduce adds up. It sends B·D numbers whatever k is
    batch     x[B_Z, D] is cut over the experts' axis: two AllToAlls take E·C places there and back (`mixture_of_experts`), and an AllReduce
              over Y adds up the parts of F

Source: Austin et al. 2025, Section 7, Question 6; Lepikhin et al., "GShard" (2020).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.mesh import sharded
from helpers.kernels.transformers import mixture_of_experts

CUTS = {"whole": "[B, D]", "batch": "[B_Z, D]"}


def weights(c: Config) -> tuple[str, ...]:
    """The notation of the router and of the experts, in the order that the program takes them."""
    gate = ("W_gate[E_Z, D, F_Y]",) if c.gated else ()
    return ("W_R[D, E]", "W_in[E_Z, D, F_Y]", *gate, "W_out[E_Z, F_Y, D]")


def arrays(p: dict) -> list:
    """The arrays of a layer of experts, in that order."""
    return [p["W_R"], *(p["experts"][name] for name in ("W_in", "W_gate", "W_out") if name in p["experts"])]


def program(c: Config, mesh: jax.sharding.Mesh, cut: str = "whole", factor: float | None = None) -> Callable:
    """(x[B, D], *arrays(p)) -> y[B, D]: the layer of experts over a mesh of Y and Z.

    cut      of x and y: "whole" or "batch"
    factor   places of an expert over an even share of the tokens (with "batch", of each device's tokens); None: room for all,
             which multiplies every expert with B rows: a decode step that is bound by reading weights has the time
    """
    if cut not in CUTS:
        raise ValueError(f"tokens are cut {' or '.join(map(repr, CUTS))}, not {cut!r}")
    if not c.moe or c.moe.shared or c.biases:
        raise ValueError("this layer has experts, none of them shared, and no biases: give it a Config with such a moe")
    on_device = {"whole": whole, "batch": batch}[cut]
    return sharded(partial(_named, on_device, c, factor), mesh, (f"x{CUTS[cut]}", *weights(c)), f"y{CUTS[cut]}")


def _named(f: Callable, c: Config, factor: float | None, x, W_R, *w):
    C = len(x) if factor is None else mixture_of_experts.capacity(len(x), c.moe.E, c.moe.k, factor)
    names = ("W_in", "W_gate", "W_out") if c.gated else ("W_in", "W_out")
    return f(W_R, dict(zip(names, w)), x, c, C)


def whole(W_R, w: dict, x, c: Config, C: int):
    """x[B, D] whole everywhere: one AllReduce over both axes."""
    r = mixture_of_experts.route(x @ W_R, c.moe.k)
    mine = here(r, len(w["W_in"]), lax.axis_index("Z"))
    places = mixture_of_experts.dispatch(x, mine, len(w["W_in"]), C)  # [E_Z, C, D]
    done = mixture_of_experts.experts(w, places, c)  # [E_Z, C, D] {U_Y}
    return lax.psum(mixture_of_experts.combine(done, mine), ("Y", "Z"))  # y[B, D] {U_YZ} -> y[B, D]


def here(r: mixture_of_experts.Route, E: int, z) -> mixture_of_experts.Route:
    """The route with experts counted from the first one here; those elsewhere are beyond the last one, where nothing stands."""
    expert = r.expert - z * E
    return mixture_of_experts.Route(jnp.where((expert >= 0) & (expert < E), expert, E), r.gate, r.place)


def batch(W_R, w: dict, x, c: Config, C: int):
    """x[B_Z, D]: two AllToAlls over Z and, last, when there is least of it, the sum over Y."""
    r = mixture_of_experts.route(x @ W_R, c.moe.k)
    places = mixture_of_experts.dispatch(x, r, c.moe.E, C)  # [E, C, D] of the tokens here
    mine = lax.all_to_all(places, "Z", split_axis=0, concat_axis=1, tiled=True)  # [E_Z, Z·C, D]
    done = mixture_of_experts.experts(w, mine, c)  # [E_Z, Z·C, D] {U_Y}
    back = lax.all_to_all(done, "Z", split_axis=1, concat_axis=0, tiled=True)  # [E, C, D] {U_Y}
    return lax.psum(mixture_of_experts.combine(back, r), "Y")  # y[B_Z, D] {U_Y} -> y[B_Z, D]
