"""Mixture of experts: a router, a capacity, dispatch and combine; on one device and over several (chapter 3).

x[T, D] are the tokens of a batch, all sequences in a row. Each goes to the k experts that its router logits put first, and
gets the sum of their outputs weighed by the softmax of these k logits.

Source: Shazeer et al., "Outrageously Large Neural Networks" (2017); Lepikhin et al., "GShard" (2020); Jiang et al.,
"Mixtral of Experts" (2024); Gale et al., "MegaBlocks" (2022) for experts without a capacity.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from helpers.costs.transformers.config import Config
from helpers.costs.transformers.shares_and_thresholds import capacity as capacity  # the places that an expert serves

from .decoder_layers import between, product


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Route:
    """Where the tokens go.

    expert  [T, k] the experts of each token, best first
    gate    [T, k] their shares, which add up to 1 if k > 1
    place   [T, k] the place in the expert's queue; the expert serves those below its capacity
    """

    expert: jax.Array
    gate: jax.Array
    place: jax.Array

    def served(self, capacity: int) -> jax.Array:
        """[T, k]: whether the token's choice still finds room."""
        return self.place < capacity

    def dropped(self, capacity: int) -> jax.Array:
        """How many of the T·k choices find no room."""
        return jnp.sum(~self.served(capacity))


def route(logits, k: int) -> Route:
    """The k experts with the largest logits[T, E]; queues in the order of the tokens, a token's better choice first.

    With k = 1 the gate is the expert's share of all E: a softmax of one number is 1, and would teach the router nothing.
    """
    E = logits.shape[-1]
    if k > E:
        raise ValueError(f"a token cannot go to k = {k} of E = {E} experts: k is at most E")
    best, expert = lax.top_k(logits, k)
    chosen = jax.nn.one_hot(expert.reshape(-1), E, dtype=jnp.int32)  # [T·k, E]
    place = jnp.sum((jnp.cumsum(chosen, 0) - 1) * chosen, -1).reshape(expert.shape)
    gate = jax.nn.softmax(best, axis=-1) if k > 1 else jax.nn.softmax(logits, axis=-1).max(-1, keepdims=True)
    return Route(expert, gate, place)


def dispatch(x, route: Route, E: int, C: int):
    """x[T, D] -> [E, C, D]: each expert's queue, zeros where nobody stands; who finds no room is dropped."""
    k = route.expert.shape[1]
    places = jnp.zeros((E, C, x.shape[-1]), x.dtype)
    return places.at[route.expert.reshape(-1), route.place.reshape(-1)].set(jnp.repeat(x, k, axis=0), mode="drop")


def combine(y, route: Route):
    """y[E, C, D] -> [T, D]: each token's outputs, by its gates; a dropped choice adds nothing."""
    got = y.at[route.expert, route.place].get(mode="fill", fill_value=0)  # [T, k, D]
    return jnp.sum(got * route.gate[..., None], axis=1)


def experts(params: dict, x, c: Config):
    """The MLP of each expert on its own places, x[E, C, D] -> [E, C, D]."""

    def with_bias(name, y):
        bias = params.get(f"b{name[1:]}")
        return checkpoint_name(y if bias is None else y + bias[:, None], f"{name} of experts")

    return between(
        c,
        lambda name: with_bias(name, jnp.einsum("ecd,edf->ecf", x, params[name])),
        lambda h: with_bias("W_out", jnp.einsum("ecf,efd->ecd", h, params["W_out"])),
    )


def with_capacity(params: dict, x, c: Config, C: int):
    """A layer of experts with C places each, x[T, D] -> (y[T, D], choices dropped).

    Its products have the same shapes whatever the router says: E·C rows pass through experts, used or not. A token's
    result depends on who came before it in the batch: with a full queue, generating token by token differs from the whole
    sequence.
    """
    r = route(product(params, "W_R", "td,de->te", x), c.moe.k)
    y = combine(experts(params["experts"], dispatch(x, r, c.moe.E, C), c), r)
    return y + shared(params, x, c), r.dropped(C)


def dropless(params: dict, x, c: Config):
    """A layer of experts that all find room, x[T, D] -> [T, D]: rows sorted by expert, one product of ragged blocks.

    Exactly the FLOPs of k experts for each token, no place stays empty, and no token depends on another one.
    """
    E, k = c.moe.E, c.moe.k
    r = route(product(params, "W_R", "td,de->te", x), k)
    order = jnp.argsort(r.expert.reshape(-1), stable=True)  # [T·k]
    expert = r.expert.reshape(-1)[order]
    rows, sizes = x[order // k], jnp.sum(expert[:, None] == jnp.arange(E), axis=0, dtype=jnp.int32)
    w = params["experts"]

    def ragged(name, x):
        y = lax.ragged_dot(x, w[name], sizes)
        if (bias := f"b{name[1:]}") in w:
            y = y + w[bias][expert]
        return checkpoint_name(y, f"{name} of experts")

    y = between(c, lambda name: ragged(name, rows), lambda h: ragged("W_out", h))  # [T·k, D]
    y = y * r.gate.reshape(-1)[order][:, None]
    return jnp.zeros_like(x).at[order // k].add(y) + shared(params, x, c)


def shared(params: dict, x, c: Config):
    """The experts that every token goes to, x[T, D] -> [T, D]; 0 where there is none."""
    if not c.moe.shared:
        return jnp.zeros((), x.dtype)
    w, named = params["shared experts"], lambda name, y: checkpoint_name(y, f"{name} of shared experts")
    return between(
        c,
        lambda name: named(name, jnp.einsum("td,sdf->tsf", x, w[name])),
        lambda h: named("W_out", jnp.einsum("tsf,sfd->td", h, w["W_out"])),
    )


# Over several devices.


def over_devices(params: dict, x, c: Config, C: int, axis: str):
    """The same for use inside `shard_map`: tokens x[T_X, D] and experts W_in[E_X, D, F] on the same axis, two AllToAlls.

    C  places that each device has for each expert: an expert serves C choices of every device, so nobody has to know who
       stands in the queues elsewhere
    """
    y, r = there_and_back(params, x, c, C, axis)
    return y + shared(params, x, c), lax.psum(r.dropped(C), axis)


def there_and_back(params: dict, x, c: Config, C: int, axis: str):
    """The two AllToAlls alone: (y[T_X, D], or this device's part of the sum where F is cut; the route of the tokens here)."""
    r = route(product(params, "W_R", "td,de->te", x), c.moe.k)
    places = dispatch(x, r, c.moe.E, C)  # [E, C, D] for all experts, from the tokens here
    mine = lax.all_to_all(places, axis, split_axis=0, concat_axis=1, tiled=True)  # [E_X, X·C, D]
    done = experts(params["experts"], mine, c)
    back = lax.all_to_all(done, axis, split_axis=1, concat_axis=0, tiled=True)  # [E, C, D]
    return combine(back, r), r
