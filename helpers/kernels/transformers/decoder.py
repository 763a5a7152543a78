"""A decoder in plain JAX that can be any `costs.transformers.config.Config`: init, forward, loss, prefill, decode (chapter 3).

    params = init(config, jax.random.key(0))
    logits = forward(params, tokens, config)                    # tokens[B, T] -> [B, T, V]
    gradient = jax.grad(loss)(params, tokens, config)              # tokens[B, T + 1]
    last, cache = prefill(params, prompt, config, size=64)      # [B, V], and the keys and values of the prompt
    next, cache = decode(params, cache, token, t, config)       # one token for each sequence, at position t

Everything is a function of its arguments; the cache goes in and comes out. Layers that follow each other and are of one kind
are stacked, and run by `lax.scan`.

Source: Austin et al. 2025, Section 4; Vaswani et al. (2017); Chowdhery et al., "PaLM" (2022) for parallel blocks; Gemma 2
(2024) for four norms in a layer.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from math import prod

import jax
import jax.numpy as jnp
from jax import lax

from helpers.costs.transformers.config import NORMS, Config, LayerKind

from .decoder_layers import attention, empty, latent_attention, layer_norm, mlp, normalise, remember, store, visible
from .mixture_of_experts import dropless


def runs(c: Config) -> list[tuple[LayerKind, int]]:
    """Layers from the bottom up, equal ones that follow each other together: (kind, how many).

    >>> runs(Config(D=8, L=5, N=2, K=1, H=4, F=8, V=9, window=3, full_every=3))
    [(LayerKind(window=3, moe=False), 2), (LayerKind(window=None, moe=False), 1), (LayerKind(window=3, moe=False), 2)]
    """
    return [(kind, len(list(same))) for kind, same in groupby(map(c.kind, range(c.L)))]


# Parameters.


def shapes(c: Config) -> dict:
    """The shape of every array of parameters; those of `layers` have the layers of a run in front."""
    c.check_usual("this decoder")
    if (c.norms, c.parallel) not in ((1, True), (2, True), (2, False), (4, False)):
        raise ValueError(
            f"a layer has 2 or 4 norms, and parallel blocks share 1 or have 2: not {c.norms} of {c.parallel=}"
        )
    top = {"embedding": (c.V, c.D)}
    if c.positions:
        top["positions"] = (c.positions, c.D)
    if not c.tied:
        top["unembedding"] = (c.D, c.V)
        top |= {"b_V": (c.V,)} if "unembed" in c.biases else {}
    if each := NORMS[c.norm]:
        top |= {"embedding norm": (each, c.D)} if c.embed_norm else {}
        top |= {"final norm": (each, c.D)} if c.final_norm else {}
    stacked = lambda tree, n: {k: stacked(v, n) if isinstance(v, dict) else (n, *v) for k, v in tree.items()}  # noqa: E731
    return top | {"layers": [stacked(_layer(c, kind), n) for kind, n in runs(c)]}


def _layer(c: Config, kind: LayerKind) -> dict:
    each = NORMS[c.norm]
    out = {"norms": (c.norms, each, c.D)} if each else {}
    out |= _latent(c) if c.mla else _heads(c)
    out |= {"sinks": (c.N,)} if c.sinks else {}
    if not kind.moe:
        return out | _mlp(c, c.F, "mlp" in c.biases)
    m = c.moe
    out |= {"W_R": (c.D, m.E), **({"b_R": (m.E,)} if "router" in c.biases else {})}
    out["experts"] = {name: (m.E, *s) for name, s in _mlp(c, m.F, "mlp" in c.biases).items()}
    if m.shared:
        out["shared experts"] = {name: (m.shared, *s) for name, s in _mlp(c, m.F, False).items()}
    return out


def _heads(c: Config) -> dict:
    out = {"W_Q": (c.D, c.N, c.H), "W_K": (c.D, c.K, c.H), "W_V": (c.D, c.K, c.H), "W_O": (c.N, c.H, c.D)}
    out |= {"b_Q": (c.N, c.H), "b_K": (c.K, c.H), "b_V": (c.K, c.H)} if "qkv" in c.biases else {}
    out |= {"b_O": (c.D,)} if "o" in c.biases else {}
    if c.qk_norm and (each := NORMS[c.norm]):
        q, k = (1, 1) if c.qk_norm == "head" else (c.N, c.K)
        out |= {"query norm": (each, q * c.H), "key norm": (each, k * c.H)}
    return out


def _latent(c: Config) -> dict:
    m, each = c.mla, NORMS[c.norm]
    out = {"W_DQ": (c.D, m.q_rank), "W_UQ": (m.q_rank, c.N, c.qk)} if m.q_rank else {"W_Q": (c.D, c.N, c.qk)}
    out |= {"W_DKV": (c.D, m.kv_rank), "W_KR": (c.D, m.rope), "W_O": (c.N, m.v, c.D)}
    out |= {"W_UK": (m.kv_rank, c.N, m.nope), "W_UV": (m.kv_rank, c.N, m.v)}
    if each:
        out |= {"norm of W_DKV": (each, m.kv_rank), **({"norm of W_DQ": (each, m.q_rank)} if m.q_rank else {})}
    return out


def _mlp(c: Config, F: int, biases: bool) -> dict:
    into = ("W_in", "W_gate") if c.gated else ("W_in",)
    out = {**{name: (c.D, F) for name in into}, "W_out": (F, c.D)}
    return out | ({f"b{name[1:]}": shape[1:] for name, shape in out.items()} if biases else {})


def init(c: Config, key, dtype=jnp.float32) -> dict:
    """Parameters: weights as small random numbers, scales 1, biases, shifts and sinks 0."""
    is_weight = lambda name: not ("norm" in name or name == "sinks" or name.startswith("b_"))  # noqa: E731
    leaves, tree = jax.tree.flatten_with_path(shapes(c), is_leaf=lambda s: isinstance(s, tuple))
    # All weights are cut from one draw: the compiler needs a second for each shape that is drawn.
    total = sum(prod(shape) for path, shape in leaves if is_weight(path[-1].key))
    weights = jax.random.normal(key, (total,), dtype) * jnp.asarray(c.D**-0.5, dtype)
    made, used = [], 0
    for path, shape in leaves:
        if is_weight(path[-1].key):
            made.append(weights[used : used + prod(shape)].reshape(shape))
            used += prod(shape)
        else:
            zeros = jnp.zeros(shape, dtype)
            made.append(zeros.at[..., 0, :].set(1) if "norm" in path[-1].key else zeros)
    return jax.tree.unflatten(tree, made)


# The whole sequence.


def block(
    params: dict, x, positions, c: Config, kind: LayerKind, recall: Callable | None = None, experts: Callable = dropless
):  # fmt: skip
    """One layer: x[B, T, D] at these positions -> (x[B, T, D], the keys and values that a cache has to hold).

    recall   what the tokens look at besides each other, as in `decoder_layers.attention`
    experts  (params, rows[B·T, D], c) -> [B·T, D], of a layer that has some: these see the tokens of all sequences in a row
    """

    def mixed(x):
        return experts(params, x.reshape(-1, c.D), c).reshape(x.shape) if kind.moe else mlp(params, x, c)

    after = lambda i, x: layer_norm(params, i, x, c) if c.norms == 4 else x  # noqa: E731
    attend = latent_attention if c.mla else attention
    y, held = attend(params, layer_norm(params, 0, x, c), positions, c, kind.window, recall)
    if c.parallel:
        return x + y + mixed(layer_norm(params, c.norms - 1, x, c)), held
    x = x + after(2, y)
    return x + after(3, mixed(layer_norm(params, 1, x, c))), held


def embed(params: dict, tokens, positions, c: Config):
    """tokens[B, T] at positions[T] or positions[B, T] -> x[B, T, D]."""
    x = params["embedding"][tokens]
    if c.positions:
        x = x + params["positions"][positions]
    return normalise(x, params.get("embedding norm"), c) if c.embed_norm else x


def unembed(params: dict, x, c: Config):
    """x[..., D] -> logits[..., V]."""
    if c.final_norm:
        x = normalise(x, params.get("final norm"), c)
    if c.tied:
        return x @ params["embedding"].T
    return x @ params["unembedding"] + params.get("b_V", 0)


def hidden(params: dict, tokens, c: Config, wrap_layer: Callable = lambda layer: layer):
    """tokens[B, T] -> x[B, T, D] after the last layer."""
    _fits(tokens.shape[1], c)
    return layers(params["layers"], embed(params, tokens, jnp.arange(tokens.shape[1]), c), c, wrap_layer)


def layers(stacks: list[dict], x, c: Config, wrap_layer: Callable = lambda layer: layer):
    """All layers, one after the other, on x[B, T, D]; `wrap_layer` is put around each, as by `backward_pass`."""
    for (kind, _), stack in zip(runs(c), stacks):
        layer = wrap_layer(lambda x, p, kind=kind: block(p, x, jnp.arange(x.shape[1]), c, kind)[0])
        x, _ = lax.scan(lambda x, p, layer=layer: (layer(x, p), None), x, stack)
    return x


def _fits(T: int, c: Config) -> None:
    if c.positions and T > c.positions:
        raise ValueError(f"{T} tokens do not fit {c.positions} learned positions: shorten the text, or learn more")


def forward(params: dict, tokens, c: Config):
    """Logits[B, T, V] of the token after each of tokens[B, T]."""
    return unembed(params, hidden(params, tokens, c), c)


def loss(params: dict, tokens, c: Config, wrap_layer: Callable = lambda layer: layer):
    """Mean surprise, in nats, at the next token: T predictions for each row of tokens[B, T + 1]. Sums are float32."""
    logits = unembed(params, hidden(params, tokens[:, :-1], c, wrap_layer), c)
    said = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), tokens[:, 1:, None], axis=-1)
    return -said.mean()


# Token by token.


def empty_cache(c: Config, B: int, size: int, dtype=jnp.float32, spare_tokens: int = 0) -> list[dict]:
    """Room for `size` tokens of B sequences: for each run of layers its stacked caches. A local layer has its window and `spare_tokens`."""
    return [empty(c, n, B, min(size, (kind.window or size) + spare_tokens), dtype) for kind, n in runs(c)]


def cache_bytes(cache) -> int:
    """Bytes of a cache, or of any tree of arrays or shapes."""
    return sum(prod(a.shape) * a.dtype.itemsize for a in jax.tree.leaves(cache))


def through(params: dict, x, positions, c: Config, caches: list[dict], recall: Callable, layer: Callable = block):
    """All layers, each with its cache: x[B, T, D] at these positions -> (x[B, T, D], the caches afterwards).

    recall   (kind of layer, its cache, the new keys and values) -> (its cache afterwards, what the tokens look at,
             which of it each sees)
    layer    `block`, or what stands in its place
    """
    after = []
    for (kind, _), stack, cache in zip(runs(c), params["layers"], caches):

        def one(x, params_and_cache, kind=kind):
            p, old = params_and_cache
            return layer(p, x, positions, c, kind, partial(recall, kind, old))

        x, cache = lax.scan(one, x, (stack, cache))
        after.append(cache)
    return x, after


def prefill(params: dict, tokens, c: Config, size: int, layer: Callable = block):
    """A prompt at once: tokens[B, T] -> (logits[B, V] of the token after the last one, a cache with room for `size`).

    layer    as in `through`
    """
    B, T = tokens.shape
    if T > size:
        raise ValueError(f"a prompt of {T} tokens does not fit a cache of {size}: make it at least {T}")
    _fits(T, c)
    positions = jnp.arange(T)
    rows = jnp.broadcast_to(positions, (B, T))

    def recall(kind, cache, entries):
        return store(cache, entries, rows, kind.window), entries, visible(positions, positions, kind.window)

    x = embed(params, tokens, positions, c)
    x, caches = through(params, x, positions, c, empty_cache(c, B, size, x.dtype), recall, layer)
    return unembed(params, x[:, -1], c), caches


def decode(params: dict, cache: list[dict], token, position, c: Config, layer: Callable = block):
    """One step: token[B], which stands at `position` -> (logits[B, V] of the next one, the cache with it).

    It is below the cache's size: in a full one there is no place for the token.
    """
    positions = jnp.broadcast_to(position, (len(token), 1))
    x = embed(params, token[:, None], positions, c)
    recall = lambda kind, old, new: remember(old, new, positions, kind.window)  # noqa: E731
    x, caches = through(params, x, positions, c, cache, recall, layer)
    return unembed(params, x[:, 0], c), caches
