"""What a TPU compiler makes of collectives over two slices, without a TPU: writes ch07_compiler.json beside this file.

Needs the optional package libtpu (Linux x86-64, proprietary): make env EXTRA=tpu. Nothing runs on a TPU. Only numbers are kept.

    python book/results/ch07_compiler.py
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jax import lax  # noqa: E402
from tqdm import tqdm  # noqa: E402

from helpers.kernels.racks import two_tier_collectives as two  # noqa: E402
from helpers.trace.compiled import aot_compile_tpu, compiled_program  # noqa: E402

TOPOLOGY, SLICES, XY, BOTH = "v5e:2x2", 2, {"X": 2, "Y": 4}, ("X", "Y")
SHARDED, SHAPE = "A[I_XY, J]", [8192, 1024]


def swap(x):
    """Blocks of rows to all chips, first inside a slice and then across."""
    return two.all_to_all(x.reshape(8, -1, x.shape[-1])).reshape(x.shape)


# name: what one device does
CASES = {
    "AllReduce, flat": lambda x: lax.psum(x, BOTH),
    "AllReduce, two tiers": two.all_reduce,
    "ReduceScatter, flat": lambda x: lax.psum_scatter(x, BOTH, scatter_dimension=0, tiled=True),
    "AllGather, flat": lambda x: lax.all_gather(x, BOTH, axis=0, tiled=True),
    "AllToAll, flat": lambda x: lax.all_to_all(x, BOTH, 0, 0, tiled=True),
    "AllToAll, two tiers": swap,
}


def main() -> None:
    cases = {}
    for name, f in tqdm(CASES.items()):
        case = {
            "topology": TOPOLOGY,
            "slices": SLICES,
            "mesh": XY,
            "ins": [SHARDED],
            "out": SHARDED,
            "shapes": [SHAPE],
            "dtype": "bf16",
        }
        made = aot_compile_tpu.compile_for(
            TOPOLOGY, XY, f, [SHARDED], SHARDED, tuple(SHAPE), per_device=True, slices=SLICES
        )
        cases[name] = {**case, "made": compiled_program.to_json(made)}
        print(f"\n{name}: {made}")
    aot_compile_tpu.store(__file__, cases=cases)


if __name__ == "__main__":
    main()
