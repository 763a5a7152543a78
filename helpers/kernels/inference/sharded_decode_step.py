"""A decode step of one layer over a mesh: how its weights and its cache lie, and what each device does (chapter 5).

One new token of each sequence, x[B, D] at positions at[B], looks at the cache K[B, S, K, H], V[B, S, K, H] of its own sequence.
Sequences stand at different positions, so what lies behind at[b] in the cache is nobody's, and is not seen. M is N/K, the
query heads that share a KV head.

    decode_tp_fsdp_dp       tensor parallelism; what not to do: FSDP, data parallelism
    kv_cache_by_heads       the cache over KV heads and sequences: two AllToAlls
    kv_cache_by_sequence    the cache over its S places: partial softmaxes, put together
    latent_kv_cache         latent attention, absorbed: a cache without heads, whole, or over sequences or places
    weight_stationary_2d    an MLP whose weights lie over both dimensions
    expert_parallel_decode  experts on different devices

Source: Austin et al. 2025, Section 7; Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from helpers.costs.sharding import sharded_array
from helpers.costs.transformers.config import Config
from helpers.kernels import mesh as meshes, operands
from helpers.kernels.transformers import decoder
from helpers.kernels.transformers.decoder_layers import mlp, normalise, product, rotate, weigh


@dataclass(frozen=True)
class Way:
    """How a layer lies over a mesh when it decodes.

    name
    x         the notation of x and y, what enters and leaves each half of the layer
    weights   that of each matrix
    cache     that of the keys; what else is kept lies alike
    attend    (p, cache, y, at, c) -> (y, cache): attention, of a device's blocks; at[B] is whole everywhere
    mix       (p, y, c) -> y: the MLP
    rule      (c, sizes of the mesh axes) -> what else has to hold, as a sentence if it does not
    keeps     names of the arrays of the cache: keys and values, or what latent attention keeps
    """

    name: str
    x: str
    weights: tuple[str, ...]
    cache: str
    attend: Callable
    mix: Callable
    rule: Callable = lambda c, n: ""
    keeps: tuple[str, ...] = ("k", "v")

    def specs(self, p: dict, stacked: bool = False) -> dict[str, P]:
        """How the arrays of a layer lie, by name; of all layers, if they are stacked."""
        return specs(self.weights, p, stacked)

    def kept(self, stacked: bool = False) -> dict[str, P]:
        """How the cache lies."""
        return dict.fromkeys(self.keeps, _behind(meshes.spec(self.cache), stacked))

    def check(self, c: Config, mesh: jax.sharding.Mesh, B: int = 0, S: int = 0) -> None:
        """ValueError, with what would be right, if this decoder or this cache (0: none yet) does not lie over the mesh."""
        lies((self.x, *self.weights, self.cache), c, mesh, "latent" in self.keeps, B=B, S=S)
        if said := self.rule(c, meshes.costs_mesh(mesh)):
            raise ValueError(said)

    def cache_bytes(self, c: Config, mesh: jax.sharding.Mesh, B: int, S: int, dtype: str = "bf16") -> float:
        """Bytes of keys and values, or of latent vectors and rotated keys, that one device holds, of all layers."""
        R = c.mla.kv_rank + c.mla.rope if c.mla else 0
        sizes = dict(B=B, S=S, K=c.K, H=2 * (c.H or 0), R=R)
        return c.L * sharded_array.parse(self.cache).bytes(sizes, meshes.costs_mesh(mesh), dtype)


def specs(weights: tuple[str, ...], p: dict, stacked: bool = False) -> dict[str, P]:
    """How the arrays of p lie: matrices by their notation, norms whole everywhere."""
    how = {sharded_array.parse(w).name: _behind(meshes.spec(w), stacked) for w in weights}
    return {name: how.get(name, P()) for name in p}


def _behind(spec: P, layers: bool) -> P:
    """That of arrays which have the layers in front."""
    return P(None, *spec) if layers else spec


def lies(arrays: tuple[str, ...], c: Config, mesh: jax.sharding.Mesh, latent: bool = False, **sizes: int) -> None:
    """ValueError, with what would be right, if these programs do not know this decoder, or an array does not lie over the mesh.

    latent  these are programs of latent attention; else of heads with keys of their own
    """
    c.check_usual("a program over a mesh")
    if c.norms != 2 or any((c.parallel, c.biases, c.positions, c.qk_norm, c.sinks, c.window, c.moe)):
        raise ValueError(
            "these programs run full layers with two norms and rotations, without biases, sinks or experts:"
            " leave those out of the Config"
        )
    if latent != bool(c.mla):
        raise ValueError(
            "this way is of latent attention, and the Config has heads with keys of their own: give it an mla"
            if latent
            else "this way cuts keys and values by heads, and latent attention keeps none: take one of latent_kv_cache"
        )
    n = meshes.costs_mesh(mesh)
    if c.mla:  # without a rank of queries W_DQ is not there, and divides whatever there is
        sizes |= dict(Q=c.mla.q_rank or mesh.size, R=c.mla.kv_rank, P=c.mla.rope)
    for how in arrays:
        sharded_array.parse(how).check(n, dict(D=c.D, N=c.N, K=c.K, H=c.H or c.qk, F=c.F, **sizes))


# Whole programs.


def attention(way: Way, c: Config, mesh: jax.sharding.Mesh) -> Callable:
    """The program (p, cache, y[B, D], at[B]) -> (y[B, D], cache): attention alone, with the new keys and values stored."""
    return _over(way, c, mesh, lambda p, cache, y, at: way.attend(p, cache, y, at, c))


def decode(way: Way, c: Config, mesh: jax.sharding.Mesh) -> Callable:
    """The program (p, cache, x[B, D], at[B]) -> (x[B, D], cache): one layer, `decoder.block` for one token a sequence.

    p      the layer's arrays by name, as `decoder.init` makes them but for the layers in front
    cache  {"k": K[B, S, K, H], "v": V[B, S, K, H]}
    at     the new tokens' places in the cache, below S
    """
    return _over(way, c, mesh, partial(_layer, way, c))


def step(way: Way, c: Config, mesh: jax.sharding.Mesh) -> Callable:
    """The program (params, cache, token[B], at[B]) -> (logits[B, V], cache): `decoder.decode` over a mesh, row by row.

    The cache is that of `decoder.empty_cache`, with all layers in front; the vocabulary's tables are whole everywhere.
    """

    def layers(p, cache, x, at):
        def one(x, both):
            return _layer(way, c, both[0], both[1], x, at)

        return lax.scan(one, x, (p, cache))

    run = _over(way, c, mesh, layers, stacked=True)

    def program(params, cache, token, at):
        x, kept = run(params["layers"][0], cache[0], decoder.embed(params, token, at, c), at)
        return decoder.unembed(params, x, c), [kept]

    return jax.jit(program)


def _layer(way: Way, c: Config, p: dict, cache: dict, x, at):
    norm = lambda i, x: normalise(x, p["norms"][i] if "norms" in p else None, c)  # noqa: E731
    y, cache = way.attend(p, cache, norm(0, x), at, c)
    x = x + y
    return x + way.mix(p, norm(1, x), c), cache


def _over(way: Way, c: Config, mesh: jax.sharding.Mesh, f: Callable, stacked: bool = False) -> Callable:
    way.check(c, mesh)
    x = meshes.spec(way.x)

    def program(p, cache, x_, at):
        B, S = _sequences(way, cache, stacked)
        way.check(c, mesh, B, S)
        if x_.shape != (B, c.D) or at.shape != (B,):
            raise ValueError(
                f"a cache of B = {B} sequences asks for one token and one position of each, [{B}, {c.D}] and [{B}],"
                f" not {list(x_.shape)} and {list(at.shape)}"
            )
        ins = (way.specs(p, stacked), way.kept(stacked), x, P())
        run = jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=(x, ins[1]), check_vma=False)
        return run(p, cache, x_, at)

    return jax.jit(program)


def _sequences(way: Way, cache: dict, stacked: bool) -> tuple[int, int]:
    """Sequences of a cache, and their places."""
    return cache[way.keeps[0]].shape[stacked : stacked + 2]


def lay(way: Way, c: Config, mesh: jax.sharding.Mesh, p: dict, cache: dict) -> tuple[dict, dict]:
    """A layer's arrays and its cache, cut over the mesh; those of all layers, if these stand in front."""
    stacked = cache[way.keeps[0]].ndim > len(meshes.spec(way.cache))
    way.check(c, mesh, *_sequences(way, cache, stacked))
    on = lambda arrays, how: {n: meshes.put(a, mesh, how[n]) for n, a in arrays.items()}  # noqa: E731
    return on(p, way.specs(p, stacked)), on(cache, way.kept(stacked))


def start(way: Way, c: Config, mesh: jax.sharding.Mesh, params: dict, cache: list[dict]) -> tuple[dict, list[dict]]:
    """All parameters and the cache of all layers, laid over the mesh for `step`."""
    p, kept = lay(way, c, mesh, params["layers"][0], cache[0])
    top = {name: meshes.put(a, mesh, P()) for name, a in params.items() if name != "layers"}
    return top | {"layers": [p]}, [kept]


# What a device does with its blocks. Sizes are those of the blocks.


def turned(p: dict, name: str, y, at):
    """Queries or keys of the new tokens, turned by their positions: y[B, D] -> [B, heads, H]."""
    return rotate(product(p, name, "bd,dnh->bnh", y)[None], at)[0]


def remember(cache: dict, k, v, at) -> dict:
    """The cache with each sequence's new key and value in its place."""
    return put(cache, dict(k=k, v=v), at)


def put(cache: dict, new: dict, at) -> dict:
    """The cache with what each sequence's new token brings, in place at[B]; at a place that is not there nothing is stored."""
    rows = jnp.arange(len(at))
    one = lambda a, b: a.at[rows, jnp.where(at < 0, a.shape[1], at)].set(b.astype(a.dtype), mode="drop")  # noqa: E731
    return {name: one(a, new[name]) for name, a in cache.items()}


def look(q, cache: dict, at):
    """Softmax-weighted values: q[B, N, H] at the keys up to at[B] -> [B, N, H], with M = N/K heads on each KV head."""
    B, S, K, H = cache["k"].shape
    seen = jnp.arange(S) <= at[:, None]  # [B, S]
    k, v = (operands.blank(cache[name], seen) for name in "kv")
    scores = jnp.einsum("bkmh,bskh->bkms", q.reshape(B, K, -1, H), k) / H**0.5
    shares = weigh(scores, seen[:, None, None])
    return jnp.einsum("bkms,bskh->bkmh", shares, v).reshape(q.shape)


def mix_over(axes, p: dict, y, c: Config):
    """The MLP with F cut over `axes`, and y[B, D] whole everywhere: one AllReduce."""
    y = mlp(p, y, c, rows="b")  # Tmp[B, F_YZ] -> y[B, D] {U_YZ}
    return lax.psum(y, axes)  # [B, D]


MIX_Y, MIX_YZ = partial(mix_over, "Y"), partial(mix_over, ("Y", "Z"))
