"""Two meshes: every factoring, bytes by enumeration, memory as a sum over devices, what enters a domain as a cut of its wiring."""

from itertools import product
from math import prod

import numpy as np
import pytest

from helpers.costs.experts.two_meshes import (
    Folding,
    attention_sends,
    expert_fsdp_tokens,
    expert_sends,
    foldings,
    held_bytes,
)
from helpers.costs.racks.cluster import racks, slices, wiring
from helpers.costs.racks.cut import max_flow
from helpers.costs.racks.training_over_tiers import by_tier, cluster_of
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

GB200 = chip("GB200")


def test_every_factoring_is_there_once_and_attention_has_as_many():
    threes = [f for f in product(range(1, 9), repeat=3) if prod(f) == 8]
    assert sorted((f.etp, f.ep, f.edp) for f in foldings(2, 2, 2)) == threes and len(threes) ** 2 == 100
    assert {f.ep for f in foldings(4, 2, 8, E=12)} == {1, 2, 4}


@walks([(n, k) for n in (2, 4) for k in (1, 2, 3)])
def test_exchange_is_the_mean_over_all_choices(n, k):
    """Each device's token takes k experts, each on one of n devices: those that are not its own are sent there, and back."""
    sent = [sum(home != 0 for home in homes) for homes in product(range(n), repeat=k)]
    x = expert_sends(5, 7, 3, 8, k, Folding(1, n, 1), dispatch=1, combine=2)
    assert x.exchange == pytest.approx((1 + 2) * 5 * 7 * np.mean(sent)) and (x.tensor, x.gradients) == (0, 0)


def test_tensor_inside_an_expert_gathers_what_arrives():
    """A device has t tokens; with ep it is its t·k copies that etp - 1 others lack, each once there and once back in bf16."""
    t, D, k = 4096, 4096, 8
    alone, beside = (expert_sends(t, D, 1536, 128, k, Folding(*f)) for f in ((8, 1, 1), (4, 2, 1)))
    assert alone.tensor == 2 * 7 * t * D * 2 == attention_sends(t, D, 8) and beside.tensor == 2 * 3 * t * k * D * 2
    assert round(attention_sends(t, D, 4) / 1e6) == 201


def test_gradients_are_reduced_over_copies_alone():
    """An AllReduce on a ring of edp sends 2·(edp - 1) pieces of what a device holds."""
    held = 128 // 4 * 3 * 4096 * 1536
    for edp in (1, 2, 8):
        got = expert_sends(1, 4096, 1536, 128, 8, Folding(1, 4, edp)).gradients
        assert got == pytest.approx(2 * (edp - 1) * (held / edp) * 2)


def test_memory_of_all_devices_is_the_model_and_its_copies():
    """Weights and gradients: edp copies of experts, cp·dp of the rest; state once."""
    experts, rest, tp, cp_dp, pp = 1000.0, 400.0, 2, 16, 4
    for f in foldings(tp, 4, 4):
        x = held_bytes(experts, rest, pp, tp, f)
        devices = pp * f.chips
        assert x.experts * devices == pytest.approx(6 * experts * f.edp)
        assert x.others * devices == pytest.approx(6 * rest * cp_dp) and x.state * devices == 12 * (experts + rest)
        assert x.total == x.experts + x.others + x.state


def test_what_enters_a_domain_is_a_cut_of_its_wiring():
    c = racks("GB200", 3)
    w = wiring(c)
    inside = w.chips[:72]
    entering = max_flow(w.links, w.chips[72:], inside)
    assert entering == pytest.approx(72 * GB200.dcn_bandwidth)
    assert round(expert_fsdp_tokens(5e15, entering, 384, 6)) == 88889
    cube = [x for x in wiring(slices("v5p", (8, 8, 8))).chips if all(int(i) < 4 for i in x.split(".")[1].split(","))]
    w = wiring(slices("v5p", (8, 8, 8)))
    assert len(cube) == 64
    assert max_flow(w.links, set(w.chips) - set(cube), cube) == pytest.approx(6 * 4 * 4 * 9e10)


@walks([(8, 1, 64), (1, 8, 32), (4, 2, 16)])
def test_threshold_is_where_gathering_takes_as_long_as_multiplying(ep, P, E):
    """Counted for one layer of one domain of eight chips: what all of them gather over cards, and what they multiply."""
    C, W_dcn, D, F, k, g = 1e15, 5e10, 512, 256, 4, 8
    tokens = expert_fsdp_tokens(C, g * W_dcn, E, k, P)
    copies = g // ep
    gathered = sum(E / ep / copies * 3 * D * F * 2 for _ in range(g))  # each chip brings its part over its own card
    assert gathered / (g * W_dcn) == pytest.approx(tokens * P * 6 * k * D * F / C)


def test_ep_inside_a_domain_leaves_what_its_card_brings():
    """`by_tier` of chapter 7 knows nothing of this module: Qwen3-235B on 32 hosts, experts' weights over a card in a step."""
    s, c = Slice(chip("H100"), (8,)), model("qwen-3-235b-a22b")
    of = lambda **axes: by_tier(step(c, Layout(pods=32, **axes), 2**22, 4096, s), cluster_of(s, 32))[1].bytes["weights"]  # noqa: E731
    assert [round(of(**x) / 1e9, 1) for x in (dict(ep=8, fsdp=32), dict(fsdp=256))] == [141.0, 113.9]
    experts = 2 * 2 * parameters(c).experts / 8 * 31 / 32  # gathered twice, in bf16, an eighth over each card
    assert experts / 1e9 == pytest.approx(110.0, abs=0.1)
