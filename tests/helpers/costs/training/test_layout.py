"""Where the axes of a layout lie, and what their wires carry."""

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import layout as placement
from helpers.costs.training.layout import Layout, wires
from helpers.costs.training.training_step import step
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model

CUBE = Slice(chip("v5p"), (4, 4, 4))
EXPERTS = Config(1024, 8, 16, 4, 64, 4096, 1000, moe=MoE(E=16, k=2, F=512, shared=1, first_dense=2))


def test_gpus_gather_over_the_network_and_then_inside():
    h100 = Slice(chip("H100"), (8,))
    w = wires(Layout(tp=8, fsdp=4, pods=4), h100)
    assert w["tp"].gather == pytest.approx(7 / 8 / 4.5e11)
    assert w["fsdp"].gather == pytest.approx(3 / 4 / 5e10)
    both = wires(Layout(fsdp=32, pods=4), h100)["fsdp"]
    assert both.gather == pytest.approx(7 / 8 / 4.5e11 + 3 / 4 / 8 / 5e10)
    cut = step(EXPERTS, Layout(cp=4, ep=4, pods=2), 2**18, 1024, h100, hop=0)
    sent = next(x for x in cut.sent if x.axes == ("cp", "ep", "dp"))  # two axes over the same 16 GPUs as one
    one = wires(Layout(dp=16, pods=2), h100)["dp"].gather
    assert sent.seconds == pytest.approx(2 * sent.times * sent.bytes * one)
    at = step(model("llama-3-8b"), Layout(tp=8, fsdp=4, pods=4), 2**19, 4096, h100)
    assert at.chips == 32
    assert at.memory.weights == pytest.approx(2 * parameters(model("llama-3-8b")).total / 32, rel=1e-3)


def test_axes_lie_in_whole_rows():
    assert placement.lies(Layout(dp=2, fsdp=4, tp=8), CUBE)
    assert not placement.lies(Layout(tp=3, fsdp=32), Slice(chip("v5p"), (4, 4, 6)))
    tp = np.array([1, 2, 3, 4, 8, 64])
    got = placement.lies(Layout(tp=tp, fsdp=64 // tp), CUBE)
    assert list(got) == [placement.lies(Layout(tp=int(t), fsdp=64 // int(t)), CUBE) for t in tp]
