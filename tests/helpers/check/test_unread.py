"""What is said of a wrong result that does not depend on what it should, or that something was added to."""

import jax.numpy as jnp
import pytest
from jax import lax

from helpers import check


def two_products(W, In, out=lambda partial: lax.psum_scatter(partial, "X", scatter_dimension=1, tiled=True)):
    return out(lax.all_gather(In, "X", axis=1, tiled=True) @ W[0] @ W[1].T)


def own_rows(W, In):
    """The product of what the device has of In alone, with the rows that belong to it."""
    mine = lax.dynamic_slice_in_dim(W, lax.axis_index("X") * In.shape[1], In.shape[1], axis=1)
    return lax.psum_scatter(In @ mine[0] @ W[1].T, "X", scatter_dimension=1, tiled=True)


@pytest.mark.parametrize(("f", "says"), [
    (lambda W, In: two_products(jnp.stack([W[0], W[0]]), In), "There S does not depend on W at M = 1, and should."),
    (lambda W, In: two_products(W, In.at[2].set(In[0])), "There S does not depend on In at B = 2, and should."),
    (lambda W, In: two_products(W, In.at[0].add(In[3])), "There S at B = 0 depends on In at B = 3, and should not."),
    (own_rows, "There S of the device at X = 0 does not depend on W of the device at X = 0 at D = 4, and should."),
    (lambda W, In: two_products(W, In) ** 2, "It is not linear in In, and should be."),
    (lambda W, In: In + two_products(W, In), "the result is right, with In added to it."),
    (lambda W, In: (3 * In + two_products(W, In)) / 4, "what is added to In is 4 times too small: is something divided"),
    (lambda W, In: 3 * (two_products(W, In) - In), "what should be added to In, times 3, and In is not in it."),
    (lambda W, In: two_products(W, In).astype("bfloat16").astype("float32"), "every number is right to two digits"),
])  # fmt: skip
def test_what_a_result_does_not_depend_on_and_should_is_said(f, says):
    given = ["W[M, D, F_X]", "In[B, D_X]"], "S[B, D_X]"
    a = check.Program(f, 1, {"X": 4}, *given, sizes=dict(M=2, B=4, D=8, F=12), dtype="f32")
    a.equals(lambda W, In: In @ W[0] @ W[1].T, n=1, M=2, B=4, D=8, F=12)
    earned, (said,) = a.evaluate()
    assert earned == 0 and says in said


@pytest.mark.parametrize(
    "n, says",
    [(4, "4 times too large: was something summed that was already whole, or is a number"), (2, "4 times what")],
)
def test_a_factor_of_as_many_as_there_are_devices_may_be_that_of_a_number_not_used(n, says):
    a = check.Program(
        lambda W, lr: W - W**2 / 2, 1, {"X": n}, ["W[M_X]"], "W[M_X]", sizes=dict(M=8), dtype="f32", static=(0.125,)
    )
    a.equals(lambda W: W - 0.125 * W**2, n=1, M=8)
    assert f"what is added to W is {says}" in a.evaluate()[1][0]
