"""What a TPU compiler expects of matrix products, without a TPU: writes ch01_compiler.json beside this file.

Needs the optional package libtpu (Linux x86-64, proprietary): pip install "jax[tpu]". Nothing runs on a TPU; XLA compiles
for one, and its cost model says how many seconds it expects (`optimal_seconds`). Only numbers are kept.

    python book/results/ch01_compiler.py
"""

import json
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

# libtpu looks for a TPU and for the cloud that it is in, unless it is told where it is.
ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
}
for name, value in ENVIRONMENT.items():
    os.environ.setdefault(name, value)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from tqdm import tqdm  # noqa: E402

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
    out = {
        "command": "python book/results/ch01_compiler.py",
        "date": date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, no TPU",
        "versions": {p: version(p) for p in ("jax", "jaxlib", "libtpu")},
        "D": D,
        "F": F,
        "dtype": "bf16",
        "chips": {},
    }
    for chip, topology in TOPOLOGIES.items():
        device = topologies.get_topology_desc(topology, platform="tpu").devices[0]
        N, n = 8192, 2**28
        out["chips"][chip] = {
            "topology": topology,
            "C": 2 * N**3 / seconds(device, jnp.matmul, (N, N), (N, N)),  # FLOPs/s that the model believes in
            "W": 4 * n / seconds(device, lambda a: a + 1, (n,)),  # bytes/s: two read and two written for each number
            "seconds": {B: seconds(device, jnp.matmul, (B, D), (D, F)) for B in tqdm(BATCHES, desc=chip)},
        }
    Path(__file__).with_suffix(".json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
