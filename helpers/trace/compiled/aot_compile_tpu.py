"""Compile for a slice of TPUs that is not here: nothing can run, everything can be read.

The compiler comes with the optional package libtpu (Linux x86-64; proprietary, under the terms of Google Cloud): it is
loaded when a function here first needs it, never on import. Without it, `report` shows a stored record instead.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from glob import glob
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path

import jax
from jax.sharding import AxisType, Mesh

from helpers.kernels.mesh import devices, sharded, spec
from helpers.trace.jaxpr.equation_costs import LONG

from .compiled_program import Program, from_json, made

# libtpu asks the cloud what machine it is on, and complains where there is none, unless it is told.
_TOLD = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-16",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # several notebooks may compile at once
}


def available() -> bool:
    """True if libtpu is installed."""
    return find_spec("libtpu") is not None


def mesh(topology: str, sizes: Mapping[str, int], slices: int = 1) -> Mesh:
    """A JAX mesh of TPUs that are not here, with Auto axes, in an order that suits the torus.

    topology  "v5e:4x4", "v5p:4x4x4", "v6e:8x8", …
    sizes     devices along each axis: {"X": 4, "Y": 4}
    slices    so many such slices, joined by the data-centre network; the first axis then counts them

    ModuleNotFoundError with one sentence on how to get libtpu, if it is missing.
    """
    if not available():
        raise ModuleNotFoundError(MISSING)
    if not (glob("/dev/accel*") or glob("/dev/vfio/[0-9]*")):  # on a TPU machine libtpu knows where it is
        for name, value in _TOLD.items():
            os.environ.setdefault(name, value)
    devices(1)  # start JAX with its simulated devices, which it cannot add later
    from jax.experimental import mesh_utils, topologies

    try:
        chips = topologies.get_topology_desc(topology, platform="tpu", num_slices=slices).devices
    except Exception as e:
        raise ValueError(f"libtpu knows no slice {topology!r}; write one as v5e:4x4 or v5p:4x4x4") from e
    if prod(sizes.values()) != len(chips):
        name, wanted = _name(topology, slices), prod(sizes.values())
        raise ValueError(f"{name} has {len(chips)} devices and the mesh {dict(sizes)} takes {wanted}")
    kinds = (AxisType.Auto,) * len(sizes)
    if slices > 1:
        first, *rest = sizes.values()
        if first != slices:
            raise ValueError(f"the first axis of a mesh over {slices} slices has {slices} devices, not {first}")
        laid = mesh_utils.create_hybrid_device_mesh((1, *rest), (slices, *(1 for _ in rest)), chips)
        return Mesh(laid, tuple(sizes), axis_types=kinds)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=kinds, devices=chips)


def _name(topology: str, slices: int) -> str:
    return f"{slices} slices of {topology}" if slices > 1 else topology


def compile_for(
    topology: str,
    sizes: Mapping[str, int],
    f: Callable,
    ins: Sequence,
    out,
    *shapes: tuple[int, ...],
    dtype: str = "bf16",
    per_device: bool = False,
    slices: int = 1,
) -> Program:
    """What the TPU's compiler makes of `f` on a slice that is not here; about a second for a matmul.

    topology    "v5e:4x4"
    sizes       devices along each axis of the mesh: {"X": 4, "Y": 4}
    ins, out    sharding of each argument and of the result, in the notation or as PartitionSpecs: ["A[I_X, J]", …]
    shapes      shapes of the whole arguments
    per_device  True if `f` is what one device does, for `shard_map`; else XLA partitions it
    slices      as in `mesh`

    A program that does not fit into HBM gives a record with `refused`.
    """
    m = mesh(topology, sizes, slices)
    args = [
        jax.ShapeDtypeStruct(shape, LONG.get(dtype, dtype), sharding=jax.NamedSharding(m, spec(how)))
        for shape, how in zip(shapes, ins, strict=True)
    ]
    program = sharded(f, m, ins, out) if per_device else jax.jit(f, out_shardings=jax.NamedSharding(m, spec(out)))
    return replace(made(program, *args, mesh=m), target=_name(topology, slices))


def report(stored: Mapping, name: str, f: Callable, *, per_device: bool = False) -> Program:
    """One stored case compiled afresh if libtpu is here, else its stored record; the note says which.

    stored  a results file with `cases`, as written by book/results/ch02_compiler.py
    name    one of its cases, which holds the slice, the mesh, the shardings and the shapes
    f       the program that the case was made from
    """
    case = stored["cases"][name]
    if available():
        return compile_for(
            case["topology"], case["mesh"], f, case["ins"], case["out"], *map(tuple, case["shapes"]),
            dtype=case["dtype"], per_device=per_device, slices=case.get("slices", 1),
        )  # fmt: skip
    made_by = ", ".join(f"{p} {v}" for p, v in stored["versions"].items())
    note = f"Stored: compiled on {stored['date']} with {made_by}; libtpu is not installed here."
    return from_json(case["made"], note)


def store(script: str, **results) -> None:
    """Write the results of a script of book/results beside it, as <script>.json, after how and when they were made.

    script  its path: __file__
    """
    path = Path(script)
    made_by = {
        "command": f"python book/results/{path.name}",
        "date": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, no TPU",
        "versions": {p: version(p) for p in ("jax", "jaxlib", "libtpu")},
    }
    path.with_suffix(".json").write_text(json.dumps(made_by | results, indent=1) + "\n", encoding="utf-8")


MISSING = (
    'compiling for a TPU needs libtpu: on Linux x86-64 run "make env EXTRA=tpu", or pip install '
    f'"jax[tpu]=={jax.__version__}" (205 MB to download, 640 MB unpacked, proprietary under the terms of Google Cloud)'
)
