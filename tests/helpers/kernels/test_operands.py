"""What kernels refuse: each in one sentence, by `operands`; and nothing that is right."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.training.pipeline_schedules import one_f_one_b
from helpers.kernels import mesh as meshes, operands
from helpers.kernels.attention import (
    dense_attention,
    flash_attention,
    linear_attention,
    pallas_flash_attention_gpu,
    pallas_flash_attention_tpu,
    ring_attention,
    softmax,
    tree_attention,
)
from helpers.kernels.attention.masks import CAUSAL, FULL, Mask, plan
from helpers.kernels.inference import paged_kv_cache, speculative_decoding
from helpers.kernels.sharding import collectives
from helpers.kernels.training import mlp_training_step, pipeline_parallel
from helpers.kernels.training.data_parallel_and_fsdp import DATA, FSDP
from helpers.kernels.transformers import quantisation
from helpers.kernels.transformers.adam import Adam
from tests.helpers.kernels.attention import reference

B, T, N, K, H = 2, 4, 4, 2, 4
q, k, v, _ = reference.draw(B, T, T, N, K, H)
LINE = lambda: meshes.mesh((2,), ("X",))  # noqa: E731


def tree(q, k, v, lengths=None):
    return tree_attention.program(LINE(), "X")(q[:, 0], k, v, lengths)


def over(f):
    return lambda q, k, v, lengths=None: f(q, k, v, CAUSAL, lengths)


def ragged(q, k, v, lengths=None):
    return paged_kv_cache.attend(q[:, 0], k, v, [T] * B if lengths is None else lengths, 2)[0]


WITH_LENGTHS = {
    "flash": over(flash_attention.flash),
    "chunked": over(dense_attention.efficient),
    "Pallas, TPU": over(pallas_flash_attention_tpu.flash),
    "Pallas, GPU": over(pallas_flash_attention_gpu.flash),
    "tree": tree,
    "ragged": ragged,
}
FORMS = WITH_LENGTHS | {
    "ring": lambda q, k, v: ring_attention.program(LINE(), "X")(q, k, v),
    "dense": dense_attention.attention,
    "eight bits": lambda q, k, v: flash_attention.eight_bit(q, k, v, 2),
    "flash, the first": flash_attention.first,
    "one key after the other": dense_attention.plain,
    "linear, in chunks": lambda q, k, v: linear_attention.chunked(q, k, v, jax.nn.elu)[0],
    "linear, one by one": lambda q, k, v: linear_attention.recurrent(q, k, v, jax.nn.elu)[0],
}


def each(forms):
    return pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in forms.items()])


def says(sentence, f, *args, **how):
    """`f(*args)` is refused with that, in one line."""
    with pytest.raises(ValueError, match=sentence) as told:
        f(*args, **how)
    assert "\n" not in str(told.value) and len(str(told.value)) < 250


@each(FORMS)
def test_integers_are_refused_and_never_cut(f):
    whole = [jnp.round(4 * x).astype(jnp.int32) for x in (q, k, v)]
    says("holds int32, which would cut the result to whole numbers: give it as float32 or bfloat16", f, *whole)


@each(FORMS)
def test_heads_that_do_not_group_are_refused(f):
    says("3 KV heads do not divide 4 query heads: make N a multiple of K", f, q, *(jnp.zeros((B, T, 3, H)),) * 2)


@each(WITH_LENGTHS)
def test_lengths_are_whole_numbers_one_for_each_row(f):
    says("one for each of 2 rows: make them", f, q, k, v, [3])
    says("one for each of 2 rows: make them", f, q, k, v, 3)
    says("one for each of 2 rows, not", f, q, k, v, [2.5, 1.0])


@each(WITH_LENGTHS)
@pytest.mark.sample(quick=2, slow=3)
def test_a_list_of_lengths_is_as_good_as_an_array(f):
    both = jax.jit(lambda *x: [f(*x, rows) for rows in ([3, 0], np.array([3, 0]))])(q, k, v)
    jax.tree.map(np.testing.assert_array_equal, *both)


@each({n: f for n, f in WITH_LENGTHS.items() if n != "tree"})  # a program: it sees no values
def test_lengths_beyond_the_keys_are_refused(f):
    says(r"a row has 0 to 4 of 4 places, so lengths cannot be \[4 5\]", f, q, k, v, [4, 5])
    says("a row has 0 to 4 of 4 places", f, q, k, v, [-1, 4])


@pytest.mark.slow("compiles five kernels and their gradients")
def test_values_may_be_wider_than_keys():
    """Where a head's values have more numbers than its keys, or fewer: the result has as many."""
    wide = jax.device_put(np.random.default_rng(3).standard_normal((B, T, K, 6)).astype("float32"))
    want = jnp.concatenate([dense_attention.attention(q, k, wide[..., a : a + 3], CAUSAL) for a in (0, 3)], -1)

    def check(f, x, want):
        out, pull = jax.jit(lambda *x: jax.vjp(f, *x)[0])(q, k, x), jax.jit(lambda *x: jax.vjp(f, *x)[1](want))
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)
        plain = jax.vjp(lambda *x: dense_attention.attention(*x, CAUSAL), q, k, x)[1](want)
        for a, b in zip(pull(q, k, x), plain):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)

    for f in (
        flash_attention.flash,
        partial(pallas_flash_attention_tpu.flash, rows=2, columns=2),
        pallas_flash_attention_gpu.flash,
    ):
        check(lambda *x, f=f: f(*x, CAUSAL), wide, want)
    check(lambda *x: pallas_flash_attention_tpu.flash(*x, CAUSAL), wide[..., :3], want[..., :3])
    got, _ = paged_kv_cache.attend(q[:, -1], k, wide, [T] * B, 2)
    np.testing.assert_allclose(got, want[:, -1], rtol=1e-5, atol=1e-5)
    says(r"v\[B, T, K, H\] has the shape \[2, 4, 2, 6\], and H is 4", FORMS["ring"], q, k, wide)


def test_a_target_of_another_shape_is_refused():
    """It would be broadcast, and trained on."""
    mesh, adam = LINE(), Adam()
    w = mlp_training_step.Weights(jnp.ones((1, 4, 8)), jnp.ones((1, 8, 4)))
    for s in (DATA, FSDP):
        w_, moments = mlp_training_step.start(s, mesh, w)
        run = mlp_training_step.step(s, mesh, adam)
        for shape in ((2, 1), (1, 4), (4,), (2, 2, 4), (4, 4)):
            says(r"Target\[B, D\] has", run, w_, moments, jnp.ones((2, 4)), jnp.ones(shape))
        assert np.isfinite(run(w_, moments, jnp.ones((2, 4)), jnp.ones((2, 4)))[-1])
        whole = jax.tree.map(lambda a: a.astype(jnp.int32), w_)
        says("W_in holds int32", run, whole, moments, jnp.ones((2, 4)), jnp.ones((2, 4)))


def test_targets_of_other_microbatches_are_refused():
    """The last one would be taken for those that are not there."""
    orders, mesh = one_f_one_b(2, 2), meshes.mesh((2,), ("Z",))
    run = pipeline_parallel.gradients(pipeline_parallel.two_matmul(8), orders, mesh)
    w, xs = mlp_training_step.Weights(jnp.ones((2, 4, 8)), jnp.ones((2, 8, 4))), jnp.ones((2, 3, 4))
    for shape in ((1, 3, 4), (3, 3, 4)):
        says("2 microbatches, not 2 of xs and", run, w, (), xs, jnp.ones(shape))
    for shape in ((2, 3, 1), (2, 1, 4)):
        says("results of the shape", run, w, (), xs, jnp.ones(shape))


def test_gradients_of_another_shape_are_refused():
    """They would be broadcast, and the parameters grow."""
    adam, w = Adam(), jnp.zeros(3)
    says(
        r"parameters of the shape \[3\] have gradients of the same shape, not \[2, 3\]",
        adam.update,
        w,
        jnp.ones((2, 3)),
        adam.start(w),
    )
    says(r"not \[1\]", adam.update, w, jnp.ones(1), adam.start(w))


def test_a_draft_of_another_length_is_refused():
    key, even = jax.random.key(0), jnp.full((3, 4), 0.25)
    says(r"p\[γ\+1, V\] has the shape \[2, 4\], and γ is 2: make it \[3, 4\]",
         speculative_decoding.accept, key, jnp.array([0, 1]), even[:2], even[:2])  # fmt: skip
    says(
        r"p\[γ\+1, V\] has the shape \[3, 4\], and V is 1",
        speculative_decoding.accept,
        key,
        jnp.array([0, 1]),
        even[:2, :1],
        even,
    )


def test_rows_that_devices_do_not_divide_are_refused():
    """Seven rows over two devices."""
    mesh, rows = LINE(), np.ones((7, 4), np.float32)
    says(
        "X is 2 and does not divide I = 7; the nearest that it divides are 6 and 8", meshes.put, rows, mesh, "A[I_X, J]"
    )
    run = partial(meshes.sharded, mesh=mesh, in_specs=[jax.P()], out_specs=jax.P("X"))
    says("2 devices do not divide 7", run(lambda x: collectives.reduce_scatter(x, "X")), rows)
    says("2 devices do not divide 7", run(lambda x: collectives.all_to_all(x, "X", 0, 1)), rows)


@pytest.mark.parametrize("window", [2.5, True, "3"])
def test_windows_and_blocks_are_whole_numbers(window):
    says("window is a whole number, [01] or more, not", Mask, True, window)
    says("sinks is a whole number, [01] or more, not", Mask, True, 3, window)
    says("rows is a whole number, [01] or more, not", plan, 4, 4, window, 2)
    says("window is a whole number, [01] or more, not", ring_attention.ring, q, k, v, "X", window=window)
    for f in (flash_attention.flash, pallas_flash_attention_tpu.flash, dense_attention.efficient):
        says("columns is a whole number, [01] or more, not", f, q, k, v, FULL, columns=window)
    assert Mask(True, np.int64(3)).array(4, 4).sum() == 9


def test_one_softmax_of_integers():
    for f in (
        softmax.online,
        softmax.reduced,
        softmax.folded,
        lambda x: softmax.top_k(x, 2),
        pallas_flash_attention_tpu.softmax,
    ):
        says("x holds int32", f, jnp.arange(6).reshape(2, 3))
    np.testing.assert_allclose(softmax.safe(jnp.arange(3)).sum(), 1, rtol=1e-6)  # has no type to keep


def test_weights_of_eight_bits_meet_numbers_with_fractions():
    w = quantisation.quantise(jnp.eye(3), 0)
    says("x holds int32", quantisation.matmul, jnp.arange(3), w)
    says("w holds int32", quantisation.quantise, jnp.eye(3, dtype=jnp.int32), 0)


def test_what_is_traced_is_known_by_its_shape():
    n = jax.jit(lambda n: operands.lengths(n, 2, 5))(jnp.array([3, 9]))  # values are not known while it is traced
    assert n.tolist() == [3, 9]
    says("make them", jax.jit(lambda n: operands.lengths(n, 2, 5)), jnp.array([3]))
    assert operands.fit({"x[A, B]": np.zeros((2, 3)), "y[B]": None, "z[B+1]": np.zeros(4)}) == {"A": 2, "B": 3}
    assert operands.blank(jnp.ones(3), None).tolist() == [1, 1, 1]
