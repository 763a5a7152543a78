"""Layouts as flags of frameworks, against command lines that were published, and there and back again."""

import random

import pytest

from helpers.costs.training.layout import Layout
from helpers.costs.training.partial_layout import unfolded
from helpers.plan.__main__ import main
from helpers.plan.flags import SERVES, TRAINS, of_serving, of_training, read_flags
from helpers.plan.train import typed
from tests.tiers import repeats

QWEN = (  # best_practice/qwen3 of Megatron-MoE-ModelZoo: TP 2, EP 32, PP 8, VPP 4, MBS 1, GBS 2048 on 256 H100, 128 microbatches
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 --expert-model-parallel-size 32 --expert-tensor-parallel-size 1 "
    "--num-virtual-stages-per-pipeline-rank 4 --micro-batch-size 1 --global-batch-size 2048 --use-distributed-optimizer"
)


def test_a_published_command_is_the_layout_that_ran():
    text, said = read_flags(QWEN, 256)
    given = unfolded(typed(text, 32), 256)
    assert given == {"tp": 2, "pp": 8, "ep": 16, "v": 4, "zero": 1, "microbatches": 128, "pods": 32}
    assert said == [f"Read from flags: {text}."]
    ran = Layout(tp=2, pp=8, ep=16, v=4, zero=1, microbatches=128, policy="everything")
    flags, unsaid = of_training("megatron-lm", ran, 2048)
    assert sorted(flags.split()) == sorted(QWEN.split()) and not unsaid


@pytest.mark.parametrize("framework", TRAINS)
def test_there_and_back_a_training_layout_is_the_same(framework):
    """Of what the framework can say; what is left out is said."""
    for seed in range(repeats(60, 1000)):
        draw = random.Random(seed)
        size = {axis: 2 ** draw.randint(0, 3) for axis in ("tp", "cp", "ep", "pp")}
        share = {draw.choice(("dp", "fsdp")): 2 ** draw.randint(0, 3)}
        v = draw.choice((1, 2)) if size["pp"] > 1 else 1
        policy = draw.choice(("everything", "matmuls", "block"))
        laid = Layout(**size, **share, v=v, microbatches=2 ** draw.randint(0, 3), policy=policy)
        sequences = laid.dp * laid.fsdp * laid.ep * laid.microbatches * 2
        flags, unsaid = of_training(framework, laid, sequences)
        given = unfolded(typed(read_flags(flags, laid.chips, sequences)[0], 1), laid.chips)
        again = Layout(**given)
        for name in ("tp", "cp", "ep", "pp", "microbatches"):
            assert getattr(again, name) == getattr(laid, name), (name, flags)
        assert unsaid == ("v=2" if framework == "torchtitan" and v > 1 else "")
        assert again.v == (1 if unsaid else v) and again.policy in (laid.policy, Layout.policy)


@pytest.mark.parametrize("framework", SERVES)
def test_there_and_back_a_deployment_is_the_same(framework):
    for tp, dp, wide in ((8, 1, False), (1, 8, True), (2, 4, True), (4, 2, False)):
        axes = {name: n for name, n in (("tp", tp), ("dp", dp), ("ep", tp * dp if wide else 1)) if n > 1}
        flags, unsaid = of_serving(framework, axes)
        text = read_flags(flags, 0)[0]
        assert not unsaid and {n: int(x) for n, x in (part.split("=") for part in text.split(",")) if x != "1"} == axes


def test_what_is_wrong_with_flags_is_said(capsys):
    words = "train llama-3-8b --chips 8xH100 --sequences 64 --length 4096".split()
    assert main([*words, "--layout=--tensor-model-parallel-size two"]) == 2
    assert "--tensor-model-parallel-size has a whole number behind it, and not 'two'" in capsys.readouterr().err
    assert main([*words, "--layout=--tensor-model-parallel-size 2 --lr 3e-4", "--flags", "torchtitan"]) == 0
    text = capsys.readouterr().out
    assert "Read from flags: tp=2; of --lr nothing." in text
    assert "For torchtitan: --parallelism.tensor_parallel_degree 2 " in text
