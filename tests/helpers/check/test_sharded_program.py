"""What a learner's sharded program is told: by what it sends, what it holds, and its result."""

import jax
import jax.export
import jax.numpy as jnp
import pytest
from jax import lax

from helpers import check
from helpers.check.sharded_program import Program
from tests.helpers.check.programs import SMALL, XY, dense, gather, gather_scatter, limited, mlp, told

NOT_FINITE = (
    "the result holds NaN or infinity: was 0 divided by 0, -inf taken from -inf, or exp taken of a large number?"
)


def one_axis_at_a_time(x, w_in, w_out):
    x = lax.all_gather(lax.all_gather(x, "Y", axis=1, tiled=True), "X", axis=1, tiled=True)
    h = jax.jit(lambda x, w: jnp.maximum(x @ w, 0))(x, w_in)
    y = lax.psum_scatter(h @ w_out, "X", scatter_dimension=1, tiled=True)
    return lax.psum_scatter(y, "Y", scatter_dimension=1, tiled=True)


def reduce_whole(x, w_in, w_out):
    x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
    y = lax.psum(jax.nn.relu(x @ w_in) @ w_out, ("X", "Y"))
    i = 2 * lax.axis_index("X") + lax.axis_index("Y")
    n = y.shape[1] // 8
    return lax.dynamic_slice_in_dim(y, i * n, n, 1)


def gather_weights(x, w_in, w_out):
    w_in = lax.all_gather(w_in, ("X", "Y"), axis=1, tiled=True)
    w_out = lax.all_gather(w_out, ("X", "Y"), axis=0, tiled=True)
    x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
    y = jax.nn.relu(x @ w_in) @ w_out
    n = y.shape[1] // 8
    return lax.dynamic_slice_in_dim(y, (2 * lax.axis_index("X") + lax.axis_index("Y")) * n, n, 1)


def wrong_order(x, w_in, w_out):
    x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
    return lax.psum_scatter(jax.nn.relu(x @ w_in) @ w_out, ("Y", "X"), scatter_dimension=1, tiled=True)


def full(block):
    a = mlp(block)
    a.wrong("who needs all of Out?", AllGather=1, AllReduce=1)
    a.sends(AllGather=1, ReduceScatter=1)
    a.fits(300e6)
    a.equals(dense, **SMALL)
    return told(a)


def test_a_wrong_result_has_the_name_of_the_mistake_that_leads_to_it():
    def halved(*blocks):
        return gather_scatter(*blocks) / 2 + 1

    a = mlp(halved)
    a.wrong("twice too large", lambda *arrays: 2 * dense(*arrays))
    a.wrong("that is half of it, and one more", lambda *arrays: dense(*arrays) / 2 + 1)
    a.equals(dense, **SMALL)
    assert told(a) == (0, "that is half of it, and one more")


def test_arguments_may_be_made_of_what_is_drawn():
    def rooted(x, w_in, w_out):
        return gather_scatter(jnp.sqrt(x) ** 2, w_in, w_out)

    found = []
    for how in ({}, {"prepared": lambda x, *weights: (abs(x), *weights)}):
        a = mlp(rooted)
        a.equals(dense, **SMALL, **how)
        found.append(told(a))
    assert found == [(0, NOT_FINITE), (4, "")]


@pytest.mark.parametrize("block", [gather_scatter, one_axis_at_a_time])
def test_right_programs_pass_however_written(block):
    assert full(block) == (4, "")


@pytest.mark.parametrize("block, says", [
    (reduce_whole, "who needs all of Out? (Your program sends {'AllGather': 1, 'AllReduce': 1}.)"),
    (gather_weights, "expected {'AllGather': 1, 'ReduceScatter': 1}, your program sends {'AllGather': 3}."),
    (wrong_order, "the blocks are right and on the wrong devices: which axis of a subscript is the major one?"),
])  # fmt: skip
def test_wrong_programs_are_told_why(block, says):
    assert full(block) == (0, says)


def test_nothing_is_run_or_allocated_for_large_shapes():
    a = mlp(gather_scatter, sizes=dict(B=2**20, D=2**20, F=2**20))
    a.sends(AllGather=1, ReduceScatter=1)
    assert told(a) == (4, "")
    a.equals(dense)
    assert "fewer than 4,194,304 numbers" in told(a)[1]


# ---- both readings


def test_a_program_that_cannot_be_exported_is_read_from_its_jaxpr(monkeypatch):
    def refuse(program):
        raise RuntimeError("not today")

    monkeypatch.setattr(jax.export, "export", refuse)
    a = mlp(gather_scatter)
    a.sends(AllGather=1, ReduceScatter=1)
    a.fits(300e6)
    assert told(a) == (4, "")


# ---- what is sent


def ring(a):
    n, i = 4, lax.axis_index("X")
    out = jnp.zeros((n * a.shape[0], a.shape[1]), a.dtype)
    for hop in range(n):
        out = lax.dynamic_update_slice(out, a, ((i - hop) % n * a.shape[0], 0))
        a = lax.ppermute(a, "X", [(j, (j + 1) % n) for j in range(n)]) if hop < n - 1 else a
    return out


def in_a_loop(a):
    def hop(k, carry):
        out, a = carry
        a = lax.ppermute(a, "X", [(j, (j + 1) % 4) for j in range(4)])
        return lax.dynamic_update_slice(out, a, ((lax.axis_index("X") - 1 - k) % 4 * a.shape[0], 0)), a

    out = lax.dynamic_update_slice(
        jnp.zeros((4 * a.shape[0], a.shape[1]), a.dtype), a, (lax.axis_index("X") * a.shape[0], 0)
    )
    return lax.fori_loop(0, 3, hop, (out, a))[0]


@pytest.mark.parametrize("block", [ring, in_a_loop])
def test_a_gather_by_ppermute_alone(block):
    a = limited(block)
    a.only("ppermute")
    a.sends(Permute=3)
    a.sends_bytes(max_bytes=3 * 16 * 16 * 2)
    a.equals(lambda A: A, I=8, J=4)
    assert told(a) == (1, "")


def test_what_is_forbidden_is_named():
    a = limited(gather)
    a.only("ppermute")
    assert told(a) == (0, "use ppermute alone: your program sends {'AllGather': 1}.")
    with pytest.raises(ValueError, match="'gather' is no collective"):
        a.only("gather")


def test_the_order_of_what_is_sent_can_be_refused():
    for block, earned in ((gather, 0), (in_a_loop, 1)):
        a = limited(block)
        a.refuses("gathered last", lambda sent: [c.kind for c in sent][-1:] == ["AllGather"])
        assert told(a) == (earned, "" if earned else "gathered last")


def test_bytes_have_a_limit():
    a = limited(gather)
    a.sends_bytes(max_bytes=64 * 16 * 2 * 3 / 4)
    assert told(a) == (1, "")
    a.sends_bytes(max_bytes=1500)
    assert told(a) == (0, "your program sends 1.54 kB from each device, the limit is 1.50 kB.")


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (lambda a: gather(gather(lax.psum_scatter(a, "X", tiled=True))), "AllReduce in two halves"),
        (lambda a: lax.psum_scatter(a, "X", tiled=True).sum() + gather(a), ""),
        (lambda a: gather(gather(1 + lax.psum_scatter(a, "X", tiled=True))), ""),
    ],
    ids=["gathered again", "another is gathered later", "what is made of it"],
)
def test_who_feeds_whom_decides_whether_a_sum_is_gathered_again(f, says):
    a = limited(f)
    a.gathers_no_sum()
    earned, said = told(a)
    assert earned == (not says) and says in said


def test_what_stays_cut_is_made_whole_by_no_collective():
    for block, says in ((gather_scatter, ""), (gather_weights, "no device is to have W and V whole along D and F")):
        a = mlp(block)
        a.keeps_cut("D", "F") if block is gather_scatter else a.keeps_cut("F")
        assert says[:39] in told(a)[1] and told(a)[0] == 4 * (not says)


def test_products_are_counted_with_their_loops():
    def by_rows(x, w_in, w_out):
        x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
        h = lax.map(lambda row: jnp.maximum(row @ w_in, 0), x)
        return lax.psum_scatter(h @ w_out, ("X", "Y"), scatter_dimension=1, tiled=True)

    for block, earned in ((by_rows, 4), (gather_scatter, 4), (gather_weights, 0)):
        a = mlp(block)
        a.multiplies(2 * 2 * 128 * 8192 * 32768 / 8)
        assert told(a) == (
            earned,
            ""
            if earned
            else "the products on each device take 8 times the FLOPs that are asked for: "
            "is more multiplied than is kept, or the same twice?",
        )


def scattered(a, axis):
    return lax.psum_scatter(a, axis, tiled=True)


@pytest.mark.parametrize(("dtype", "sums", "earned"), [("bfloat16", lax.psum, 0), ("float32", scattered, 1)])
def test_numbers_have_a_limit_whatever_their_type(dtype, sums, earned):
    a = limited(lambda a: sums(a.astype(dtype), "X").sum() + jnp.zeros((64, 16), dtype))
    a.sends_numbers(3 / 4 * 16 * 16)
    assert told(a)[0] == earned


def test_what_cannot_be_counted_is_not_passed():
    def f(a):
        a = lax.while_loop(lambda a: a.sum() < 0, lambda a: lax.psum(a, "Y"), a)
        return gather(a)

    a = limited(f)
    a.sends(AllGather=1, AllReduce=1)
    assert "cannot be counted exactly. A while loop" in told(a)[1]


def test_what_may_hang_is_not_run():
    def same(a):
        return lax.cond(lax.axis_index("X") == 0, lambda a: gather(a), lambda a: gather(2 * a), a)

    def other(a):
        return gather(lax.cond(lax.axis_index("X") == 0, lambda a: lax.psum(a, "X"), lambda a: a, a))

    def loop(a):
        return gather(lax.while_loop(lambda a: a.sum() < lax.axis_index("X"), lambda a: lax.psum(a, "X"), a))

    for block, says in ((same, "can wait for ever"), (other, "Branches of a cond"), (loop, "A while loop")):
        a = limited(block)
        a.equals(lambda A: A, I=8, J=4)
        assert says in told(a)[1]


# ---- what is held


def test_bytes_on_a_device():
    a = mlp(gather_scatter)
    a.fits(134e6)
    assert told(a)[1].startswith("137 MB per device, the limit is 134 MB (arguments 134 MB, result 262 kB")
    a = mlp(gather_weights)  # the weights are whole on the way
    a.fits(300e6)
    assert told(a)[1] == (
        "671 MB per device, the limit is 300 MB (arguments 134 MB, result 262 kB, the largest array on the way 537 MB)."
    )


# ---- the result


X = lambda: lax.axis_index("X")  # noqa: E731


def joined(number):
    """A gather whose blocks stand in another order: block number(me, i) at place i."""

    def f(a):
        blocks = lax.all_gather(a, "X")
        return jnp.concatenate([blocks[number(X(), i) % 4] for i in range(4)])

    return f


def own_part(a):
    return jnp.zeros((4, *a.shape), a.dtype).at[X()].set(a).reshape(-1, a.shape[1])


@pytest.mark.parametrize(("f", "says"), [
    (lambda a: lax.psum(gather(a), "Y"), "every number is 2 times too large: was something summed"),
    (lambda a: gather(a) / 8, "every number is 8 times too small: is something divided"),
    (lambda a: -gather(a), "the sign is wrong"),
    (lambda a: 1.5 * gather(a), "every number is 1.5 times what it should be, on a mesh of X = 4, Y = 2"),
    (lambda a: 0 * gather(a), "all that comes out is zeros"),
    (lambda a: gather(a) * jnp.nan, NOT_FINITE),
    (own_part, "a sum over X is missing: what the devices along X hold adds up to what is asked for"),
    (lambda a: own_part(a) / 2, "a sum over X and Y is missing"),
    (lambda a: (X() + 3) * own_part(a), "nothing is sent along X, and each device has its own result"),
    (lambda a: (X() + 3) * gather(a), "devices along X should hold copies of a block, and hold different numbers"),
    (lambda a: jnp.where(X() == 1, 1, 2) * gather(a), "and only those at X = 1, Y = 0; X = 1, Y = 1 hold what"),
    (joined(lambda me, i: 2 * me - i), "its own stands at its place, and the others the other way round the ring"),
    (joined(lambda me, i: me - i), "an order of its own: its own comes first, and not block 0"),
    (joined(lambda me, i: 3 - i), "the right blocks are joined in another order, in reverse order"),
    (joined(lambda me, i: i + 1), "the right blocks are joined in another order, all of them 1 places off"),
    (lambda a: gather(a).T.reshape(4 * a.shape[0], -1), "each device has the right numbers, in another order"),
    (lambda a: gather(a) * (1 + jnp.arange(4 * a.shape[0]))[:, None], "along dimension 1 is off by one factor, and by another"),
    (lambda a: gather(a).at[2].set(0), "zeros stand where numbers belong; on the first of these devices they stand at 2 of 8"),
    (lambda a: jax.nn.gelu(gather(a) + 3) - 3, "numbers are off, each by little"),
])  # fmt: skip
@pytest.mark.sample(quick=7)
def test_wrong_numbers_are_described_without_giving_one(f, says):
    a = limited(f, dtype="f32")
    a.equals(lambda A: A, n=1, I=8, J=4)
    earned, said = told(a)
    assert earned == 0 and says in said


def test_rows_of_one_number_have_no_factor_of_their_own():
    a = limited(lambda a: abs(gather(a)).reshape(-1, 2, a.shape[1])[:, ::-1].reshape(-1, a.shape[1]), dtype="f32")
    a.equals(abs, n=1, I=8, J=1)  # positive, as factors of rows have to be
    assert "in another order" in told(a)[1]


@pytest.mark.parametrize("other", [jax.nn.gelu, jax.nn.silu, jax.nn.leaky_relu, lambda h: 1.02 * jax.nn.relu(h)])
@pytest.mark.sample(quick=1)
def test_narrow_floats_are_whole_numbers_so_that_little_shows(other):
    def near(x, w_in, w_out):
        x = lax.all_gather(x, ("X", "Y"), axis=1, tiled=True)
        return lax.psum_scatter(other(x @ w_in) @ w_out, ("X", "Y"), scatter_dimension=1, tiled=True)

    a = mlp(near)
    a.equals(dense, n=1, **SMALL)
    assert told(a)[0] == 0


def test_results_that_are_no_whole_numbers_have_a_tolerance():
    for by, earned in ((1, 4), (1.03, 0)):
        a = mlp(lambda *blocks, by=by: by * gather_scatter(*blocks) / 3)
        a.equals(lambda *arrays: dense(*arrays) / 3, **SMALL)
        assert told(a)[0] == earned


def test_sizes_are_the_smallest_and_others_whatever_the_seed(monkeypatch):
    shapes = []
    for seed in ("0", "7"):
        monkeypatch.setenv("COURSE_SEED", seed)
        a = mlp(gather_scatter)
        a.equals(lambda *arrays: (shapes.append([x.shape for x in arrays]), dense(*arrays))[1], n=2, **SMALL)
        assert told(a) == (4, "")
    assert shapes.count([(8, 8), (8, 8), (8, 8)]) >= 2 and len(set(map(str, shapes))) == 2


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f16", "int8", "int32"])
@pytest.mark.sample(quick=2)
def test_right_numbers_of_every_type_pass(dtype):
    a = Program(
        lambda a, b: lax.psum_scatter(a @ b, "X", tiled=True), 1, XY, ["A[I, J_X]", "B[J_X, K_Y]"], "C[I_X, K_Y]",
        sizes=dict(I=64, J=64, K=64), dtype=dtype,
    )  # fmt: skip
    a.equals(lambda a, b: a @ b, n=3, I=8, J=check.ints(16, 64, 8), K=8)
    assert told(a) == (1, "")


def test_a_partial_sum_is_compared_as_a_sum():
    a = Program(lambda a, b: a @ b, 1, XY, ["A[I, J_X]", "B[J_X, K]"], "C[I, K] {U_X}", sizes=dict(I=64, J=64, K=64))
    a.sends()
    a.equals(lambda a, b: a @ b, I=8, J=16, K=8)
    assert told(a) == (1, "")
