"""Prefill of one layer over many devices: tensor parallelism, and a sharded sequence (chapter 5).

Prefill is like training's forward pass: many tokens, so products are bound by FLOPs. First heads and F are cut, until links
are the limit; then the sequence.

A prefill of latent attention makes keys and values: of the latent vectors of all tokens, which are gathered, each device those
of its heads. To absorb, as a decode step does (`latent_kv_cache`), takes more FLOPs for so many tokens.

Source: Austin et al. 2025, Section 7; Liu et al., "Ring Attention" (2023).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import Config
from helpers.kernels import mesh as meshes
from helpers.kernels.training import context_parallel
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import mlp, normalise, product, rotate, visible, weigh

from .decode_tp_fsdp_dp import OVER_Y
from .latent_kv_cache import KEPT, OVER_Y as LATENT_OVER_Y, short_vectors
from .sharded_decode_step import Way, lies

PROMPT = ("x[B, T_X, D_Y]", *OVER_Y, "K[B, T_X, K_Y, H]")
"""How prefill lies over X and Y: between the halves of the layer D is cut too, as in chapter 4's tensor parallelism."""


LATENT_PROMPT = ("x[B, T_X, D_Y]", *LATENT_OVER_Y, "c[B, T_X, R]")
"""The same for latent attention, whose cache has no heads to cut."""


def prefill(c: Config, mesh: jax.sharding.Mesh, keys: str = "ring") -> Callable:
    """The program (p, x[B, T, D]) -> (x[B, T, D], {"k": K[B, T, K, H], "v": V[B, T, K, H]}): one layer, a whole prompt.

    keys  "ring": keys and values go round X, past every device's queries; "gathered": every device gets all of them.
          Latent vectors, {"latent": [B, T, R], "rope": [B, T, P]}, are small, and gathered in any case
    """
    by = LOOKS[_known(keys)]
    return _over(c, mesh, lambda p, x: layer(p, x, c, by))


def prompt(c: Config, mesh: jax.sharding.Mesh, size: int, keys: str = "ring") -> Callable:
    """The program (params, tokens[B, T]) -> (logits[B, V] of the last token, the cache of all layers): `decoder.prefill`.

    size  places of the cache; `sharded_decode_step.start` brings it to where a way to decode wants it
    """
    by = LOOKS[_known(keys)]
    run = _over(c, mesh, lambda p, x: lax.scan(lambda x, p: layer(p, x, c, by), x, p), stacked=True)

    def program(params, tokens):
        T = tokens.shape[1]
        if not 0 < T <= size:
            raise ValueError(f"a prompt has 1 to {size} tokens, the places of the cache, and this one has {T}")
        x, kept = run(params["layers"][0], decoder.embed(params, tokens, jnp.arange(T), c))
        behind = lambda a: jnp.pad(a, [(0, size - T if i == 2 else 0) for i in range(a.ndim)])  # noqa: E731
        return decoder.unembed(params, x[:, -1], c), [jax.tree.map(behind, kept)]

    return jax.jit(program)


def _over(c: Config, mesh: jax.sharding.Mesh, f: Callable, stacked: bool = False) -> Callable:
    how, names = (LATENT_PROMPT, KEPT) if c.mla else (PROMPT, ("k", "v"))
    way = Way("prefill", *how[:1], how[1:-1], how[-1], None, None, keeps=names)
    lies(how, c, mesh, c.mla is not None, B=0, T=0)
    x = meshes.spec(way.x)

    def program(p, x_):
        lies(how, c, mesh, c.mla is not None, B=x_.shape[0], T=x_.shape[1])
        ins, outs = (way.specs(p, stacked), x), (x, way.kept(stacked))
        return jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)(p, x_)

    return jax.jit(program)


def layer(p: dict, x, c: Config, by: Callable):
    """One layer on x[B, T_X, D_Y], and what the cache gets of the tokens here."""
    norm = lambda i, x: normalise(x, p["norms"][i] if "norms" in p else None, c)  # noqa: E731
    y = lax.all_gather(x, "Y", axis=2, tiled=True)  # [B, T_X, D]: a norm needs all of D
    y = norm(0, y)
    y, cache = attend_latent(p, y, c) if c.mla else attend_prompt(p, y, by)  # [B, T_X, D] {U_Y}
    x = x + lax.psum_scatter(y, "Y", scatter_dimension=2, tiled=True)  # [B, T_X, D_Y]
    y = lax.all_gather(x, "Y", axis=2, tiled=True)  # [B, T_X, D]
    y = mlp(p, norm(1, y), c)  # Tmp[B, T_X, F_Y] -> y[B, T_X, D] {U_Y}
    return x + lax.psum_scatter(y, "Y", scatter_dimension=2, tiled=True), cache  # [B, T_X, D_Y]


def attend_prompt(p: dict, y, by: Callable):
    """Causal attention of a prompt cut over X: y[B, T_X, D] -> y[B, T_X, D] {U_Y}; `by` is `ring` or `gathered`."""
    at = _places(y)  # at[T_X]
    q = rotate(product(p, "W_Q", "btd,dnh->btnh", y), at)  # [B, T_X, N_Y, H]
    k = rotate(product(p, "W_K", "btd,dkh->btkh", y), at)  # [B, T_X, K_Y, H]
    v = product(p, "W_V", "btd,dkh->btkh", y)  # [B, T_X, K_Y, H]
    out = by(q, k, v).reshape(q.shape)  # [B, T_X, N_Y, H]
    return product(p, "W_O", "btnh,nhd->btd", out), dict(k=k, v=v)


def attend_latent(p: dict, y, c: Config):
    """The same with keys and values made from the latent vectors of all tokens, gathered over X."""
    m, at = c.mla, _places(y)
    q, latent, rope = short_vectors(
        p, y, lambda a: rotate(a, at), c, "Y"
    )  # q[B, T_X, N_Y, H], latent[B, T_X, R], rope[B, T_X, P]
    every = lax.all_gather(jnp.concatenate([latent, rope], -1), "X", axis=1, tiled=True)  # [B, T, R + P]
    k = product(p, "W_UK", "bsr,rnh->bsnh", every[..., : m.kv_rank])  # [B, T, N_Y, nope]
    v = product(p, "W_UV", "bsr,rnh->bsnh", every[..., : m.kv_rank])  # [B, T, N_Y, v]
    scores = jnp.einsum("btnh,bsnh->bnts", q[..., : m.nope], k)
    scores = scores + jnp.einsum("btnh,bsh->bnts", q[..., m.nope :], every[..., m.kv_rank :])
    shares = weigh(scores / c.qk**0.5, visible(at, jnp.arange(every.shape[1]), None))  # [B, N_Y, T_X, T]
    out = jnp.einsum("bnts,bsnh->btnh", shares, v)  # [B, T_X, N_Y, v]
    return product(p, "W_O", "btnh,nhd->btd", out), dict(latent=latent, rope=rope)


def _places(y):
    """Of the tokens here in their prompt, at[T_X]."""
    return lax.axis_index("X") * y.shape[1] + jnp.arange(y.shape[1])


def ring(q, k, v):
    """|X| - 1 hops of the keys and values here, and no more of them at a time than that."""
    return context_parallel.ring(q, k, v, "X")  # [B, T_X, N_Y, H]


def gathered(q, k, v):
    """The same bytes in two AllGathers; every device then holds all keys and values of its heads."""
    B, T, N, H = q.shape
    at = lax.axis_index("X") * T + jnp.arange(T)  # at[T_X]
    k = lax.all_gather(k, "X", axis=1, tiled=True)  # [B, T, K_Y, H]
    v = lax.all_gather(v, "X", axis=1, tiled=True)  # [B, T, K_Y, H]
    scores = jnp.einsum("btkmh,bskh->bkmts", q.reshape(B, T, k.shape[2], -1, H), k) / H**0.5
    shares = weigh(scores, visible(at, jnp.arange(k.shape[1]), None))  # [B, K_Y, M, T_X, T]
    return jnp.einsum("bkmts,bskh->btkmh", shares, v)  # [B, T_X, K_Y, M, H]


LOOKS = {"ring": ring, "gathered": gathered}


def _known(keys: str) -> str:
    if keys not in LOOKS:
        raise ValueError(f"keys of other devices come by {' or '.join(map(repr, LOOKS))}, not by {keys!r}")
    return keys
