"""A decode step of one layer over a mesh: how its weights and its cache lie, and what each device does (chapter 5).

One new token of each sequence, x[B, D] at positions[B], looks at the cache K[B, S, K, H], V[B, S, K, H] of its own sequence.
Sequences stand at different positions, so what lies behind positions[b] in the cache is nobody's, and is not seen. M is N/K, the
query heads that share a KV head.

    decode_layouts    tensor parallelism; what not to do: FSDP, data parallelism; the cache over KV heads and sequences, with two
                      AllToAlls; the cache over its S places, with partial softmaxes that are put together; latent attention,
                      absorbed: a cache without heads, whole, or over sequences or places
    sharded_mlp       an MLP whose weights lie over both dimensions, and experts on different devices

Source: Austin et al. 2025, Section 7; Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import P, lax

from helpers.costs.sharding import sharded_array
from helpers.costs.transformers.config import Config
from helpers.kernels import mesh as meshes, operands
from helpers.kernels.transformers import decoder_layers
from helpers.kernels.transformers.decoder_layers import layer_norm, mlp, product, rotate


@dataclass(frozen=True)
class Way:
    """How a layer lies over a mesh when it decodes.

    name
    x         the notation of x and y, what enters and leaves each half of the layer
    weights   that of each matrix
    cache     that of the keys; what else is kept lies alike
    attend    (p, cache, y, positions, c) -> (y, cache): attention, of a device's blocks; positions[B] is whole everywhere
    mix       (p, y, c) -> y: the MLP
    keeps     names of the arrays of the cache: keys and values, or what latent attention keeps
    """

    name: str
    x: str
    weights: tuple[str, ...]
    cache: str
    attend: Callable | None = None
    mix: Callable | None = None
    keeps: tuple[str, ...] = ("k", "v")

    def specs(self, params: dict) -> dict[str, P]:
        """How the arrays of a layer lie, by name: matrices by their notation, norms whole everywhere."""
        laid = {sharded_array.parse(w).name: meshes.spec(w) for w in self.weights}
        return {name: laid.get(name, P()) for name in params}

    def kept(self) -> dict[str, P]:
        """How the cache lies."""
        return dict.fromkeys(self.keeps, meshes.spec(self.cache))

    def check(self, c: Config, mesh: jax.sharding.Mesh, B: int = 0, S: int = 0) -> None:
        """ValueError, with what would be right, if this decoder or S places of B sequences (0: none yet) do not lie over the mesh."""
        c.check_usual("a program over a mesh")
        if c.norms != 2 or any((c.parallel, c.biases, c.positions, c.qk_norm, c.sinks, c.window, c.moe)):
            raise ValueError("full layers of two norms and rotations are run here, without biases, sinks or experts")
        if ("latent" in self.keeps) != bool(c.mla):
            raise ValueError("LATENT and its like are for latent attention, the others for heads that have keys")
        sizes = dict(B=B, S=S, T=S, D=c.D, N=c.N, K=c.K, H=c.H or c.qk, F=c.F)
        if c.mla:  # without a rank of queries W_DQ is not there, and divides whatever there is
            sizes |= dict(Q=c.mla.q_rank or mesh.size, R=c.mla.kv_rank, P=c.mla.rope)
        for how in (self.x, *self.weights, self.cache):
            sharded_array.parse(how).check(meshes.costs_mesh(mesh), sizes)

    def cache_bytes(self, c: Config, mesh: jax.sharding.Mesh, B: int, S: int, dtype: str = "bf16") -> float:
        """Bytes of keys and values, or of latent vectors and rotated keys, that one device holds, of all layers."""
        R = c.mla.kv_rank + c.mla.rope if c.mla else 0
        sizes = dict(B=B, S=S, K=c.K, H=2 * (c.H or 0), R=R)
        return c.L * sharded_array.parse(self.cache).bytes(sizes, meshes.costs_mesh(mesh), dtype)


# Whole programs.


def attention(design: Way, c: Config, mesh: jax.sharding.Mesh) -> Callable:
    """The program (p, cache, y[B, D], positions[B]) -> (y[B, D], cache): attention alone, with the new keys and values stored."""
    return _over(design, c, mesh, lambda p, cache, y, positions: design.attend(p, cache, y, positions, c))


def decode(design: Way, c: Config, mesh: jax.sharding.Mesh) -> Callable:
    """The program (p, cache, x[B, D], positions[B]) -> (x[B, D], cache): one layer, `decoder.block` for one token a sequence.

    p      the layer's arrays by name, as `decoder.init` makes them but for the layers in front
    cache  {"k": K[B, S, K, H], "v": V[B, S, K, H]}
    at     the new tokens' places in the cache, below S
    """

    def layer(params, cache, x, positions):
        y, cache = design.attend(params, cache, layer_norm(params, 0, x, c), positions, c)
        x = x + y
        return x + design.mix(params, layer_norm(params, 1, x, c), c), cache

    return _over(design, c, mesh, layer)


def _over(design: Way, c: Config, mesh: jax.sharding.Mesh, f: Callable) -> Callable:
    design.check(c, mesh)
    x = meshes.spec(design.x)

    def program(params, cache, x_, positions):
        B, S = cache[design.keeps[0]].shape[:2]
        design.check(c, mesh, B, S)
        operands.fit({"x[B, D]": x_, "positions[B]": positions}, {"B": B, "D": c.D})
        ins = (design.specs(params), design.kept(), x, P())
        run = jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=(x, ins[1]), check_vma=False)
        return run(params, cache, x_, positions)

    return jax.jit(program)


def lay(design: Way, c: Config, mesh: jax.sharding.Mesh, params: dict, cache: dict) -> tuple[dict, dict]:
    """A layer's arrays and its cache, cut over the mesh."""
    design.check(c, mesh, *cache[design.keeps[0]].shape[:2])
    on = lambda arrays, laid: {n: meshes.put(a, mesh, laid[n]) for n, a in arrays.items()}  # noqa: E731
    return on(params, design.specs(params)), on(cache, design.kept())


# What a device does with its blocks. Sizes are those of the blocks.


def turned(params: dict, name: str, y, positions):
    """Queries or keys of the new tokens, turned by their positions: y[B, D] -> [B, heads, H]."""
    return rotate(product(params, name, "bd,dnh->bnh", y)[None], positions)[0]


def entries(params: dict, y, positions) -> dict:
    """Keys and values of the new tokens: y[B, D] -> new[B, K, H] each."""
    return dict(k=turned(params, "W_K", y, positions), v=product(params, "W_V", "bd,dkh->bkh", y))


def put(cache: dict, entries: dict, positions) -> dict:
    """The cache with what each sequence's new token brings, in place positions[B]; at a place that is not there nothing is stored."""
    entries = {name: a[:, None] for name, a in entries.items()}
    return decoder_layers.store(cache, entries, positions[:, None], is_real=(positions >= 0)[:, None])


def look(q, cache: dict, positions):
    """Softmax-weighted values: q[B, N, H] at the keys up to positions[B] -> [B, N, H], with M = N/K heads on each KV head."""
    seen = jnp.arange(decoder_layers.places(cache)) <= positions[:, None]  # [B, S]
    k, v = (operands.blank(a, seen) for a in keys_and_values(cache))
    return decoder_layers.look(q[:, None], k, v, seen[:, None])[:, 0]


def keys_and_values(cache: dict):
    """K[B, S, K, H] and V[B, S, K, H]; latent vectors are both, of one KV head: [B, S, 1, R + P] and [B, S, 1, R]."""
    if "k" in cache:
        return cache["k"], cache["v"]
    latent, rope = cache["latent"], cache["rope"]
    return jnp.concatenate([latent, rope], -1)[:, :, None], latent[:, :, None]


def mix_over(axes, params: dict, y, c: Config):
    """The MLP with F cut over `axes`, and y[B, D] whole everywhere: one AllReduce."""
    y = mlp(params, y, c, row_letters="b")  # Tmp[B, F_YZ] -> y[B, D] {U_YZ}
    return lax.psum(y, axes)  # [B, D]


MIX_Y, MIX_YZ = partial(mix_over, "Y"), partial(mix_over, ("Y", "Z"))
