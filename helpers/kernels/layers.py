"""The parts of a decoder layer: norms, rotations, masks, attention of every kind, the MLP (chapter 3).

Activations are x[B, T, D]; p holds the weights of one layer, with the shapes of `transformer.shapes`.
The output of every product with a weight carries the weight's name (`checkpoint_name`), so that a checkpoint policy can
choose it; names change nothing else.

Source: Austin et al. 2025, Section 4; Su et al., "RoFormer" (2021); Ainslie et al., "GQA" (2023); DeepSeek-V2 (2024).
"""

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from ..costs.config import Config

EPSILON = 1e-6
NEVER = -1e30  # a score that softmax makes 0; -inf would make a row without keys NaN


def product(p: dict, name: str, equation: str, x):
    """einsum(equation, x, W), plus its bias where the layer has one, under the weight's name."""
    y = jnp.einsum(equation, x, p[name])
    if (bias := f"b{name[1:]}") in p:
        y = y + p[bias]
    return checkpoint_name(y, name)


def normalise(x, norm, c: Config):
    """x over its size along the last axis (for LayerNorm: its spread), scaled and shifted as the norm has parameters.

    norm   [1, D]: a scale; [2, D]: a scale and a shift; None: neither
    """
    if c.norm != "rms":
        x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + EPSILON)
    if norm is None:
        return x
    return x * norm[0] if len(norm) == 1 else x * norm[0] + norm[1]


def rotate(x, at, base: float = 10_000.0):
    """Positions as rotations: pairs (i, i + H/2) of x[B, T, ..., H] turned by the angle at[t] · base^(-2i/H).

    A score of a rotated query and key depends on how far apart they stand only. An odd width keeps its last number.
    """
    half = x.shape[-1] // 2
    angle = at[:, None] * base ** (-jnp.arange(half) / max(half, 1))  # [T, H/2]
    angle = angle.reshape(len(at), *[1] * (x.ndim - 3), half).astype(x.dtype)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def visible(at, where, window: int | None):
    """Which keys each query sees, [T, S]: those not after it, and no more than `window` of them with itself.

    at, where   positions of the queries [T] and of the keys [S]; a key at a negative position is an empty place

    >>> visible(jnp.arange(4), jnp.arange(4), 2).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    apart = at[:, None] - where[None, :]
    seen = (apart >= 0) & (where >= 0)
    return seen if window is None else seen & (apart < window)


def weigh(scores, mask, sinks=None):
    """Softmax of scores[B, …, T, S] over the keys that are seen; a head's sink takes a share that nothing gets."""
    scores = jnp.where(mask, scores, NEVER)
    if sinks is None:
        return jax.nn.softmax(scores, axis=-1)
    sink = jnp.broadcast_to(sinks.reshape(*scores.shape[1:-2], 1, 1), (*scores.shape[:-1], 1))
    return jax.nn.softmax(jnp.concatenate([scores, sink], -1), axis=-1)[..., :-1]


def attention(p: dict, x, at, c: Config, window: int | None = None, cache: dict | None = None):
    """Attention with N query heads on K KV heads: MHA (K = N), GQA, MQA (K = 1).

    at      positions of the tokens [T]
    cache   earlier keys and values, from `empty`; without it the tokens look at each other only

    Result: (y[B, T, D], what the cache holds: the new keys and values, or the cache with them in it)
    """
    q = product(p, "W_Q", "btd,dnh->btnh", x)
    k = product(p, "W_K", "btd,dkh->btkh", x)
    v = product(p, "W_V", "btd,dkh->btkh", x)
    if c.qk_norm:
        q, k = _normalise_heads(q, p.get("query norm"), c), _normalise_heads(k, p.get("key norm"), c)
    if not c.positions:
        q, k = rotate(q, at), rotate(k, at)
    held, where = remember(cache, dict(k=k, v=v), at)
    q = q.reshape(*q.shape[:2], c.K, c.G, c.H)  # query heads in groups, one group for each KV head
    scores = jnp.einsum("btkgh,bskh->bkgts", q, held["k"]) / c.H**0.5
    shares = weigh(scores, visible(at, where, window), p.get("sinks"))
    y = jnp.einsum("bkgts,bskh->btkgh", shares, held["v"]).reshape(*x.shape[:2], c.N, c.H)
    return product(p, "W_O", "btnh,nhd->btd", y), held


def _normalise_heads(x, norm, c: Config):
    """Each head by itself ("head"), or all heads of a token at once ("full"), x[B, T, N, H]."""
    if c.qk_norm == "head":
        return normalise(x, norm, c)
    return normalise(x.reshape(*x.shape[:2], -1), norm, c).reshape(x.shape)


def latent_attention(p: dict, x, at, c: Config, window: int | None = None, cache: dict | None = None):
    """Attention on keys and values that are made from one short vector for each token; the cache holds that vector.

    A whole sequence makes all keys and values once. With a cache that would be done again in every step, so there the
    query goes to the short vectors instead: q · (c @ W_UK) = (q @ W_UK^T) · c. The result is the same.
    """
    m = c.mla
    if m.q_rank:
        short = normalise(product(p, "W_DQ", "btd,dr->btr", x), p.get("norm of W_DQ"), c)
        q = product(p, "W_UQ", "btr,rnh->btnh", short)
    else:
        q = product(p, "W_Q", "btd,dnh->btnh", x)
    nope, rope = q[..., : m.nope], rotate(q[..., m.nope :], at)
    latent = normalise(product(p, "W_DKV", "btd,dr->btr", x), p.get("norm of W_DKV"), c)
    held, where = remember(cache, dict(latent=latent, rope=rotate(product(p, "W_KR", "btd,dh->bth", x), at)), at)

    scores = jnp.einsum("btnh,bsh->bnts", rope, held["rope"])
    if cache is None:
        k = product(p, "W_UK", "bsr,rnh->bsnh", latent)
        v = product(p, "W_UV", "bsr,rnh->bsnh", latent)
        scores = scores + jnp.einsum("btnh,bsnh->bnts", nope, k)
    else:
        nope = jnp.einsum("btnh,rnh->btnr", nope, p["W_UK"])
        scores = scores + jnp.einsum("btnr,bsr->bnts", nope, held["latent"])
    shares = weigh(scores / c.qk**0.5, visible(at, where, window), p.get("sinks"))
    if cache is None:
        y = jnp.einsum("bnts,bsnh->btnh", shares, v)
    else:
        y = jnp.einsum("btnr,rnh->btnh", jnp.einsum("bnts,bsr->btnr", shares, held["latent"]), p["W_UV"])
    return product(p, "W_O", "btnh,nhd->btd", y), held


# What was seen before.


def empty(c: Config, B: int, slots: int, dtype=jnp.float32) -> dict:
    """The cache of one layer for B sequences, with `slots` places."""
    if c.mla:
        return dict(latent=jnp.zeros((B, slots, c.mla.kv_rank), dtype), rope=jnp.zeros((B, slots, c.mla.rope), dtype))
    return dict(k=jnp.zeros((B, slots, c.K, c.H), dtype), v=jnp.zeros((B, slots, c.K, c.H), dtype))


def remember(cache: dict | None, new: dict, at):
    """(what the tokens may look at, the positions where it stands): the new entries, or the cache with them in it."""
    if cache is None:
        return new, at
    cache = store(cache, new, at)
    slots = next(iter(cache.values())).shape[1]
    return cache, at[-1] - (at[-1] - jnp.arange(slots)) % slots  # negative: nothing stands there yet


def store(cache: dict, new: dict, at) -> dict:
    """The cache with new entries: the token at position t stands in place t mod slots, so the oldest one makes room."""
    slots = next(iter(cache.values())).shape[1]
    return {name: a.at[:, at[-slots:] % slots].set(new[name][:, -slots:].astype(a.dtype)) for name, a in cache.items()}


# The MLP.


def mlp(p: dict, x, c: Config, rows: str = "bt"):
    """The MLP of a dense layer: two matrices, or three with a gate."""
    return between(
        c,
        lambda name: product(p, name, f"{rows}d,df->{rows}f", x),
        lambda h: product(p, "W_out", f"{rows}f,fd->{rows}d", h),
    )


def between(c: Config, into, out):
    """What stands between the products of an MLP: silu of the gate times the other one, or gelu where there is no gate."""
    hidden = into("W_in")
    return out(jax.nn.silu(into("W_gate")) * hidden if c.gated else jax.nn.gelu(hidden))
