"""Devices and meshes. A JAX process fixes its devices once, so each case that needs a fresh one starts its own."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh


def fresh(code: str, **env: str) -> str:
    """What a new Python prints; its error's last line if it fails."""
    clean = {
        k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "TF_CPP_MIN_LOG_LEVEL")
    }
    clean |= {"JAX_PLATFORMS": "cpu", **env}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=clean, capture_output=True, text=True, timeout=120
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


MESH = """
import os, sys
seen = []
sys.addaudithook(lambda event, args: event == "import" and args[0] == "jax" and seen.append(os.environ.get("TF_CPP_MIN_LOG_LEVEL")))
from helpers.kernels import mesh as m
import jax
four = m.mesh((2, 2), ("X", "Y"))
print(seen[0], [len(m.devices(n)) for n in (8, 8, 4, 1)], end=" ")
eight = m.mesh((4, 2), ("X", "Y"))
print(dict(eight.shape), all(t == jax.sharding.AxisType.Auto for t in eight.axis_types), end=" ")
x = jax.device_put(jax.numpy.arange(16.0).reshape(8, 2), jax.NamedSharding(eight, jax.P("X", "Y")))
print({s.data.shape for s in x.addressable_shards})
"""
IMPORT = "from helpers.kernels import mesh as m; "
COUNT = "import os; " + IMPORT + "print(len(m.devices()), os.environ['TF_CPP_MIN_LOG_LEVEL'])"
FRESH = {  # what a new Python runs, in which environment, and what it says
    "eight again and fewer, after a small mesh; quiet before JAX reads it": (
        MESH, {}, "2 [8, 8, 4, 1] {'X': 4, 'Y': 2} True {(2, 1)}",
    ),
    "JAX has started": (
        "import jax; jax.random.key(0); " + IMPORT + "m.devices()", {},
        "RuntimeError: JAX has already started with 1 CPU device, so it cannot give you 8: restart the kernel",
    ),
    "more than eight": (IMPORT + "print(len(m.devices(12)))", {}, "12"),
    "an environment with more": (IMPORT + "m.devices(); print(len(m.devices(16)))", {"JAX_NUM_CPU_DEVICES": "16"}, "16"),
    "JAX is imported, and not started": ("import jax; jax.eval_shape(lambda x: x, 1.); " + COUNT, {}, "8 2"),
    "started with enough, and a log level of one's own": (
        "import jax; jax.devices(); " + COUNT, {"JAX_NUM_CPU_DEVICES": "8", "TF_CPP_MIN_LOG_LEVEL": "0"}, "8 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("code, env, said", FRESH.values(), ids=FRESH)
@pytest.mark.sample(quick=1)
def test_devices_of_a_new_process(code, env, said):
    got = fresh(code, **env)
    assert got.startswith(said) if "Error: " in said else got == said, got


def test_accelerators_come_first_if_there_are_enough(monkeypatch):
    class Chip:
        platform = "tpu"

    chips, cpus = [Chip() for _ in range(4)], [object() for _ in range(8)]
    monkeypatch.setattr(jax, "devices", lambda kind=None: cpus if kind == "cpu" else chips)
    assert mesh.devices(4) == chips and mesh.devices(2) == chips[:2]
    assert mesh.devices(8) == cpus  # four chips are not eight


def test_no_cpu_to_simulate_on(monkeypatch):
    class Chip:
        platform = "gpu"

    def devices(kind=None):
        if kind == "cpu":
            raise RuntimeError("Unknown backend cpu")
        return [Chip()]

    monkeypatch.setattr(jax, "devices", devices)
    with pytest.raises(RuntimeError, match="this machine has 1 of the 8 devices .* add cpu to JAX_PLATFORMS"):
        mesh.devices()


def test_wrong_requests():
    with pytest.raises(ValueError, match="axis_names|axis_shapes"):
        mesh.mesh((4, 2), ("X",))
    with pytest.raises(ValueError, match="at least one device"):
        mesh.devices(0)


# Shardings in the notation, on devices.


@pytest.mark.parametrize("text, spec", [
    ("A[I, J]", jax.P(None, None)),
    ("A[I_X, J]", jax.P("X", None)),
    ("A[I, J_YX]", jax.P(None, ("Y", "X"))),
    ("A[I_X, J, K_Y]", jax.P("X", None, "Y")),
    ("A[I_X, J] {U_Y}", jax.P("Y", "X", None)),
    ("A[I, J] {U_XY}", jax.P(("X", "Y"), None, None)),
    (sharded_array.parse("A[I_Y]"), jax.P("Y")),
    (jax.P("X"), jax.P("X")),
])  # fmt: skip
def test_specs(text, spec):
    assert mesh.spec(text) == spec


def test_sharded_programs_see_their_blocks_and_stack_their_summands():
    xy, a = mesh.mesh((4, 2), ("X", "Y")), np.arange(32.0).reshape(8, 4)
    seen = []
    f = mesh.sharded(lambda x: seen.append(x.shape) or x.sum(0, keepdims=True), xy, ["A[I_X, J_Y]"], "B[K, J_Y] {U_X}")
    parts = f(a)
    assert seen[0] == (2, 2) and parts.shape == (4, 1, 4)
    assert np.array_equal(np.asarray(parts).sum(0), a.sum(0, keepdims=True))
    back = mesh.sharded(lambda x: jax.lax.psum(x, "X"), xy, ["B[K, J_Y] {U_X}"], jax.P(None, "Y"))(parts)
    assert np.array_equal(back, a.sum(0, keepdims=True))


def test_an_axis_that_the_mesh_has_not():
    with pytest.raises(ValueError, match="A.I_Z, J. names axis Z: use one that the mesh has, X, Y"):
        mesh.sharded(lambda x: x, mesh.mesh((4, 2), ("X", "Y")), ["A[I_Z, J]"], "A[I, J]")
    with pytest.raises(ValueError, match="names axis Z: use one that the mesh has, X, Y"):
        mesh.holders("A[I_Z, J]", mesh.mesh((4, 2), ("X", "Y")), {"I": 8, "J": 16})


def test_arguments_that_do_not_fit_the_notation():
    xy = mesh.mesh((4, 2), ("X", "Y"))
    product = mesh.sharded(lambda a, b: a @ b, xy, ("A[I_X, J]", "B[J, K_Y]"), "C[I_X, K_Y]")
    with pytest.raises(ValueError, match="X is 4 and does not divide I = 6; the nearest that it divides are 4 and 8"):
        product(np.ones((6, 8)), np.ones((8, 8)))
    with pytest.raises(ValueError, match="J is 8 in A.* and 4 in B.*: a dimension that two arrays share has one size"):
        product(np.ones((8, 8)), np.ones((4, 8)))
    with pytest.raises(ValueError, match="has 2 dimensions, and the shape .* has 1"):
        product(np.ones(8), np.ones((8, 8)))
