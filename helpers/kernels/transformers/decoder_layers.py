"""The parts of a decoder layer: norms, rotations, masks, attention of every kind, the MLP (chapter 3).

Activations are x[B, T, D]; p holds the weights of one layer, with the shapes of `decoder.shapes`.
The output of every product with a weight carries the weight's name (`checkpoint_name`), so that a checkpoint policy can
choose it; names change nothing else.

Source: Austin et al. 2025, Section 4; Su et al., "RoFormer" (2021); Ainslie et al., "GQA" (2023); DeepSeek-V2 (2024).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from helpers.costs.transformers.config import Config
from helpers.kernels import operands

from . import quantisation

EPSILON = 1e-6
NEVER = -1e30  # a score that softmax makes 0; -inf would make a row without keys NaN


def product(params: dict, name: str, equation: str, x):
    """einsum(equation, x, W), plus its bias where the layer has one, under the weight's name."""
    y = jnp.einsum(equation, x, params[name])
    if (bias := f"b{name[1:]}") in params:
        y = y + params[bias]
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


def layer_norm(params: dict, i: int, x, c: Config):
    """The i-th norm of a layer on x[..., D]."""
    return normalise(x, params["norms"][i] if "norms" in params else None, c)


def rotate(x, positions, base: float = 10_000.0):
    """Positions as rotations: pairs (i, i + H/2) of x[B, T, ..., H] turned by the angle positions[t] · base^(-2i/H), in the type of x.

    at is [T], or [B, T] where each row has positions of its own. A score of a rotated query and key depends on how far apart
    they stand only. An odd width keeps its last number.

    Angles, cosines and sines are float32 whatever x is: bfloat16 has 8 bits, so it would round position 1000 to one of 1000, 1004
    and 1008, and the angle with it. Only the turned numbers are rounded to the type of x.
    """
    half = x.shape[-1] // 2
    positions = jnp.asarray(positions)
    # [T, H/2] or [B, T, H/2]
    angle = positions[..., None].astype(jnp.float32) * base ** (-jnp.arange(half) / max(half, 1))
    angle = angle.reshape(*positions.shape, *[1] * (x.ndim - 3), half)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turned = jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)
    return jnp.concatenate([turned.astype(x.dtype), rest], -1)


def visible(positions, key_positions, window: int | None, sink_tokens: int = 0):
    """Which keys each query sees, [T, S]: those not after it, and no more than `window` of them with itself.

    at, key_positions  positions of the queries [T] and of the keys [S]; a key at a negative position is an empty place.
                       With rows in front of either, each row has positions of its own, and the result is [B, T, S]
    sink_tokens        the first tokens of the text are seen besides the window

    >>> visible(jnp.arange(4), jnp.arange(4), 2).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    apart = positions[..., :, None] - key_positions[..., None, :]
    seen = (apart >= 0) & (key_positions >= 0)[..., None, :]
    return seen if window is None else seen & ((apart < window) | (key_positions < sink_tokens)[..., None, :])


def weigh(scores, mask, sinks=None):
    """Softmax of scores[B, …, T, S] over the keys that are seen; a head's sink takes a share that nothing gets.

    mask   [T, S], or [B, T, S] where each row sees keys of its own
    """
    mask = mask.reshape(*mask.shape[:-2], *[1] * (scores.ndim - 3), *mask.shape[-2:]) if mask.ndim == 3 else mask
    scores = jnp.where(mask, scores, NEVER)
    if sinks is None:
        return jax.nn.softmax(scores, axis=-1)
    sink = jnp.broadcast_to(sinks.reshape(*scores.shape[1:-2], 1, 1), (*scores.shape[:-1], 1))
    return jax.nn.softmax(jnp.concatenate([scores, sink], -1), axis=-1)[..., :-1]


def look(q, k, v, mask, sinks=None):
    """Softmax-weighted values: q[B, T, N, H] at k[B, S, K, H] and v[B, S, K, V] -> [B, T, N, V]; `mask` and `sinks` as in `weigh`."""
    B, T, N, H = q.shape
    q = q.reshape(B, T, k.shape[2], -1, H)  # query heads in groups, one group for each KV head
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k) / H**0.5
    return jnp.einsum("bkgts,bskh->btkgh", weigh(scores, mask, sinks), v).reshape(B, T, N, -1)


def attention(
    params: dict, x, positions, c: Config, window: int | None = None, recall: Callable | None = None, look: Callable = look
):  # fmt: skip
    """Attention with N query heads on K KV heads: MHA (K = N), GQA, MQA (K = 1).

    at      positions of the tokens, [T] or [B, T]
    recall  from the new keys and values (what is to be held, the keys and values to look at, which of them each token
            sees), as `remember`; without it the tokens look at each other only. A layer without W_K gives it None
    look    (q, k, v, mask, sinks) -> what the heads see; a ring, where keys are on other devices

    Result: (y[B, T, D], what is to be held)
    """
    q = product(params, "W_Q", "btd,dnh->btnh", x)
    if c.qk_norm:
        q = _normalise_heads(q, params.get("query norm"), c)
    if not c.positions:
        q = rotate(q, positions)
    new = None
    if "W_K" in params:
        k = product(params, "W_K", "btd,dkh->btkh", x)
        k = _normalise_heads(k, params.get("key norm"), c) if c.qk_norm else k
        v = product(params, "W_V", "btd,dkh->btkh", x)
        new = dict(k=k if c.positions else rotate(k, positions), v=v)
    held, seen, mask = recall(new) if recall else (new, new, visible(positions, positions, window))
    seen = _looked_at(seen, mask, new)
    y = look(q, seen["k"], seen["v"], mask, params.get("sinks"))
    return product(params, "W_O", "btnh,nhd->btd", y), held


def _looked_at(entries: dict, mask, new_entries: dict | None) -> dict:
    """What is read of a cache, with zeros where no token looks: what others left in such a place may be NaN."""
    if entries is new_entries:
        return entries  # each token sees its own
    there = mask.any(-2)
    return {name: operands.blank(a, there) for name, a in entries.items()}


def _normalise_heads(x, norm, c: Config):
    """Each head by itself ("head"), or all heads of a token at once ("full"), x[B, T, N, H]."""
    if c.qk_norm == "head":
        return normalise(x, norm, c)
    return normalise(x.reshape(*x.shape[:2], -1), norm, c).reshape(x.shape)


def latent_attention(params: dict, x, positions, c: Config, window: int | None = None, recall: Callable | None = None):
    """Attention on keys and values that are made from one short vector for each token; the cache holds that vector.

    Tokens that look at each other only make all keys and values once. With a cache that would be done again in every step, so
    there the query goes to the short vectors instead: q · (c @ W_UK) = (q @ W_UK^T) · c. The result is the same.
    """
    q, latent, rope = short_vectors(params, x, lambda a: rotate(a, positions), c)
    new = dict(latent=latent, rope=rope)
    held, seen, mask = recall(new) if recall else (new, new, visible(positions, positions, window))
    y = (look_written if seen is new else look_absorbed)(params, q, _looked_at(seen, mask, new), mask, c)
    return product(params, "W_O", "btnh,nhd->btd", y), held


def short_vectors(params: dict, x, rotate: Callable, c: Config, gather: Callable = list):
    """Of tokens x[..., D]: queries q[..., N, H], latent[..., R] and rope[..., P].

    rotate  rotates by the tokens' positions
    gather  makes of arrays that are cut by columns, [..., r_YZ], whole ones; heads may be cut as they are
    """
    names = [name for name in ("W_DQ", "W_DKV", "W_KR") if name in params]
    *short, latent, rope = gather([product(params, name, "...d,dr->...r", x) for name in names])
    if short:
        short = normalise(short[0], params.get("norm of W_DQ"), c)  # [..., Q]
        q = product(params, "W_UQ", "...r,rnh->...nh", short)  # [..., N, H]
    else:
        q = product(params, "W_Q", "...d,dnh->...nh", x)  # [..., N, H]
    q = jnp.concatenate([q[..., : c.mla.nope], rotate(q[..., c.mla.nope :])], -1)
    return q, normalise(latent, params.get("norm of W_DKV"), c), rotate(rope)


def look_written(params: dict, q, entries: dict, mask, c: Config):
    """What q[B, T, N, nope + rope] sees of latent[B, S, R] and rope[B, S, P], all keys and values made: [B, T, N, v]."""
    nope, rope = jnp.split(q, [c.mla.nope], -1)
    k = product(params, "W_UK", "bsr,rnh->bsnh", entries["latent"])
    v = product(params, "W_UV", "bsr,rnh->bsnh", entries["latent"])
    scores = jnp.einsum("btnh,bsh->bnts", rope, entries["rope"]) + jnp.einsum("btnh,bsnh->bnts", nope, k)
    return jnp.einsum("bnts,bsnh->btnh", weigh(scores / c.qk**0.5, mask, params.get("sinks")), v)


def look_absorbed(params: dict, q, entries: dict, mask, c: Config):
    """The same by the short vectors alone."""
    nope, rope = jnp.split(q, [c.mla.nope], -1)
    nope = jnp.einsum("btnh,rnh->btnr", nope, params["W_UK"])
    scores = jnp.einsum("btnh,bsh->bnts", rope, entries["rope"]) + jnp.einsum("btnr,bsr->bnts", nope, entries["latent"])
    shares = weigh(scores / c.qk**0.5, mask, params.get("sinks"))
    return jnp.einsum("btnr,rnh->btnh", jnp.einsum("bnts,bsr->btnr", shares, entries["latent"]), params["W_UV"])


# What was seen before.


def empty(c: Config, n: int, B: int, slots: int, dtype=jnp.float32) -> dict:
    """The caches of n layers that follow each other, for B sequences with `slots` places each; int8 brings scales with it."""
    each = dict(latent=[c.mla.kv_rank], rope=[c.mla.rope]) if c.mla else dict(k=[c.K, c.H], v=[c.K, c.H])
    plain = jnp.float32 if jnp.dtype(dtype).itemsize == 1 else dtype
    return quantisation.scaled({name: jnp.zeros((n, B, slots, *sizes), plain) for name, sizes in each.items()}, dtype)


def places(cache: dict) -> int:
    """How many tokens of a sequence the cache of a layer has room for."""
    return next(iter(cache.values())).shape[1]


def rolls(cache: dict, window: int | None, sink_tokens: int = 0) -> bool:
    """Whether the places of a local layer are a ring: it holds its window, besides the `sink_tokens` first tokens, or more."""
    return window is not None and places(cache) >= window + sink_tokens


def remember(cache: dict, entries: dict, positions, window: int | None = None, sink_tokens: int = 0, is_real=None):
    """(the cache with the new entries, what the tokens positions[B, T] look at, which of it each sees [B, T, S]).

    T tokens look at all S places of a full layer; at window - 1 + T keys, and the first `sink_tokens`, of a ring: the new ones may
    take the place of older ones that the first of them still sees, so these are read before.
    """
    entries = {name: entries[name].astype(a.dtype) for name, a in cache.items()}
    held = store(cache, entries, positions, window, sink_tokens, is_real)
    if not rolls(cache, window, sink_tokens):
        return held, held, visible(positions, jnp.arange(places(cache)), window, sink_tokens)
    before = positions[:, :1] + jnp.arange(1 - window, 0)  # [B, window - 1]
    rows, ring = jnp.arange(len(positions))[:, None], _place(before, places(cache), sink_tokens)
    parts = {name: (held[name][:, :sink_tokens], a[rows, ring], entries[name]) for name, a in cache.items()}
    first = jnp.broadcast_to(jnp.arange(sink_tokens), (len(positions), sink_tokens))
    where = jnp.concatenate([before, positions], 1)
    where = jnp.concatenate([first, jnp.where(where < sink_tokens, -1, where)], 1)  # the first ones stand there once
    mask = visible(positions, where, window, sink_tokens)
    return held, {name: jnp.concatenate(a, 1) for name, a in parts.items()}, mask


def store(cache: dict, entries: dict, positions, window: int | None = None, sink_tokens: int = 0, is_real=None) -> dict:
    """The cache with new entries of the tokens positions[B, T]; those without is_real[B, T], and those beyond it, leave no trace.

    The token at position t stands in place t; in a ring the oldest one but the `sink_tokens` first makes room.
    """
    S = places(cache)
    place, written = positions, True if is_real is None else is_real
    if rolls(cache, window, sink_tokens):
        last = jnp.max(jnp.where(written, positions, -1), axis=1, keepdims=True)
        # No two tokens in one place.
        written = written & ((positions < sink_tokens) | (positions > last - (S - sink_tokens)))
        place = _place(positions, S, sink_tokens)
    place = jnp.where(written, place, S)
    rows = jnp.arange(len(positions))[:, None]
    return {name: a.at[rows, place].set(entries[name].astype(a.dtype), mode="drop") for name, a in cache.items()}


def _place(positions, S: int, sink_tokens: int):
    """Where a ring has the token at position t."""
    return jnp.where(positions < sink_tokens, positions, sink_tokens + (positions - sink_tokens) % (S - sink_tokens))


# The MLP.


def mlp(params: dict, x, c: Config, row_letters: str = "bt"):
    """The MLP of a dense layer: two matrices, or three with a gate."""
    return between(
        c,
        lambda name: product(params, name, f"{row_letters}d,df->{row_letters}f", x),
        lambda h: product(params, "W_out", f"{row_letters}f,fd->{row_letters}d", h),
    )


def between(c: Config, gate, up):
    """What stands between the products of an MLP: silu of the gate times the other one, or gelu where there is no gate."""
    hidden = gate("W_in")
    return up(jax.nn.silu(gate("W_gate")) * hidden if c.gated else jax.nn.gelu(hidden))
