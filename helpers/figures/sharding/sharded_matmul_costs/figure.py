"""The live figure of chapter 2: the planner, for every sharding of a product over a mesh of two axes."""

from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.sharding.sharded_array import Axis

from .plans import Meshes, PlanExplorer

FIGURE = PlanExplorer(
    name="sharded-matmul",
    title="A[I, J] · B[J, K] in bf16, step by step",
    meshes=Meshes(
        {
            "2 chips": Axis(2, wraps=False),
            "4 in a line": Axis(4, wraps=False),
            "4 in a ring": Axis(4),
            "8 in a line": Axis(8, wraps=False),
            "8 in a ring": Axis(8),
            "16 in a ring": Axis(16),
        }
    ),
    sizes={"I": 8192, "J": 8192, "K": 32768},
    x="4 in a line",
    y="4 in a line",
    operands=("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"),
    chips=("v5e", *(name for name, c in CHIPS.items() if c.axes and name != "v5e")),
)
