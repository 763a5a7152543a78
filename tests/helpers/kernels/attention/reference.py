"""What tests of `helpers.kernels.attention` compare with: attention and its gradient in NumPy float64, and every array of a program."""

import jax
import numpy as np

from helpers.trace.jaxpr.walk import open_jaxpr


def draw(B, T, S, N, K, H, seed=0, dtype="float32"):
    """q, k, v and dO, put on a device: `jnp.asarray` compiles a program for each shape."""
    rng = np.random.default_rng(seed)
    shapes = (B, T, N, H), (B, S, K, H), (B, S, K, H), (B, T, N, H)
    return [jax.device_put(rng.standard_normal(s).astype(dtype)) for s in shapes]


def spoilt(x, lengths):
    """x[B, S, ...] with NaN behind each row's length: nobody looks there."""
    behind = np.arange(x.shape[1]) >= np.asarray(lengths)[:, None]
    x = np.array(x)
    x[behind] = np.nan
    return jax.device_put(x)


def pulled(attend):
    """(q, k, v, dO) -> (result, dq, dk, dv), not compiled yet."""

    def both(q, k, v, do):
        y, pull = jax.vjp(attend, q, k, v)
        return y, *pull(do)

    return both


def dense(q, k, v, do, seen):
    """The same in NumPy, keys repeated for each head; `seen` broadcasts to [B, N, T, S], True where a query sees a key."""
    q, k, v, do = (np.asarray(a.astype("float32"), float) for a in (q, k, v, do))
    G, tau = q.shape[2] // k.shape[2], q.shape[3] ** -0.5
    kr, vr = (np.repeat(a, G, axis=2) for a in (k, v))
    scores = np.where(seen, tau * np.einsum("btnh,bsnh->bnts", q, kr), -1e300)  # e of hundreds is no float64
    e = np.exp(scores - scores.max(-1, keepdims=True)) * seen
    P = e / np.maximum(e.sum(-1, keepdims=True), 1e-300)
    out = np.einsum("bnts,bsnh->btnh", P, vr)
    dP = np.einsum("btnh,bsnh->bnts", do, vr)
    ds = tau * P * (dP - (P * dP).sum(-1, keepdims=True))
    groups = lambda a: a.reshape(*a.shape[:2], -1, G, a.shape[-1]).sum(3)  # noqa: E731
    dk, dv = (groups(np.einsum("bnts,btnh->bsnh", s, x)) for s, x in ((ds, q), (P, do)))
    return out, np.einsum("bnts,bsnh->btnh", ds, kr), dk, dv


def close(got, want, tol):
    """Each array of `got` within tol of that of `want`, relative and absolute; a message names the array."""
    for name, a, b in zip(("result", "dq", "dk", "dv"), got, want):
        np.testing.assert_allclose(np.asarray(a, float), b, rtol=tol, atol=tol, err_msg=name)


def lowered(f, args, platform="cuda"):
    """What JAX hands to the compiler of a GPU (an H100) or a "tpu" (v5e) that is not here, as text; kernels in their own language."""
    kind = {"cuda": ("NVIDIA H100 80GB HBM3", 132, "gpu"), "tpu": ("TPU v5 lite", 1, "tpu")}[platform]
    auto = (jax.sharding.AxisType.Auto,)
    absent = jax.sharding.AbstractMesh(
        (1,), ("X",), axis_types=auto, abstract_device=jax.sharding.AbstractDevice(*kind)
    )
    with jax.sharding.use_abstract_mesh(absent):
        return jax.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()


def arrays(f, *args):
    """(shape) of every array that a program makes, inside loops and kernels too; its arguments are not listed."""
    return list(_made(jax.make_jaxpr(f)(*args)))


def inside(eqn):
    """The same of what one equation holds: a kernel's blocks."""
    for p in eqn.params.values():
        for inner in p if isinstance(p, (tuple, list)) else [p]:
            if hasattr(open_jaxpr(inner), "eqns"):
                yield from _made(inner)


def _made(jaxpr):
    for eqn in open_jaxpr(jaxpr).eqns:
        yield from (tuple(v.aval.shape) for v in eqn.outvars if hasattr(v.aval, "shape"))
        yield from inside(eqn)
