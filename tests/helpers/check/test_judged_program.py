"""What is counted is what is run."""

import jax
import jax.numpy as jnp
import numpy as np

from helpers import check
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


def test_what_is_counted_is_the_program_that_ran():
    """Counted again, the learner's function is not called: the trace is."""
    asked = []

    def noted(x, w):
        asked.append(1)
        return {"y": x @ w, "more": x.sum()}

    program = check.ran(noted, LARGE, lambda x, w: {"y": right(x, w)})
    assert program.matmul_flops == 2 * 50 * 8 * 50 and program.largest == 2500 and (50, 50) in program.shapes
    assert len(asked) == 1


def test_some_results_may_be_anything():
    assert check.ran(lambda x: (x, 2 * x), [LARGE[0]], lambda x: (x, ...)).largest == 400


def test_whole_numbers_of_numpy_are_jaxs():
    """JAX 0.12 warns of an int64 that it does not have, and what a check prints on stderr costs its points."""
    program = check.ran(lambda at, x: x[at], [np.array([2, 0]), LARGE[0]], lambda at, x: x[at])
    assert program.matmul_flops == 0 and [a.dtype.name for a in program.like] == ["int32", "float32"]


def on_the_host(x, w):
    there = jax.ShapeDtypeStruct((len(x), w.shape[1]), "float32")
    return 0 * (x @ w) + jax.pure_callback(lambda x, w: np.asarray(x) @ np.asarray(w), there, x, w)


def endless(x, w):
    return jax.lax.while_loop(
        lambda s: s[1] < 1 + 0 * x[0, 0], lambda s: (x @ w, s[1] + 1), (jnp.zeros((len(x), w.shape[1])), 0)
    )[0]


def test_what_cannot_be_counted_is_refused(capsys):
    assert "do without callbacks" in told(capsys, judged(on_the_host))[1]
    assert "how often it runs" in told(capsys, judged(endless))[1]


def test_what_is_made_outside_of_products():
    assert check.ran(honest, LARGE, right).beside == 0
    assert check.ran(lambda x, w: (x[:, :, None] * w).sum(1), LARGE, right).beside >= 50 * 8 * 50
