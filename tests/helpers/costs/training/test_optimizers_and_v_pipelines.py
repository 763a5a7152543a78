"""Optimizers beside Adam, and pipelines whose devices have two stages."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import pytest

from helpers import trace
from helpers.costs.rooflines.chips import chip
from helpers.costs.training.layout import ADAM8, BF16, MASTER, MUON, Layout
from helpers.costs.training.operation_seconds import Pace
from helpers.costs.training.step_estimate import MUON_STEPS, step_seconds
from helpers.costs.training.step_memory import peak_memory
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import parameters
from tests.helpers.costs.tables import refused

C = Config(1024, 8, 8, 8, 128, 4096, 32000)
H100 = chip("H100")


def newton_schulz(x):
    """Muon's steps towards the nearest orthogonal matrix (Jordan et al. 2024)."""
    for _ in range(MUON_STEPS):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def test_muon_does_the_products_of_its_steps():
    """FLOPs of the program, traced for every matrix of a layer, at the rate of large products."""
    adam, muon = (step_seconds(C, H100, Layout(optimizer=o), 1, 1024).parts["update"] for o in ("Adam", "Muon"))
    flops = 0
    for n, k in ((3 * 1024, 1024), (1024, 1024), (2 * 4096, 1024), (1024, 4096)):  # q, k and v, and gate and in, as one
        flops += trace.count(newton_schulz, jax.ShapeDtypeStruct(sorted((n, k)), jnp.float32)).matmul_flops
    assert muon - adam == pytest.approx(C.L * flops / Pace(H100).peak)
    shared = step_seconds(C, H100, Layout(dp=8, zero=1, optimizer="Muon"), 8, 1024).parts["update"]
    assert shared < muon / 7


def test_an_optimizer_takes_its_bytes():
    P = parameters(C).total
    for stored, each in ((BF16, 8), (MASTER, 12), (ADAM8, 2), (MUON, 4)):
        assert peak_memory(C, H100, Layout(stored=stored), 1, 1024).optimizer == pytest.approx(each * P, rel=1e-12)
    times = [step_seconds(C, H100, Layout(stored=s), 1, 1024).parts["update"] for s in (ADAM8, MUON, BF16, MASTER)]
    moved = 4 + 2 * 12 + 2  # gradient, state read and written, weight
    assert times == sorted(times)
    assert times[-1] == pytest.approx(moved * P / Pace(H100).memory, rel=1e-4)


def test_dualpipe_holds_two_stages_and_a_v_as_much_as_1f1b():
    laid = Layout(pp=4, microbatches=16)
    one, v, dual = (peak_memory(C, H100, replace(laid, schedule=s), 16, 1024) for s in ("1F1B", "ZB-V", "DualPipe"))
    stage = 2 * (parameters(C).total - 2 * C.V * C.D - C.D) / 4
    assert v.weights == pytest.approx(stage + 2 * 2 * C.V * C.D, rel=1e-4) and v.logits == one.logits > 0
    laid = replace(laid, policy="everything")  # now the first stage is fullest
    one, v, dual = (peak_memory(C, H100, replace(laid, schedule=s), 16, 4096) for s in ("1F1B", "ZB-V", "DualPipe"))
    assert v.activations == one.activations and dual.weights == pytest.approx(2 * stage + 2 * 2 * C.V * C.D, rel=1e-4)
    assert dual.activations == pytest.approx(5 / 4 * one.activations)


def test_a_v_waits_least_and_its_stages_are_halves():
    """10 layers on four devices: two stages of two layers on the fullest, where 1F1B has three."""
    laid, ten = Layout(pp=4, microbatches=32), replace(C, L=10)
    waits = {
        s: step_seconds(C, H100, replace(laid, schedule=s), 32, 1024).parts["bubble"]
        for s in ("1F1B", "ZB-H1", "DualPipe", "ZB-V")
    }
    assert sorted(waits, key=waits.get)[-1] == "1F1B" and min(waits, key=waits.get) == "ZB-V"
    weights = [peak_memory(ten, H100, replace(laid, schedule=s), 32, 1024).weights for s in ("1F1B", "ZB-V")]
    layer = (parameters(ten).total - 2 * C.V * C.D) / 10
    # and both tables lie on the first
    assert weights[1] - weights[0] == pytest.approx(2 * (layer + C.V * C.D), rel=1e-3)


def test_errors_say_what_would_be_right():
    cases = (
        ({"optimizer": "SGD"}, "optimizer is one of 'Adam', 'Muon', not 'SGD'"),
        ({"schedule": "2F2B"}, "schedule is one of 'naive', 'GPipe', .* not '2F2B'"),
    )
    refused(*((lambda more=more: Layout(**more), said) for more, said in cases))
