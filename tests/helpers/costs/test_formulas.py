"""Every formula of helpers.costs: floats, arrays of all types and tracers give the same value, and no number an error of Python's.

Python's integers are exact, so what a formula gives for them is held against what it gives for arrays of integers, each
in the narrowest type that holds the argument: there almost every product of two sizes would overflow.
"""

import inspect
import pkgutil
import subprocess
import sys
from contextlib import nullcontext
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import helpers.costs
from helpers.costs.attention.flops_and_bytes import Attention, flash
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.rooflines import roofline
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.machines import divisors
from helpers.costs.rooflines.roofline import Work
from helpers.costs.sharding.collectives import all_reduce
from helpers.costs.sharding.matmul_plans import cheapest
from helpers.costs.sharding.sharded_array import Axis, Mesh
from helpers.costs.training.dp_fsdp_tp import best_split
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.layer_products import einsum
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, works
from helpers.costs.transformers.public_models import model
from helpers.costs.transformers.shares_and_thresholds import mfu, six_nd_ratio
from helpers.costs.transformers.training_memory_bytes import training_memory
from tests.helpers.costs.formulas import ROOMS
from tests.helpers.costs.tables import walks
from tests.tiers import some

READERS = ".hf_fields", ".hf_layers", ".hf_families"  # of a file, whose types they check themselves: no formulas
NAMES = [m.name for m in pkgutil.walk_packages(helpers.costs.__path__, "helpers.costs.")]
MODULES = [import_module(name) for name in NAMES if not name.endswith(READERS)]


def public(kind, modules=MODULES) -> list:
    """(name, function or class) of every module of formulas."""
    own = ((name, x) for m in modules for name, x in vars(m).items() if kind(x) and x.__module__ == m.__name__)
    return [(name, x) for name, x in own if not name.startswith("_")]


def test_every_public_function_and_class_looks_at_its_arguments():
    # A schedule, and its log, are none.
    formulas = [m for m in MODULES if not m.__name__.endswith((".scheduler", ".serving_log"))]
    made = [(name, c.__init__) for name, c in public(inspect.isclass, formulas) if not issubclass(c, tuple)]
    for name, f in (*public(inspect.isfunction), *made):
        assert hasattr(f, "__wrapped__"), f"{name}: decorate it with @formula"


def failing(check, formulas, *more) -> dict:
    """The names of formulas that a check of (name, formula, settings, more) does not pass, and why."""
    wrong = {}
    for name, given in formulas:
        try:
            check(name, *given, *more)
        except Exception as e:
            wrong[name] = repr(e)
    return wrong


def narrow(x, xp, least):
    """A number that is whole as an array of one integer, in the narrowest type of `least` bits or more that holds it."""
    if x != int(x):
        return x
    bits = next((b for b in (8, 16, 32, 64) if b >= least and x < 2 ** (b - 1)), None)
    if bits is None or (bits == 64 and xp is jnp and not jax.config.jax_enable_x64):
        return float(x)
    return xp.asarray([int(x)], f"int{bits}")


# Each operation of JAX is compiled by itself: `make test` takes some formulas of each room, `make test-all` all.
FEW = pytest.mark.parametrize("share", [20, pytest.param(1, marks=pytest.mark.slow("compiles every formula"))])
ROOM = pytest.mark.parametrize("room", ROOMS)
KINDS = {"NumPy": (np, 8, 1e-12), "NumPy, 32 bits": (np, 32, 1e-12), "JAX": (jnp, 8, 1e-4), "x64": (jnp, 8, 1e-12)}


def taken(room, share) -> list:
    formulas = list(ROOMS[room].items())
    return some(formulas, -(-len(formulas) // share))


@FEW
@ROOM
def test_integers_of_any_width_give_the_exact_value(room, share):
    def check(name, f, settings, xp, least, rtol):
        for setting in settings:
            got = f(*(narrow(x, xp, least) for x in setting))
            got = [float(np.asarray(x, float).reshape(-1)[0]) for x in (got if isinstance(got, tuple) else (got,))]
            exact = np.array(f(*(int(x) if x == int(x) else x for x in setting)), float).ravel()
            np.testing.assert_allclose(got, exact, rtol=rtol)

    for kind, how in KINDS.items():
        with jax.enable_x64() if kind == "x64" else nullcontext():
            assert not failing(check, taken(room, share if how[0] is jnp else 1), *how), kind


@walks(ROOMS)
def test_floats_and_arrays_agree(room):
    def check(name, f, settings):
        plain = np.array([f(*s) for s in settings], dtype=float)
        got = f(*(np.array(column) for column in zip(*settings)))
        if plain.ndim > 1:
            got = np.stack(np.broadcast_arrays(*np.atleast_1d(got)), axis=-1)
        np.testing.assert_allclose(np.broadcast_to(got, plain.shape), plain, rtol=1e-12)

    assert not failing(check, ROOMS[room].items())


@FEW
@ROOM
def test_floats_and_jit_agree(room, share):
    def check(name, f, settings):
        with jax.enable_x64():
            jitted = jax.jit(f)
            traced = np.array([jitted(*(jnp.float64(x) for x in s)) for s in settings], dtype=float)
        np.testing.assert_allclose(traced, np.array([f(*s) for s in settings], dtype=float), rtol=1e-12)

    assert not failing(check, taken(room, share))


@walks(ROOMS, [0, -1])
def test_a_zero_or_a_negative_number_anywhere_is_a_value_or_a_sentence(room, bad):
    """One argument after the other: no error of Python's own, and a negative size that a function is given itself is none."""
    listed_divides = {"step", "held", "prices", "estimated", "fullest", "replica", "careful"}
    divides = listed_divides if bad == 0 else set()

    def check(name, f, settings):
        itself = hasattr(f, "__wrapped__") and inspect.getmodule(f).__name__.startswith("helpers.costs")
        for i in range(len(settings[0]) if name not in divides else 0):
            try:
                f(*settings[0][:i], bad, *settings[0][i + 1 :])
            except ValueError as e:
                assert str(e).count(" ") > 3, e
            else:
                assert bad == 0 or not itself, f"takes {bad} for argument {i}"

    assert not failing(check, ROOMS[room].items())


def test_costs_need_the_standard_library_alone():
    code = """import sys, pkgutil, importlib, helpers.costs
for m in pkgutil.walk_packages(helpers.costs.__path__, "helpers.costs."):
    importlib.import_module(m.name)
assert len(sys.modules) > 40 + len([m for m in sys.modules if not m.startswith("helpers.")])
print(*{m.split('.')[0] for m in sys.modules})"""
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    foreign = {
        m
        for m in loaded
        if m not in sys.stdlib_module_names and m not in ("helpers", "__main__") and not m.startswith("_")
    }
    assert not foreign


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
