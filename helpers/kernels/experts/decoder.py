"""A decoder that generates with attention data-parallel and experts spread over the same devices (chapter 8).

Each device has some of the sequences, their caches, all of attention's weights, and some of the experts of every layer. Attention sends
nothing; a layer with experts sends two AllToAlls, of room for all tokens of a device to all experts, so that nobody is dropped. With
tensor parallelism of attention each device would hold every sequence's latent cache, and a layer would have an AllReduce besides.

Source: DeepSeek-AI, "DeepSeek-V3" (2024), Section 3.4; SGLang, "DeepSeek with data-parallel attention" (2024).
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from helpers.costs.transformers.config import Config
from helpers.kernels import operands
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import attention, latent_attention, layer_norm, mlp, remember
from helpers.kernels.transformers.mixture_of_experts import shared, there_and_back


def specs(params: dict) -> dict:
    """How the arrays lie over X: experts cut, behind the layers that are stacked in front, and all else whole on every device."""
    cut = lambda path: P(None, "X") if any(getattr(k, "key", "") == "experts" for k in path) else P()  # noqa: E731
    return jax.tree_util.tree_map_with_path(lambda path, _: cut(path), params)


def layer(c: Config, kind, x, p: dict, cache: dict, positions):
    """(x[B_X, T, D] after a layer, its cache), of tokens that stand at positions[B_X, T]."""
    attend = latent_attention if c.mla else attention
    recall = partial(remember, cache, positions=positions, window=kind.window)
    y, cache = attend(p, layer_norm(p, 0, x, c), positions, c, kind.window, recall)
    x = x + y
    y = layer_norm(p, 1, x, c)
    if not kind.moe:
        return x + mlp(p, y, c), cache
    rows = y.reshape(-1, c.D)
    y, _ = there_and_back(p, rows, c, len(rows), "X")
    return x + (y + shared(p, rows, c)).reshape(x.shape), cache


def extend(params: dict, caches: list[dict], tokens, t, c: Config):
    """(logits[B_X, V] of the token after the last of tokens[B_X, T], the caches); the first of them stands at position t."""
    positions = jnp.broadcast_to(t + jnp.arange(tokens.shape[1]), tokens.shape)
    x, after = decoder.embed(params, tokens, positions, c), []
    for (kind, _), stack, cache in zip(decoder.runs(c), params["layers"], caches):
        x, cache = lax.scan(lambda x, both, kind=kind: layer(c, kind, x, *both, positions), x, (stack, cache))
        after.append(cache)
    return decoder.unembed(params, x[:, -1], c), after


def generate(c: Config, mesh: jax.sharding.Mesh, new: int) -> Callable:
    """The program (params, prompt[B, T]) -> tokens[B, new], the likeliest one each time; B over X, a multiple of the devices there."""
    operands.whole(new=new)
    if c.norms != 2 or c.parallel or not c.moe:
        raise ValueError("this program generates with layers of two norms, one after the other, and with experts")

    def on_device(params, prompt):
        B, T = prompt.shape
        caches = decoder.empty_cache(c, B, T + new, params["embedding"].dtype)
        logits, caches = extend(params, caches, prompt, 0, c)

        def step(state, t):
            token, caches = state
            logits, caches = extend(params, caches, token[:, None], t, c)
            after = logits.argmax(-1)
            return (after, caches), after

        token = logits.argmax(-1)
        _, rest = lax.scan(step, (token, caches), T + jnp.arange(new - 1))
        return jnp.concatenate([token[None], rest]).T

    def run(params, prompt):
        ins = specs(params), P("X")
        return jax.shard_map(on_device, mesh=mesh, in_specs=ins, out_specs=P("X"), check_vma=False)(params, prompt)

    return jax.jit(run)
