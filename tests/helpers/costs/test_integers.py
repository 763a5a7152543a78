"""Whole numbers give a formula's exact value where `test_formulas.py` cannot show it: large ones, in records and methods."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.attention.flops_and_bytes import Attention, flash
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines import roofline
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.roofline import Work
from helpers.costs.sharding.collectives import all_reduce
from helpers.costs.sharding.matmul_plans import cheapest
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.training.dp_fsdp_tp import best_split
from helpers.costs.training.layout import divisors
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.einsum import einsum
from helpers.costs.transformers.kv_cache import kv_cache
from helpers.costs.transformers.parameters_and_flops import flops, works
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.six_nd_and_mfu import mfu, six_nd_ratio
from helpers.costs.transformers.training_memory_bytes import training_memory
from tests.helpers.costs.tables import walks

V5E, LLAMA = chip("v5e"), model("llama-3-70b")

# Models' own sizes beside arrays, numbers larger than 32 bits, records, methods.
LARGE = {
    "cache": (lambda S: kv_cache(LLAMA, S), [8192, 131072]),
    "on a chip": (lambda B: roofline.on_chip(roofline.matmul(B, 8192, 32768), V5E).lower, [1, 256, 4096]),
    "utilisation": (lambda t: mfu(405_853_388_800, t, 54 * 86400, 16384 * 9.89e14), [15 * 10**6, 2 * 10**9]),
    "rates": (lambda W: roofline.time(roofline.matmul(8192, 8192, 8192), 10**14, W).upper, [10**9, 2 * 10**9]),
    "sum": (lambda n: (Work(10**12) + roofline.matmul(n, 8192, 8192)).flops, [8192, 131072]),
    "multiple": (lambda n: (Work(10**12) * n).flops, [3, 70000]),
    "training": (lambda T: flops(LLAMA, 4, T).train, [8192, 131072]),
    "ratio": (lambda T: six_nd_ratio(LLAMA, T), [1024, 131072]),
    "memory": (lambda T: training_memory(LLAMA, 4, T).total, [1024, 131072]),
    "flash": (lambda T: flash(Attention(T, N=32, K=8), 128).flops, [8192, 131072]),
    "visited": (lambda T: Attention(T).visited(128), [8192, 131072]),
    "decode": (lambda B: Replica(LLAMA, V5E, 16, weights="int8").decode(B, 8192).seconds, [1, 64]),
    "config": (lambda D: flops(Config(D, 80, 64, 8, 128, 28672, 128256), 4, 8192).forward, [4096, 8192]),
    "einsum": (lambda n: einsum("np,pm->nm", (n, 8192), (8192, 8192)).flops, [8192, 131072]),
    "collective": (lambda V: all_reduce(V, Axis(8)).bytes, [2**20, 2**31 - 1]),
}


@walks([(np.int32, 1e-12), (np.int64, 1e-12), (jnp.int32, 1e-5)])
def test_products_larger_than_32_bits(array, rtol):
    for name, (f, sizes) in LARGE.items():
        np.testing.assert_allclose(f(array(sizes)), [f(n) for n in sizes], rtol=rtol, err_msg=name)


def test_traced_integers():
    f, sizes = LARGE["cache"]
    np.testing.assert_allclose(jax.jit(f)(jnp.array(sizes)), [f(n) for n in sizes], rtol=1e-6)


@walks([np.int8, np.int32, np.int64, np.uint16])
def test_whole_numbers_of_numpy_are_those_of_python(integer):
    """Also in tuples and by name, and a test of their values is none of an array's."""
    n = integer(4)
    assert Mesh({"X": n, "Y": n}) == Mesh({"X": 4, "Y": 4}) and Axis(n) == Axis(4)
    assert divisors(integer(100)) == divisors(100)
    assert best_split(2**20, 2**15, integer(64)) == best_split(2**20, 2**15, 64)
    assert roofline.matmul(integer(100), integer(100), F=integer(100)) == roofline.matmul(100, 100, 100)
    with pytest.raises(ValueError, match="'p' is 5 in one array and 6 in the other"):
        einsum("np,pm->nm", (integer(3), integer(5)), (integer(6), integer(7)))
    arrays, mesh = ("A[I, J_X]", "B[J, K]", "C[I, K]"), Mesh({"X": 4})
    assert len({str(cheapest(*arrays, dict(I=k, J=k, K=k), mesh, V5E)) for k in (16, integer(16))}) == 1


def test_floats_of_few_bits_do_not_overflow_either():
    assert kv_cache(LLAMA, np.array([8192], np.float16)) == kv_cache(LLAMA, 8192)
    assert float(kv_cache(LLAMA, jnp.array([8192], jnp.bfloat16))[0]) == kv_cache(LLAMA, 8192)


@pytest.mark.sample(quick=2)
@pytest.mark.parametrize(
    "name", ["llama-3-8b", "gemma-3-27b", "kimi-k2", "mixtral-8x7b", "gpt-oss-20b", "llama-3.1-405b"]
)
def test_sums_made_inside_a_formula_fit_beside_jax_arrays(name):
    """A batch as an array, also traced: what NumPy gives, where single terms of a model have more than 32 bits."""
    c, at = model(name), np.array([4, 64])
    r = Replica(c, chip("H200"), 8)
    for f in (
        lambda B: flops(c, B, 8192).train,
        lambda B: works(c, B, 1, 8192, 4, 4)["projections"].bytes,
        lambda B: r.decode(B, 8192).seconds,
        lambda B: r.mixed(B, 8192, 256, 0).seconds,
        lambda B: r.mixed(4, 8192, B, 0).seconds,
        lambda B: r.prefill(8192, B).seconds,
    ):
        want = [float(f(int(B))) for B in at]
        np.testing.assert_allclose(f(at), want, rtol=1e-12)
        np.testing.assert_allclose(f(jnp.array(at)), want, rtol=1e-5)
        np.testing.assert_allclose(jax.jit(f)(at.astype(np.float32)), want, rtol=1e-5)
