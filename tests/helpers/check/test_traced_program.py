"""Programs that are not what they seem: counted as one thing and run as another, or sent past the mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from helpers.check.sharded_program import Program
from helpers.trace.jaxpr.collectives import device_program
from tests.helpers.check.programs import told


def gather_of(block, **k):
    """A[I_X, J] to A[I, J] on X = 4, by permutes from neighbour to neighbour."""
    a = Program(block, 1, {"X": 4}, ["A[I_X, J]"], "A[I, J]", sizes=dict(I=960, J=640), dtype="f32", **k)
    a.only("ppermute")
    a.sends(Permute=3)
    a.to_neighbours()
    a.equals(lambda A: A, n=1, I=8, J=4)
    return a


def ring(x, way=1):
    me, out = lax.axis_index("X"), [x]
    for _ in range(3):
        out.append(lax.ppermute(out[-1], "X", [(i, (i + way) % 4) for i in range(4)]))
    return jnp.concatenate(list(jnp.stack(out)[(way * (me - jnp.arange(4))) % 4]))


def straight(x):
    """Every block in one long permute."""
    me = lax.axis_index("X")
    out = [x] + [lax.ppermute(x, "X", [(i, (i + k) % 4) for i in range(4)]) for k in range(1, 4)]
    return jnp.concatenate(list(jnp.stack(out)[(me - jnp.arange(4)) % 4]))


@pytest.mark.parametrize("way", [-1, 1])
@pytest.mark.sample(quick=1)
def test_a_ring_turns_either_way(way):
    assert told(gather_of(lambda x: ring(x, way=way))) == (1, "")


def test_a_permute_that_jumps_is_named():
    assert told(gather_of(straight)) == (0, "a link leads to a neighbour, and one of your permutes goes 2 places on.")


def test_hops_go_round_rings_and_add_up_over_axes():
    def far(pairs, axes=("X", "Y")):
        on = jax.sharding.AbstractMesh((4, 2), ("X", "Y"))
        f = jax.shard_map(
            lambda x: lax.ppermute(x, axes, pairs), mesh=on, in_specs=jax.P(), out_specs=jax.P(), check_vma=False
        )
        return device_program(jax.make_jaxpr(f)(jax.ShapeDtypeStruct((4,), "float32"))).far

    assert far([(0, 2), (2, 4), (6, 0)]) == 1  # X by one, also over the border
    assert far([(0, 3)]) == 2  # one along each axis
    assert far([(0, 2)], "X") == 2 and far([(0, 3)], "X") == 1


def test_small_blocks_are_sent_as_large_ones_are():
    def two_faced(x):
        return lax.all_gather(x, "X", tiled=True) if x.size < 1000 else ring(x)

    earned, says = told(gather_of(two_faced))
    assert earned == 0
    assert says == (
        "what is sent must not depend on the sizes: for large blocks it is {'Permute': 3}, for small ones {'AllGather': 1}; "
        "does an if look at a size, or does something count the calls?"
    )


def test_what_is_run_is_what_was_read():
    """A program that is a gather at one of its tracings is caught at whichever that is."""
    traced = []

    def fickle(x, turn=0):
        traced.append(x.size)
        return lax.all_gather(x, "X", tiled=True) if len(traced) == turn else ring(x)

    assert told(gather_of(fickle)) == (1, "")
    read, run = traced
    assert read > run
    for turn in (1, 2):
        traced.clear()
        assert told(gather_of(lambda x, turn=turn: fickle(x, turn)))[0] == 0


def test_devices_do_not_meet_on_the_host():
    store = {}

    def by_host(x):
        def meet(me, x):
            store[int(me)] = np.asarray(x)
            return np.concatenate([store.get(i, x) for i in range(4)])

        out = jax.ShapeDtypeStruct((4 * x.shape[0], *x.shape[1:]), x.dtype)
        return ring(x) * 0 + jax.pure_callback(meet, out, lax.axis_index("X"), x)

    assert told(gather_of(by_host)) == (
        0,
        "devices send by collectives, so do without callbacks: the host is no part of the mesh.",
    )
    assert not store

    def printed(x):
        jax.debug.print("{}", x[0, 0])
        return ring(x)

    assert told(gather_of(printed)) == (1, "")


def test_a_small_program_with_a_cond_is_not_run():
    def chooses(x):
        if x.size > 1000:
            return ring(x)
        return lax.cond(lax.axis_index("X") == 0, lambda: ring(x), lambda: ring(x) + 0)

    assert "inside lax.cond or switch" in told(gather_of(chooses))[1]


def test_wide_sums_are_named():
    a = Program(
        lambda A, B: lax.psum(jnp.dot(A, B, preferred_element_type=jnp.float32), "X"),
        1, {"X": 4}, ["A[I, J_X]", "B[J_X, K]"], "C[I, K]", sizes=dict(I=64, J=64, K=64),
    )  # fmt: skip
    a.sends_bytes(2 * 3 / 4 * 2 * 64 * 64)
    assert told(a)[1].endswith(" Some of it travels as f32, and the arguments are bf16.")


def test_shardings_that_cannot_be_read_are_not_the_programs_fault():
    layout = ("A[I_X, J]",)
    a = Program(ring, 1, {"X": 4}, lambda: [layout["A"]], "A[I, J]", sizes=dict(I=64, J=64))
    assert told(a) == (0, "the shardings of ring cannot be read: tuple indices must be integers or slices, not str.")


def product_of(block, **k):
    """A[I, J_X] times B[J, K_X] on X = 4, no array larger than two blocks of A."""
    a = Program(
        block, 1, {"X": 4}, ["A[I, J_X]", "B[J, K_X]"], "C[I, K_X]", sizes=dict(I=4096, J=8000, K=800), dtype="f32", **k
    )
    a.sends(Permute=3)
    a.fits(4 * (4096 * 2000 + 8000 * 200 + 2 * 4096 * 2000))
    a.equals(lambda A, B: A @ B, n=1, I=24, J=120, K=40)
    return a


UP = [(i, (i + 1) % 4) for i in range(4)]


def overlapped(A, B):
    me, width, C = lax.axis_index("X"), A.shape[1], 0
    for hop in range(4):
        C += A @ lax.dynamic_slice_in_dim(B, (me - hop) % 4 * width, width)
        A = lax.ppermute(A, "X", UP) if hop < 3 else A
    return C


def gathered(A, B):
    """All of A is held at once."""
    me, width, whole = lax.axis_index("X"), A.shape[1], jnp.zeros((A.shape[0], 4 * A.shape[1]), A.dtype)
    for hop in range(4):
        whole = lax.dynamic_update_slice_in_dim(whole, A, (me - hop) % 4 * width, 1)
        A = lax.ppermute(A, "X", UP) if hop < 3 else A
    return whole @ B


def number(A, B):
    """One number goes round, and nothing is computed."""
    x = A[:1, :1]
    for _ in range(3):
        x = lax.ppermute(x, "X", UP)
    return jnp.zeros((A.shape[0], B.shape[1]), A.dtype) + 0 * x


def idle(A, B):
    """Blocks go round, and nothing is computed."""
    for _ in range(3):
        A = lax.ppermute(A, "X", UP)
    return jnp.zeros((A.shape[0], B.shape[1]), A.dtype) + 0 * A[:1, :1]


def straight_product(A, B):
    """The right product, with permutes that jump."""
    me, width, C, first = lax.axis_index("X"), A.shape[1], 0, A
    for hop in range(4):
        C += A @ lax.dynamic_slice_in_dim(B, (me - hop) % 4 * width, width)
        A = lax.ppermute(first, "X", [(i, (i + hop + 1) % 4) for i in range(4)]) if hop < 3 else A
    return C


def in_f16(A, B):
    return overlapped(A.astype(jnp.float16), B.astype(jnp.float16)).astype(A.dtype)


@pytest.mark.parametrize("large, small, says", [
    (number, gathered, "for large ones it is Permute_X f32[1, 1] -> [1, 1], for small ones Permute_X f32[24, 30] -> [24, 30]."),
    (in_f16, overlapped, "for large ones it is Permute_X f16[4096, 2000] -> "),
    (overlapped, gathered, "what a device holds must shrink as the blocks do: for large ones "),
    (idle, gathered, "what a device holds must shrink as the blocks do: for large ones "),
    (overlapped, straight_product, "no permute goes farther than 1, for small ones 2;"),
    (lambda A, B: overlapped(A[:24, :30], B[:120, :10])[:1, :1] + jnp.zeros((4096, 200)), overlapped, "f32[24, 30] -> [24, 30]"),
])  # fmt: skip
@pytest.mark.sample(quick=3)
def test_what_is_counted_is_what_is_run(large, small, says):
    """An answer that looks at its sizes is one program where it is counted and another one where it is run."""
    assert says in told(product_of(lambda A, B: (large if A.shape[0] > 100 else small)(A, B)))[1]
    assert told(product_of(overlapped)) == (1, "")


def test_a_gather_is_not_hidden_in_a_branch():
    """The largest array counts, in whichever branch of a cond it is made."""

    def chooses(A, B):
        C = overlapped(A, B)
        return lax.cond(C[0, 0] > 1e30, lambda: C, lambda: jnp.tile(A, (1, 4)) @ B)

    assert " per device, the limit is " in told(product_of(chooses))[1]
