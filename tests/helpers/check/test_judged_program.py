"""What is counted is what is run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import check
from helpers.check import judged_program, sharded_program
from helpers.check.raised import Unclear
from tests.helpers.check.told import told

RNG = np.random.default_rng(0)
SMALL, LARGE = ((np.float32(RNG.standard_normal((n, 8))), np.float32(RNG.standard_normal((8, n)))) for n in (4, 50))


def right(x, w):
    return np.asarray(x, float) @ np.asarray(w, float)


def honest(x, w):
    return x @ w


def dummy(x, w):
    """Right where it is looked at, empty where it is counted."""
    return x @ w if len(x) < 20 else jnp.zeros((len(x), len(x)), x.dtype)


def judged(f):
    a = check.Answer(f, points=3)
    a.law("the product", lambda f: np.allclose(f(*SMALL), right(*SMALL), rtol=1e-3))
    a.law("few FLOPs", lambda f: check.ran(f, LARGE, right).matmul_flops <= 2 * 50 * 8 * 50)
    return a


def test_a_program_is_run_before_it_is_counted(capsys):
    assert told(capsys, judged(honest))[0] == 3
    earned, said = told(capsys, judged(dummy))
    assert (
        earned == 0
        and "for arrays of the shapes [50, 8], [8, 50] the program that is counted gives a wrong result: " in said
    )


def test_of_several_programs_that_run_together_each_is_counted_and_a_wrong_one_is_named():
    few, many = check.all_ran(honest, [SMALL, LARGE], right)
    assert (few.matmul_flops, many.matmul_flops) == (2 * 4 * 8 * 4, 2 * 50 * 8 * 50)
    with pytest.raises(Unclear, match=r"shapes \[50, 8\], \[8, 50\] the program that is counted gives a wrong result"):
        check.all_ran(dummy, [SMALL, LARGE], right)


def test_what_is_counted_is_the_program_that_ran():
    """Counted again, the learner's function is not called: the trace is."""
    asked = []

    def noted(x, w):
        asked.append(1)
        return {"y": x @ w, "more": x.sum()}

    program = check.ran(noted, LARGE, lambda x, w: {"y": right(x, w)})
    assert program.matmul_flops == 2 * 50 * 8 * 50 and program.largest == 2500 and (50, 50) in program.shapes
    assert len(asked) == 1


def test_products_are_counted_with_loops_run_out():
    rows = check.ran(lambda x, w: jax.lax.map(lambda row: row @ w, x), SMALL, right)
    halves = lambda x, w: jnp.concatenate([x[:2] @ w, x[2:] @ w])  # noqa: E731
    either = check.ran(lambda x, w: jax.lax.cond(x[0, 0] > 9, honest, halves, x, w), SMALL, right)
    assert (check.ran(honest, SMALL, right).products, rows.products, either.products) == (1, 4, 2)


def test_some_results_may_be_anything():
    assert check.ran(lambda x: (x, 2 * x), [LARGE[0]], lambda x: (x, ...)).largest == 400


def test_whole_numbers_of_numpy_are_jaxs():
    """JAX 0.12 warns of an int64 that it does not have, and what a check prints on stderr costs its points."""
    program = check.ran(lambda at, x: x[at], [np.array([2, 0]), LARGE[0]], lambda at, x: x[at])
    assert program.matmul_flops == 0 and [a.dtype.name for a in program.like] == ["int32", "float32"]


def on_the_host(x, w):
    return jax.pure_callback(lambda x, w: x @ w, jax.ShapeDtypeStruct((50, 50), "float32"), x, w)


def endless(x, w):
    return jax.lax.while_loop(
        lambda s: s[1] < 1 + 0 * x[0, 0], lambda s: (x @ w, s[1] + 1), (jnp.zeros((len(x), w.shape[1])), 0)
    )[0]


def test_what_cannot_be_counted_is_refused(capsys):
    assert "how often it runs" in told(capsys, judged(endless))[1]


def test_what_is_made_outside_of_products():
    assert check.ran(honest, LARGE, right).beside == 0
    assert check.ran(lambda x, w: (x[:, :, None] * w).sum(1), LARGE, right).beside >= 50 * 8 * 50


def in_a_solver(x, w):
    return jax.lax.custom_linear_solve(lambda y: y, jnp.zeros((50, 50)), lambda _, zero: zero + x @ w)


def beside_too_many(x, w):
    return x @ w + 0 * jax.lax.iota(jnp.float32, 2**31).sum()


REFUSED = [(on_the_host, "without callbacks"), (in_a_solver, "custom_linear_solve"), (beside_too_many, "2,147,483,648")]


@pytest.mark.parametrize(("f", "says"), REFUSED)
def test_nothing_works_where_nobody_looks(f, says):
    with pytest.raises(Unclear, match=says):
        check.ran(f, LARGE, right)


def test_arrays_of_every_branch_are_seen():
    """Of a branch with few FLOPs, too: it may be the one that is taken."""
    few = lambda x: jnp.broadcast_to(x[:1], (999, 8)).sum(0)  # noqa: E731
    many = lambda x: (x.T @ x @ x.T @ x)[0]  # noqa: E731
    program = check.ran(lambda x: jax.lax.cond(x[0, 0] < np.inf, few, many, x), [LARGE[0]], lambda x: 999 * x[0])
    assert (999, 8) in program.shapes and program.largest == 999 * 8


SCORES = (5, 7)


def plain(q, k):
    return (q @ k.T).sum(1)


def scanned(q, k):
    return jax.lax.scan(lambda s, row: (s, jnp.exp(row @ k.T)), 0, q)[1]


def carried(q, k):
    """On the first trip the sum is made of keys alone, later of both."""
    return jax.lax.scan(lambda s, row: (s[::-1] + row[:2].sum() * s, None), k[:2, :2] + 0, q)[0]


def branched(q, k):
    return jax.lax.cond(q[0, 0] > 0, lambda k: k + 1, lambda k: k - 1, k)


def ended_by_queries(q, k):
    return jax.lax.while_loop(lambda s: s.sum() < q.sum(), lambda s: s + 1, k)


def apart(q, k):
    return jnp.exp(q), jax.jit(lambda k: k @ k.T)(k)


@pytest.mark.parametrize(("f", "shapes"), [
    (plain, {(5, 7), (5,)}),
    (scanned, {(7,), (5, 7)}),
    (carried, {(2, 2)}),
    (branched, {(7, 3)}),
    (ended_by_queries, {(7, 3)}),
    (apart, set()),
])  # fmt: skip
def test_which_arrays_are_made_of_both(f, shapes):
    q, k = (np.float32(RNG.standard_normal((n, 3))) for n in SCORES)
    program = check.ran(f, [q, k], lambda *_: ...)
    assert set(program.shapes_of(0, 1)) == shapes
    assert program.largest_of(0, 1) == max((int(np.prod(s)) for s in shapes), default=0)


def in_blocks(q, k):
    """Scores of four keys at a time, added up."""
    return sum((jnp.exp(q @ k[i : i + 4].T) @ k[i : i + 4] for i in range(0, len(k), 4)), 0 * q)


def one_by_one(q, k):
    """A query at a time with all keys."""
    return jax.lax.map(lambda row: jnp.exp(k @ row) @ k, q)


def for_show(q, k):
    """The same, beside scores of four keys that count nothing."""
    return one_by_one(q, k) + 0 * (q @ k[:4].T).sum()


def in_rows(q, k):
    """A query at a time with all keys, in rows of four."""
    K = k.reshape(-1, 4, 3)
    return jax.lax.map(lambda row: jnp.einsum("nc,nch->h", jnp.exp(K @ row), K), q)


@pytest.mark.parametrize(
    ("f", "few", "over"),
    [(in_blocks, True, {3, 4}), (one_by_one, False, {3, 40}), (for_show, False, {3, 40}), (in_rows, True, {3, 40})],
)
def test_arrays_for_show_hide_none(f, few, over):
    """Four keys at a time: few numbers are in arrays without a side of four, and no product adds over more of the keys."""
    q, k = (np.float32(RNG.standard_normal((n, 3)) / 9) for n in (25, 40))
    program = check.ran(f, [q, k], one_by_one)
    assert (program.made_without(0, 1, shape=lambda s: 4 in s) < 2 * 25 * 40) == few
    assert set(program.added_over(1, but=[0])) == over


def in_rows_as_sums(q, k):
    """The same, with every product written as a sum of products."""
    K = k.reshape(-1, 4, 3)
    return jax.lax.map(lambda row: (jnp.exp((K * row).sum(-1))[..., None] * K).sum((0, 1)), q)


def in_blocks_as_sums(q, k):
    """Four keys at a time, each repeated for every query."""
    blocks = ((k[i : i + 4][None], q[:, None]) for i in range(0, len(k), 4))
    return sum(((jnp.exp((K * row).sum(-1))[..., None] * K).sum(1) for K, row in blocks), 0 * q)


def scanned(q, k):
    """Four keys at a time in a loop, which is given all."""
    blocks = k.reshape(-1, 4, 3)
    return jax.lax.scan(lambda o, K: (o + jnp.exp(q @ K.T) @ K, None), 0 * q, blocks)[0]


@pytest.mark.parametrize(
    ("f", "keys"),
    [(in_blocks, 4), (in_blocks_as_sums, 4), (scanned, 4), (one_by_one, 40), (in_rows, 40), (in_rows_as_sums, 40)],
)
def test_how_many_keys_a_query_meets_at_once(f, keys):
    """However the products are written, and whatever the shape of the keys."""
    q, k = (np.float32(RNG.standard_normal((n, 3)) / 9) for n in (25, 40))
    assert check.ran(f, [q, k], one_by_one).met_at_once(1, by=0) == 3 * keys


@pytest.mark.parametrize("C", [4, 8])
@pytest.mark.sample(quick=1)
def test_keys_that_are_stacked_with_values_are_half_of_what_a_query_meets(C):
    """A product of queries and what stands beside them with keys and values takes C of each."""

    def stacked(q, k, v):
        pair, out = jnp.stack([k, v]), 0
        for a in range(0, 40, C):
            scores, others = jnp.einsum("th,xch->xtc", q, pair[:, a : a + C])
            out += jnp.exp(scores) * others @ v[a : a + C]
        return out

    q, k, v = (np.float32(RNG.standard_normal((n, 3)) / 9) for n in (25, 40, 40))
    program = check.ran(stacked, [q, k, v], lambda q, k, v: np.exp(q @ k.T) * (q @ v.T) @ v)
    assert program.met_at_once(1, by=0) == 2 * program.met_at_once(1, by=0, beside=2) == 6 * C


def test_programs_that_run_once_are_compiled_with_the_options_for_that(monkeypatch):
    """XLA refuses an option that it does not know, and so shows that it was given."""
    for module in (judged_program, sharded_program):
        monkeypatch.setattr(module, "once", lambda: {"no_such_option": 1})
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_option"):
        check.ran(honest, SMALL, right)
    a = check.Program(
        honest, 1, {"X": 2}, ["x[B_X, D]", "w[D, F]"], "y[B_X, F]", sizes=dict(B=4, D=8, F=4), dtype="f32"
    )
    a.equals(right, n=1, B=4, D=8, F=4)
    points, said = a.evaluate()
    assert points == 0 and "no_such_option" in said[0]
