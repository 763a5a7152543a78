"""MLPs of a decode step whose weights stay where they are: cut along D and along F, and experts on different devices (chapter 5).

2D weight-stationary:

With F cut over all devices (1D) a layer sends B·D numbers in and B·D out, however many devices there are. With blocks of the
weights, cut both ways, it sends B·D/|X| in and out and twice B·F/|YZ| in between: both shrink as the mesh grows.

Source: Austin et al. 2025, Section 7, Question 7; Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels.mesh import sharded
from helpers.kernels.transformers import mixture_of_experts

ONE = ("In[B, D_XYZ]", "W_in[D, F_XYZ]", "W_out[F_XYZ, D]")
TWO = ("In[B, D_XYZ]", "W_in[D_X, F_YZ]", "W_out[F_YZ, D_X]")
OUT = "Out[B, D_XYZ]"


def cut_mlp(In, W_in, W_out, D, F):
    """D, F  mesh axes that cut D and F of the weights, F's the last; D has none in 1D, and step 3 is not there then"""
    In = lax.all_gather(In, F, axis=1, tiled=True)  # 1. In[B, D_X]
    Tmp = In @ W_in  # 2. Tmp[B, F_YZ] {U_X}
    Tmp = lax.psum(Tmp, D) if D else Tmp  # 3. Tmp[B, F_YZ]: gelu needs the whole sum over D, so this cannot be put off
    Out = jax.nn.gelu(Tmp) @ W_out  # 4. Out[B, D_X] {U_YZ}
    return lax.psum_scatter(Out, F, scatter_dimension=1, tiled=True)  # 5. Out[B, D_XYZ]


def one_dimension(mesh: jax.sharding.Mesh) -> Callable:
    """(In[B, D], W_in[D, F], W_out[F, D]) -> Out[B, D] over a mesh of X, Y and Z, with weights cut along F."""
    return sharded(partial(cut_mlp, D=(), F=("X", "Y", "Z")), mesh, ONE, OUT)


def two_dimensions(mesh: jax.sharding.Mesh) -> Callable:
    """The same with weights cut along D over X and along F over Y and Z; an axis may have one device."""
    return sharded(partial(cut_mlp, D="X", F=("Y", "Z")), mesh, TWO, OUT)


# Experts on different devices while decoding: W_in[E_Z, D, F_Y].
#
# A step reads the weights of every expert that some token chose, soon all of them; spread over Y and Z each device reads its own.
# Two ways to bring tokens and experts together:
#
#     whole     x[B, D] is whole everywhere, as tensor parallelism leaves it: each device serves the tokens that want its
#               experts, and one AllReduce adds up. It sends B·D numbers whatever k is
#     batch     x[B_Z, D] is cut over the experts' axis: two AllToAlls take E·C places there and back
#               (`mixture_of_experts`), and an AllReduce over Y adds up the parts of F
#
# Source: Austin et al. 2025, Section 7, Question 6; Lepikhin et al., "GShard" (2020).


CUTS = {"whole": "[B, D]", "batch": "[B_Z, D]"}


def weights(c: Config) -> tuple[str, ...]:
    """The notation of the router and of the experts, in the order that the program takes them."""
    gate = ("W_gate[E_Z, D, F_Y]",) if c.gated else ()
    return ("W_R[D, E]", "W_in[E_Z, D, F_Y]", *gate, "W_out[E_Z, F_Y, D]")


def arrays(params: dict) -> list:
    """The arrays of a layer of experts, in that order."""
    experts = params["experts"]
    return [params["W_R"], *(experts[name] for name in ("W_in", "W_gate", "W_out") if name in experts)]


def program(c: Config, mesh: jax.sharding.Mesh, design: str = "whole", factor: float | None = None) -> Callable:
    """(x[B, D], *arrays(p)) -> y[B, D]: the layer of experts over a mesh of Y and Z.

    design  of x and y: "whole" or "batch"
    factor  places of an expert over an even share of the tokens (with "batch", of each device's tokens); None: room for all,
            which multiplies every expert with B rows: a decode step that is bound by reading weights has the time
    """
    if design not in CUTS:
        raise ValueError(f"tokens are cut {' or '.join(map(repr, CUTS))}, not {design!r}")
    if not c.moe or c.moe.shared or c.biases:
        raise ValueError("this layer has experts, none of them shared, and no biases: give it a Config with such a moe")
    names = ("W_in", "W_gate", "W_out") if c.gated else ("W_in", "W_out")

    def on_device(x, W_R, *w):
        C = len(x) if factor is None else mixture_of_experts.capacity(len(x), c.moe.E, c.moe.k, factor)
        return (whole if design == "whole" else batch)(W_R, dict(zip(names, w)), x, c, C)

    return sharded(on_device, mesh, (f"x{CUTS[design]}", *weights(c)), f"y{CUTS[design]}")


def whole(W_R, w: dict, x, c: Config, C: int):
    """x[B, D] whole everywhere: one AllReduce over both axes."""
    r = mixture_of_experts.route(x @ W_R, c.moe.k)
    mine = here(r, len(w["W_in"]), lax.axis_index("Z"))
    places = mixture_of_experts.dispatch(x, mine, len(w["W_in"]), C)  # [E_Z, C, D]
    done = mixture_of_experts.experts(w, places, c)  # [E_Z, C, D] {U_Y}
    return lax.psum(mixture_of_experts.combine(done, mine), ("Y", "Z"))  # y[B, D] {U_YZ} -> y[B, D]


def here(route: mixture_of_experts.Route, E: int, start) -> mixture_of_experts.Route:
    """The route with experts counted from the first one here; those elsewhere are beyond the last one, where nothing stands."""
    expert = route.expert - start * E
    return mixture_of_experts.Route(jnp.where((expert >= 0) & (expert < E), expert, E), route.gate, route.place)


def batch(W_R, w: dict, x, c: Config, C: int):
    """x[B_Z, D]: two AllToAlls over Z and, last, when there is least of it, the sum over Y."""
    y, _ = mixture_of_experts.there_and_back(dict(W_R=W_R, experts=w), x, c, C, "Z")
    return lax.psum(y, "Y")  # y[B_Z, D] {U_Y} -> y[B_Z, D]
