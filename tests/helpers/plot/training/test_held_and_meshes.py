"""What one device holds is what the strategies' shardings say; chips stand in the groups that their layout puts them in."""

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers import plot, show
from helpers.costs.rooflines.chips import chip
from helpers.costs.training.closed_forms import zero_memory
from helpers.costs.training.dp_fsdp_tp import algorithm
from helpers.costs.training.layout import MASTER
from helpers.plot.training.held_and_sent import MINE, WAYS, arrays, mesh_of
from helpers.plot.training.meshes_on_chips import INK, X, Y, cube_groups
from tests.helpers.plot.drawn import ALT, texts

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


def test_a_chip_of_the_cube_has_a_layer_and_a_column():
    ax = plot.cube(ALT, n=4, at=(1, 2, 3)).figure.axes[0]
    fills = [
        to_hex(line.get_markerfacecolor()) for line in ax.lines if line.get_marker() in "so" and len(line.get_xdata())
    ]
    plane, column = cube_groups(4, (1, 2, 3))
    assert plane & column == {(1, 2, 3)} and len(fills) == 64
    assert (fills.count(X.lower()), fills.count(Y.lower())) == (len(plane) - 1, len(column) - 1)
    assert fills.count(to_hex(INK)) == 1


@pytest.mark.parametrize("count", [64, 6])
def test_every_host_and_every_gpu_of_one_is_there(count):
    picture = plot.hosts(count, chip("H100"), "NVLink: much", "its card: little", ALT)
    boxes = [p for p in picture.figure.axes[0].patches if isinstance(p, Rectangle)]
    gpus = [p for p in boxes if to_hex(p.get_facecolor()) == Y.lower()]
    assert len(gpus) == 8 and len(boxes) == 2 + 8 + 8 + count  # host and switch, GPUs, cards, hosts
    assert "Each GPU over NVLink: much\nand over its card: little" in texts(picture)
    corners = [p.get_xy() for p in boxes[-count:]]
    assert len(set(corners)) == count and min(x for x, _ in corners) > 5


def test_pods_and_experts_carry_what_they_are_given():
    c = chip("v5p")
    assert show.rate(c.dcn_bandwidth) in " ".join(texts(plot.pods(c, ALT)))
    ax = plot.tokens_to_experts([[0, 1], [1, 0]], ALT).figure.axes[0]
    tokens = [t.get_text() for t in ax.texts if t.get_text().isdigit()]
    assert sorted(tokens) == ["0"] * 4 + ["1"] * 4  # each token twice: at home, and at its expert
