"""One run of a sharded answer on a few devices with small numbers: what each device is given, what it holds, and what is sent."""

from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from helpers import trace
from helpers.costs.sharding import sharded_array
from helpers.kernels import mesh as meshes

from .raised import Unclear, raised
from .traced_program import Setting


def look(
    f: Callable, mesh: Mapping[str, int], in_specs: Sequence[str], out_spec: str, sizes: Mapping[str, int], **given
) -> None:
    """Print what every device is given and holds after `f`, and what the program sends: to try an answer, not to judge it.

    f         the function of one device
    in_specs  "A[I_X, J]" for each array; its numbers count 0, 1, 2, … in the order of the whole array, times a tenth
    given     other arguments, by name
    """
    setting = Setting(mesh, in_specs, out_spec, None, sizes, "f32")
    arrays = [np.arange(np.prod(a.shape), dtype=np.float32).reshape(a.shape) / 10 for a in setting.arrays(sizes)]
    put = [meshes.put(a, setting.mesh, spec) for a, spec in zip(arrays, in_specs)]
    stacked = sharded_array.parse(out_spec).unreduced

    def one(*blocks):
        out = f(*blocks, **given)
        return out[None] if stacked else out

    specs, name = tuple(map(meshes.spec, in_specs)), getattr(f, "__name__", "your answer")
    program = jax.shard_map(one, mesh=setting.mesh, in_specs=specs, out_specs=meshes.spec(out_spec), check_vma=False)
    try:
        result, sent = jax.jit(program)(*put), trace.sent(program, *put)
    except NotImplementedError:
        print(f"{name} is not done yet.")
        return
    except Unclear as e:
        print(f"{e}.")
        return
    except Exception as e:
        print(f"{raised(name, e)}.")
        return
    _print(setting.mesh, in_specs, put, out_spec, result)
    print("sends: " + ("; ".join(map(str, sent)) or "nothing"))


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
