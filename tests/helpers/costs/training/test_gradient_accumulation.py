"""What microbatches send, against the predicted step of a whole model, and the threshold against its times."""

import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import training_step
from helpers.costs.training.dp_fsdp_tp import cost, data_ratio
from helpers.costs.training.gradient_accumulation import WAYS, accumulation_bytes
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

LLAMA, CUBE = model("llama-2-13b"), Slice(chip("v5p"), (4, 4, 4))
PREDICTED = {
    "DP, summed once": dict(dp=64),
    "ZeRO-1": dict(dp=64, zero=1),
    "ZeRO-2": dict(dp=64, zero=2),
    "FSDP": dict(fsdp=64),
}


def test_one_microbatch_sends_the_row_of_the_strategy_table():
    for name in ("DP", "FSDP"):
        there, back = cost(name, 4096, 512, 2048, X=8)
        assert accumulation_bytes(name, 1, 512, 2048) == there.total + back.total


@walks(PREDICTED)
def test_the_predicted_step_sends_as_much(name):
    """D·F numbers of each of the layer's two matrices are half of the parameters: 2·D·F of them all."""
    for m in (1, 2, 8):
        laid = Layout(**PREDICTED[name], microbatches=m, policy="everything")
        at = training_step.step(LLAMA, laid, 2**21, 4096, CUBE)
        sent = sum(
            (1 + (s.kind == "AllReduce")) * s.bytes * s.times for s in at.sent if s.what in ("weights", "gradients")
        )
        assert sent == pytest.approx(accumulation_bytes(name, m, parameters(LLAMA).total / 2, 1))


def test_fsdp_needs_its_tokens_in_each_microbatch():
    """Links outlast arithmetic eight times as soon with eight microbatches (attention and the head apart, so T is short)."""
    for m in (1, 2, 8):
        at = training_step.step(LLAMA, Layout(fsdp=64, microbatches=m, policy="everything"), 2**20, 256, CUBE)
        forward = sum(s.seconds for s in at.sent if s.when == "forward")
        math = at.parts["math"] / 3
        ratio = data_ratio(at.tokens, 64, 2550, 3, m)
        assert math / forward == pytest.approx(ratio, rel=0.03)


def test_scattering_once_saves_what_it_keeps_whole():
    for micro in (1, 4, 32):
        saved = accumulation_bytes("FSDP", micro, 512, 2048) - accumulation_bytes(
            "FSDP, scattered once", micro, 512, 2048
        )
        assert saved == (micro - 1) * 4 * 512 * 2048


def test_a_way_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'ZeRO-4' is no way to add gradients up: there are DP, DP, summed once"):
        accumulation_bytes("ZeRO-4", 1, 1, 1)
    assert all(not way.cut or way.each[1] for way in WAYS.values())  # what is cut was scattered each time
