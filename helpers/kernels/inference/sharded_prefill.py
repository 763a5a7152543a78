"""Prefill of one layer over many devices: tensor parallelism, and a sharded sequence (chapter 5).

Prefill is like training's forward pass: many tokens, so products are bound by FLOPs. First heads and F are cut, until links
are the limit; then the sequence.

A prefill of latent attention makes keys and values: of the latent vectors of all tokens, which are gathered, each device those
of its heads. To absorb, as a decode step does (`decode_layouts`), takes more FLOPs for so many tokens.

Source: Austin et al. 2025, Section 7; Liu et al., "Ring Attention" (2023).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import mesh as meshes
from helpers.kernels.attention.ring_attention import ring
from helpers.kernels.transformers import decoder_layers as layers

from .decode_layouts import KEPT, LATENT_OVER_Y, OVER_Y, columns
from .sharded_decode_step import Way

PROMPT = Way("prefill", "x[B, T_X, D_Y]", OVER_Y, "K[B, T_X, K_Y, H]")
"""How prefill lies over X and Y: between the halves of the layer D is cut too, as in chapter 4's tensor parallelism."""

LATENT_PROMPT = Way("prefill", "x[B, T_X, D_Y]", LATENT_OVER_Y, "c[B, T_X, R]", keeps=KEPT)
"""The same for latent attention, whose cache has no heads to cut."""


def prefill(c: Config, mesh: jax.sharding.Mesh, keys: str = "ring") -> Callable:
    """The program (p, x[B, T, D]) -> (x[B, T, D], {"k": K[B, T, K, H], "v": V[B, T, K, H]}): one layer, a whole prompt.

    keys  "ring": keys and values go round X, past every device's queries; "gathered": every device gets all of them.
          Latent vectors, {"latent": [B, T, R], "rope": [B, T, P]}, are small, and gathered in any case
    """
    if keys not in LOOKS:
        raise ValueError(f"keys of other devices come by {' or '.join(map(repr, LOOKS))}, not by {keys!r}")
    way = LATENT_PROMPT if c.mla else PROMPT
    way.check(c, mesh)

    def program(params, x):
        way.check(c, mesh, *x.shape[:2])
        lie, one = meshes.spec(way.x), lambda p, x: layer(p, x, c, LOOKS[keys])
        ins, outs = (way.specs(params), lie), (lie, way.kept())
        return jax.shard_map(one, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)(params, x)

    return jax.jit(program)


def layer(params: dict, x, c: Config, attend: Callable):
    """One layer on x[B, T_X, D_Y], and what the cache gets of the tokens here."""
    y = lax.all_gather(x, "Y", axis=2, tiled=True)  # [B, T_X, D]: a norm needs all of D
    y = layers.layer_norm(params, 0, y, c)
    y, cache = attend_latent(params, y, c) if c.mla else attend_prompt(params, y, c, attend)  # [B, T_X, D] {U_Y}
    x = x + lax.psum_scatter(y, "Y", scatter_dimension=2, tiled=True)  # [B, T_X, D_Y]
    y = lax.all_gather(x, "Y", axis=2, tiled=True)  # [B, T_X, D]
    y = layers.mlp(params, layers.layer_norm(params, 1, y, c), c)  # Tmp[B, T_X, F_Y] -> y[B, T_X, D] {U_Y}
    return x + lax.psum_scatter(y, "Y", scatter_dimension=2, tiled=True), cache  # [B, T_X, D_Y]


def attend_prompt(params: dict, y, c: Config, attend: Callable):
    """Causal attention of a prompt cut over X: y[B, T_X, D] -> y[B, T_X, D] {U_Y}; `attend` is `ring` or `gathered`."""
    everything = lambda new: (new, new, None)  # noqa: E731
    return layers.attention(params, y, _places(y), c, None, everything, lambda q, k, v, *_: attend(q, k, v))


def attend_latent(params: dict, y, c: Config):
    """The same with keys and values made from the latent vectors of all tokens, gathered over X."""
    at = _places(y)
    # q[B, T_X, N_Y, H], latent[B, T_X, R], rope[B, T_X, P]
    q, latent, rope = layers.short_vectors(params, y, lambda a: layers.rotate(a, at), c, partial(columns, axes="Y"))
    every = lax.all_gather(jnp.concatenate([latent, rope], -1), "X", axis=1, tiled=True)  # [B, T, R + P]
    seen = dict(latent=every[..., : c.mla.kv_rank], rope=every[..., c.mla.kv_rank :])
    out = layers.look_written(
        params, q, seen, layers.visible(at, jnp.arange(every.shape[1]), None), c
    )  # [B, T_X, N_Y, v]
    return layers.product(params, "W_O", "btnh,nhd->btd", out), dict(latent=latent, rope=rope)


def _places(y):
    """Of the tokens here in their prompt, at[T_X]."""
    return lax.axis_index("X") * y.shape[1] + jnp.arange(y.shape[1])


def gathered(q, k, v):
    """The bytes of a ring in two AllGathers; every device then holds all keys and values of its heads."""
    k = lax.all_gather(k, "X", axis=1, tiled=True)  # [B, T, K_Y, H]
    v = lax.all_gather(v, "X", axis=1, tiled=True)  # [B, T, K_Y, H]
    return layers.look(q, k, v, layers.visible(_places(q), jnp.arange(k.shape[1]), None))  # [B, T_X, N_Y, H]


LOOKS = {"ring": partial(ring, axis="X"), "gathered": gathered}
