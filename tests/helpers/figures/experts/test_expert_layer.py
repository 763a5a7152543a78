"""A layer of experts on machines: the figure against `helpers.costs`, and its bars against its numbers."""

import random

import pytest

from helpers.costs.experts.exchange import exchange_seconds, least_width
from helpers.costs.experts.experts_met import expert_seconds
from helpers.costs.inference.serving_operations import met
from helpers.costs.racks.cluster import Cluster
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.collectives import domains_reached
from helpers.costs.transformers.public_models import model
from helpers.figures.experts.expert_layer import MACHINES, MODELS, MOST, TYPES, domains_met

NAME = "expert-layer"
GPUS = [name for name, (_, _, _, ring) in MACHINES.items() if not ring]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(quick=2)
def test_times_are_those_of_costs(figure, seed):
    r = random.Random(seed)
    for machine in GPUS:
        (name, g, _, _), m, t = MACHINES[machine], r.choice((1, 2, 3)), r.choice((1, 64, 4096))
        chosen = {
            "model": r.choice(("kimi-k2", "deepseek-v3", "glm-5")),
            "machine": machine,
            "m": m,
            "t": t,
            "types": r.choice([*TYPES]),
        }
        c, gpu, types = model(chosen["model"]), chip(name), TYPES[chosen["types"]]
        chosen["copy"] = r.choice(("one for each domain", "one for each expert"))
        reached = domains_reached(c.moe.k, m, c.moe.E) if chosen["copy"] == "one for each domain" else c.moe.k
        found, C = figure.values(chosen), gpu.rate("fp8" if types["rate"] else "bf16")
        sent = exchange_seconds(
            t, c.D, c.moe.k, g, m, gpu.link_bandwidth, gpu.dcn_bandwidth, types["dispatch"], types["combine"], reached
        )
        assert found["inside"] == pytest.approx(sent.links) and found["across"] == pytest.approx(sent.cards)
        read = met(c.moe.E, c.moe.k, t * g * m) / (g * m)
        times = expert_seconds(
            t, read, c.D, c.moe.F, c.moe.k, C, gpu.hbm_bandwidth, gpu.link_bandwidth, g * m, types["weight"]
        )
        assert found["weights"] == pytest.approx(times.weights) and found["products"] == pytest.approx(times.arithmetic)
        assert found["hides"] == (0 if sent.seconds <= times.arithmetic else 1 if sent.seconds <= times.weights else 2)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("types", list(TYPES)[:2])
def test_the_least_F_of_one_domain_is_that_of_the_formula(figure, machine, types):
    name, g, _, ring = MACHINES[machine]
    shape = (ring,) * 3 if ring else (g,)
    alone = Cluster(Slice(chip(name), shape), 1)
    found = figure.values({"model": "deepseek-v3", "machine": machine, "m": 1, "types": types})
    assert found["least"] == pytest.approx(least_width(alone, 8, dispatch=TYPES[types]["dispatch"]))


@pytest.mark.parametrize(
    ("E", "k", "m"), [(256, 8, 8), (8, 2, 4), (384, 8, 3), (512, 10, 16), (16, 4, 16), (128, 1, 2)]
)
def test_domains_met_are_those_of_chapter_7(E, k, m):
    assert domains_met(E, k, m) == pytest.approx(domains_reached(k, m, E))


def test_the_loop_is_long_enough_for_every_model():
    assert max(model(name).moe.k for name in MODELS) <= MOST


def test_more_chips_than_experts_are_refused(figure):
    said = figure.told({"model": "mixtral-8x22b", "machine": "H100 hosts of 8", "m": 2})
    assert "the 8 experts of mixtral-8x22b cannot be spread over 16 chips" in said
