"""What one device holds is what the strategies' shardings say; chips stand in the groups that their layout puts them in."""

import pytest
from matplotlib.colors import to_hex

from helpers import plot
from helpers.costs.training.closed_forms import zero_memory
from helpers.costs.training.dp_fsdp_tp import algorithm
from helpers.costs.training.layout import MASTER
from helpers.plot.training.held_and_sent import MINE, WAYS, arrays, mesh_of
from tests.helpers.plot.drawn import ALT

STRATEGY = {"Data parallelism": "DP", "FSDP": "FSDP", "Tensor parallelism": "TP", "FSDP + TP": "FSDP+TP"}


@pytest.mark.parametrize("way", WAYS)
def test_device_0_holds_its_share_of_each_array(way):
    """Blue is the local share of the sharding, by the mesh of four devices; the dashed box is the whole array."""
    ax = plot.held([way], ALT).figure.axes[0]
    wholes = [p for p in ax.patches if p.get_linestyle() == "--"]
    mine = [p for p in ax.patches if to_hex(p.get_facecolor()) == MINE.lower()]
    mesh = mesh_of(way)
    for (stored, _), whole, part in zip(arrays(way), wholes, mine, strict=True):
        want = 1.0
        for axes in stored.axes:
            for axis in axes:
                want /= mesh.sizes[axis]
        share = part.get_width() * part.get_height() / (whole.get_width() * whole.get_height())
        assert share == pytest.approx(want), stored


@pytest.mark.parametrize("way", STRATEGY)
def test_the_layer_is_drawn_as_the_algorithm_has_it(way):
    """Stored before any collective, used in the products of the forward pass."""
    lines = algorithm(STRATEGY[way]).forward
    gathered = {str(one.operands[0]): str(one.result) for one in lines if one.kind == "AllGather"}
    used = {str(a) for one in lines if one.kind == "Matmul" for a in one.operands}
    for stored, use in arrays(way)[:-1]:
        assert gathered.get(str(stored), str(stored)) == str(use) and str(use) in used
    assert str(arrays(way)[-1][0]) == str(lines[-1].result).split(" {")[0]


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_zero_stages_shard_what_zero_memory_says(zero):
    way = next(w for w in WAYS if w.startswith(f"ZeRO-{zero}"))
    alone, shared = zero_memory(1.0, 1, zero, MASTER), zero_memory(1.0, 4, zero, MASTER)
    for (stored, _), one, part in zip(arrays(way), alone, shared, strict=True):
        assert (part < one) == any(stored.axes)
