"""One run of a sharded answer on a few devices with small numbers: what each device is given, what it holds, and what is sent."""

from collections.abc import Callable, Mapping

import jax
import numpy as np

from helpers import trace
from helpers.kernels import mesh as meshes

from .raised import Unclear, called, raised
from .traced_program import Setting


def look(
    f: Callable, mesh: Mapping[str, int], in_specs, out_spec, sizes: Mapping[str, int], static: tuple = ()
) -> None:
    """Print what every device is given and holds after `f`, and what the program sends: to try an answer, not to judge it.

    f         the function of one device
    in_specs  "A[I_X, J]" for each array; its numbers are 0, 0.1, 0.2, … in the order of the whole array
    static    what `f` takes after its blocks

    Specs may be functions without arguments, where an answer says how arrays are cut.
    """
    name = getattr(f, "__name__", "your answer")
    try:
        in_specs, out_spec = (spec() if callable(spec) else spec for spec in (in_specs, out_spec))
        setting = Setting(mesh, in_specs, out_spec, None, sizes, "f32")
        arrays = [np.arange(np.prod(a.shape), dtype=np.float32).reshape(a.shape) / 10 for a in setting.arrays(sizes)]
        put = [meshes.put(a, setting.mesh, spec) for a, spec in zip(arrays, in_specs)]
        program = _program(f, setting, static)
        result, sent = jax.jit(program)(*put), trace.sent(program, *put)
    except NotImplementedError:
        print(f"{name} is not done yet.")
    except Unclear as e:
        print(f"{e}.")
    except Exception as e:
        print(f"{raised(name, e)}.")
    else:
        _print(setting.mesh, in_specs, put, out_spec, result)
        print("sends: " + ("; ".join(map(str, sent)) or "nothing"))


def _program(f: Callable, s: Setting, static: tuple) -> Callable:
    def one(*blocks):
        out = called(f, (*blocks, *static), {})
        return out[None] if s.stacked else out

    specs = tuple(map(meshes.spec, s.ins))
    return jax.shard_map(one, mesh=s.mesh, in_specs=specs, out_specs=meshes.spec(s.out), check_vma=False)


def _print(mesh, in_specs, put, out_spec, result) -> None:
    order = {d: i for i, d in enumerate(mesh.devices.flat)}
    rows = [*zip(in_specs, put), (out_spec, result)]
    for device, i in order.items():
        at = ", ".join(f"{a} = {k}" for a, k in zip(mesh.axis_names, np.unravel_index(i, mesh.devices.shape)))
        print(f"device {at}")
        for spec, array in rows:
            (block,) = [s.data for s in array.addressable_shards if s.device == device]
            text = np.array2string(np.asarray(block), precision=2, separator=", ", threshold=24, prefix=" " * 8)
            print(f"    {'→ ' if array is result else '  '}{spec} {list(block.shape)}\n        {text}")
