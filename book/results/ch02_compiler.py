"""What a TPU compiler makes of the chapter's sharded matmuls, without a TPU: writes ch02_compiler.json beside this file.

Needs the optional package libtpu (Linux x86-64, proprietary): make env EXTRA=tpu. Nothing runs on a TPU. Only numbers are kept.

    python book/results/ch02_compiler.py
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from tqdm import tqdm  # noqa: E402

from helpers.trace.compiled import aot_compile_tpu, compiled_program  # noqa: E402

TOPOLOGY, XY, X = "v5e:4x4", {"X": 4, "Y": 4}, {"X": 16}
N = 16384
SQUARE = [[N, N], [N, N]]


def layers(x, ws):
    """100 layers, each of which gathers its weights over X and its activations over Y."""

    def layer(x, w):
        w = lax.all_gather(w, "X", axis=0, tiled=True)  # [D, D_Y]
        return jnp.tanh(lax.all_gather(x, "Y", axis=1, tiled=True) @ w), None  # [B_X, D_Y]

    return lax.scan(layer, x, ws)[0]


def scatter(a, b):
    """Case 3 with an explicit ReduceScatter."""
    return lax.psum_scatter(a @ b, "X", scatter_dimension=1, tiled=True)


# name: program, mesh, shardings of the arguments, of the result, shapes, True if the program is what one device does
CASES = {
    "snippet": (jnp.matmul, XY, ["A[I_X, J_Y]", "B[J, K_Y]"], "C[I_X, K_Y]", [[8, 2048], [2048, 8192]], False),
    "case 1": (jnp.matmul, XY, ["A[I_X, J]", "B[J, K_Y]"], "C[I_X, K_Y]", SQUARE, False),
    "case 2": (jnp.matmul, XY, ["A[I_X, J_Y]", "B[J, K]"], "C[I_X, K]", SQUARE, False),
    "case 2, weights": (jnp.matmul, XY, ["A[I_X, J]", "B[J_X, K_Y]"], "C[I_X, K_Y]", SQUARE, False),
    "case 3": (jnp.matmul, X, ["A[I, J_X]", "B[J_X, K]"], "C[I, K]", SQUARE, False),
    "case 3, scattered": (jnp.matmul, X, ["A[I, J_X]", "B[J_X, K]"], "C[I, K_X]", SQUARE, False),
    "case 3, psum_scatter": (scatter, XY, ["A[I_Y, J_X]", "B[J_X, K]"], "C[I_Y, K_X]", SQUARE, True),
    "case 4": (jnp.matmul, X, ["A[I_X, J]", "B[J, K_X]"], "C[I_X, K]", SQUARE, False),
    "100 layers": (
        layers, XY, ["x[B_X, D_Y]", "W[L, D_X, E_Y]"], "y[B_X, D_Y]", [[8192, 4096], [100, 4096, 4096]], True,
    ),
    "too large": (jnp.matmul, XY, ["A[I_X, J]", "B[J, K]"], "C[I, K]", [[131072, 131072]] * 2, False),
}  # fmt: skip


def main() -> None:
    cases = {}
    for name, (f, mesh, ins, out, shapes, per_device) in tqdm(CASES.items()):
        case = {"topology": TOPOLOGY, "mesh": mesh, "ins": ins, "out": out, "shapes": shapes, "dtype": "bf16"}
        made = aot_compile_tpu.compile_for(TOPOLOGY, mesh, f, ins, out, *map(tuple, shapes), per_device=per_device)
        cases[name] = {**case, "made": compiled_program.to_json(made)}
        print(f"\n{name}: {made}")
    aot_compile_tpu.store(__file__, cases=cases)


if __name__ == "__main__":
    main()
