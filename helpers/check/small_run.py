"""One run of a sharded answer on a few devices with small numbers: what each device is given, what it holds, and what is sent."""

from collections.abc import Callable, Mapping

import numpy as np

from helpers import trace
from helpers.kernels import mesh as meshes

from .sharded_program import Program
from .traced_program import Setting, told


def look(
    f: Callable, mesh: Mapping[str, int], in_specs, out_spec, sizes: Mapping[str, int], static: tuple = ()
) -> None:
    """Print what every device is given and holds after `f`, and what the program sends: to try an answer, not to judge it.

    f         the function of one device
    in_specs  "A[I_X, J]" for each array; its numbers are 0, 0.1, 0.2, … in the order of the whole array
    static    what `f` takes after its blocks

    Specs may be functions without arguments, where an answer says how arrays are cut.
    """
    asked = Program(f, 0, mesh, in_specs, out_spec, sizes=sizes, dtype="f32", static=static)
    try:
        setting = asked.setting
        arrays = [np.arange(np.prod(a.shape), dtype=np.float32).reshape(a.shape) / 10 for a in setting.arrays(sizes)]
        put = [meshes.put(a, setting.mesh, spec) for a, spec in zip(arrays, setting.ins)]
        program = asked.program()
        result, sent = program(*put), trace.sent(program, *put)
    except Exception as e:
        print(told(e, asked.name, vars(asked).get("setting")))
    else:
        _print(setting, put, result)
        print("sends: " + ("; ".join(map(str, sent)) or "nothing"))


def _print(s: Setting, put, result) -> None:
    mesh, rows = s.mesh, [*zip(s.ins, put), (s.out, result)]
    order = {d: i for i, d in enumerate(mesh.devices.flat)}
    for device, i in order.items():
        at = ", ".join(f"{a} = {k}" for a, k in zip(mesh.axis_names, np.unravel_index(i, mesh.devices.shape)))
        print(f"device {at}")
        for spec, array in rows:
            (block,) = [s.data for s in array.addressable_shards if s.device == device]
            text = np.array2string(np.asarray(block), precision=2, separator=", ", threshold=24, prefix=" " * 8)
            lines = text.replace("\n\n", "\n")
            print(f"    {'→ ' if array is result else '  '}{spec} {list(block.shape)}\n        {lines}")
