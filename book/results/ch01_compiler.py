"""What a TPU compiler expects of matrix products, without a TPU: writes ch01_compiler.json beside this file.

Needs the optional package libtpu (Linux x86-64, proprietary): make env EXTRA=tpu. Nothing runs on a TPU; XLA compiles
for one, and its cost model says how many seconds it expects (`optimal_seconds`). Only numbers are kept.

    python book/results/ch01_compiler.py
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from tqdm import tqdm  # noqa: E402

from helpers.trace.compiled import aot_compile_tpu  # noqa: E402

TOPOLOGIES = {"v5e": "v5e:2x2", "v6e": "v6e:2x2"}
BATCHES = (8, 32, 64, 128, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096)
D = F = 8192


def seconds(device, f, *shapes) -> float:
    """XLA's expectation for `f` on bf16 arrays of these shapes, on one device."""
    here = jax.sharding.SingleDeviceSharding(device)
    args = [jax.ShapeDtypeStruct(s, jnp.bfloat16, sharding=here) for s in shapes]
    expected = jax.jit(f).lower(*args).compile().cost_analysis()["optimal_seconds"]
    if expected <= 0:
        raise ValueError(f"the cost model gives no time for shapes {shapes}")
    return expected


def main() -> None:
    chips = {}
    for chip, topology in TOPOLOGIES.items():
        device = aot_compile_tpu.mesh(topology, {"X": 4}).devices[0]
        N, n = 8192, 2**28
        chips[chip] = {
            "topology": topology,
            "C": 2 * N**3 / seconds(device, jnp.matmul, (N, N), (N, N)),  # FLOPs/s that the model believes in
            "W": 4 * n / seconds(device, lambda a: a + 1, (n,)),  # bytes/s: two read and two written for each number
            "seconds": {B: seconds(device, jnp.matmul, (B, D), (D, F)) for B in tqdm(BATCHES, desc=chip)},
        }
    aot_compile_tpu.store(__file__, D=D, F=F, dtype="bf16", chips=chips)


if __name__ == "__main__":
    main()
