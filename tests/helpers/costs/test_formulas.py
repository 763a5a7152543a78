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
from helpers import numeric
from tests.helpers.costs.formulas import DISCRETE, FORMULAS, ROOMS
from tests.helpers.costs.tables import walks
from tests.tiers import some

MODULES = [import_module(m.name) for m in pkgutil.walk_packages(helpers.costs.__path__, "helpers.costs.")]


def public(kind, modules=MODULES) -> list:
    """(name, function or class) of every module of formulas."""
    return [
        (name, x)
        for m in modules
        for name, x in vars(m).items()
        if kind(x) and x.__module__ == m.__name__ and not name.startswith("_")
    ]


def test_every_public_function_and_class_is_here_and_looks_at_its_arguments():
    names = {name for name, _ in public(inspect.isfunction, [*MODULES, numeric])}
    assert names <= {name.split()[0] for name in FORMULAS} | DISCRETE and DISCRETE <= names
    made = [(name, c.__init__) for name, c in public(inspect.isclass) if not issubclass(c, tuple)]
    for name, f in (*public(inspect.isfunction), *made):
        assert hasattr(f, "__wrapped__"), f"{name}: end its module with entries(__name__)"


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
FEW = pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow("compiles every formula"))])
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
    divides = {"step", "held", "prices", "fullest", "replica", "careful"} if bad == 0 else set()  # what is listed does

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
