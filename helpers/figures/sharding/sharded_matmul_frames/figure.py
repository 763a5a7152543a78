"""The explorer's own page: the planner of chapter 2, the best plans in a list, the picked one frame by frame."""

from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.sharding.sharded_array import Axis
from helpers.figures.sharding.sharded_matmul_costs.plans import Meshes

from .page import PlanWalker

FIGURE = PlanWalker(
    name="explorer",
    title="A[I, J] · B[J, K] in bf16 on a mesh of two axes: plans, steps, frames",
    meshes=Meshes(
        {
            "2 chips": Axis(2, wraps=False),
            "4 in a line": Axis(4, wraps=False),
            "4 in a ring": Axis(4),
            "8 in a line": Axis(8, wraps=False),
            "8 in a ring": Axis(8),
            "16 in a ring": Axis(16),
            "2 slices": Axis(2, wraps=False, link="dcn"),
            "4 slices": Axis(4, wraps=False, link="dcn"),
            "8 slices": Axis(8, wraps=False, link="dcn"),
        }
    ),
    sizes={"I": 8192, "J": 8192, "K": 32768},
    x="4 in a ring",
    y="8 in a ring",
    operands=("[I_X, J_Y]", "[J, K_Y]", "[I_X, K_Y]"),
    chips=("v5p", *(name for name, c in CHIPS.items() if c.axes and name != "v5p")),
)
