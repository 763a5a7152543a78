"""How many permutes a product waits for: along data, whatever the order of lines."""

import jax
import jax.export
import pytest

from helpers.kernels import mesh as meshes
from helpers.trace.stablehlo.collectives import permutes_before_products

NEXT = [(i, (i + 1) % 4) for i in range(4)]


def waits(f) -> list[int]:
    mesh, P = meshes.mesh((4,), ("X",)), jax.P
    program = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P("X"), out_specs=P("X"), check_vma=False))
    return permutes_before_products(jax.export.export(program)(jax.ShapeDtypeStruct((16, 4), "float32")))


def blocks(a):
    out = [a]
    for _ in range(3):
        out.append(jax.lax.ppermute(out[-1], "X", NEXT))
    return out


def in_a_loop(a):
    return jax.lax.fori_loop(0, 4, lambda _, s: (s[0] + s[1] @ s[1], jax.lax.ppermute(s[1], "X", NEXT)), (0 * a, a))[0]


@pytest.mark.parametrize(
    ("f", "wanted"),
    [
        (lambda a: sum(b @ b for b in blocks(a)), [0, 1, 2, 3]),
        (lambda a: sum(b @ b for b in jax.lax.optimization_barrier(blocks(a))), [3, 3, 3, 3]),
        (in_a_loop, [0, 1, 2, 3]),
        (lambda a: jax.lax.cond(a[0, 0] > 0, lambda b: b @ b, lambda b: b, blocks(a)[1]), [1]),
    ],
    ids=["each as it comes", "all wait for the last", "a loop", "a branch"],
)
def test_waits(f, wanted):
    assert sorted(waits(f)) == wanted
