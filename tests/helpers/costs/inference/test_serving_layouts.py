"""Typed deployments against every one that divides the chips."""

from itertools import product

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import at_users, completed, deployments
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

FP8 = Deployment(weights="fp8", rest="fp8")
V3, LLAMA = model("deepseek-v3"), model("llama-3-70b")


@walks(["tp=8", "dp=8", "ep=8", "tp=2,dp=4", "tp=4,ep=8", "dp=2 ep=8", "tp=2,dp=4,ep=4", "tp=2,dp=4,overlap=False"])
def test_what_is_left_out_is_everything_that_it_may_be(text):
    """Of all tp, dp and ep up to 8: what is typed is kept, what is not is 1 unless the experts' chips need it, ep is 1 or all."""
    given = dict(part.split("=") for part in text.replace(",", " ").split())
    typed = {name: int(x) for name, x in given.items() if x != "False"}
    chips = max(typed.get("tp", 1) * typed.get("dp", 1), typed.get("ep", 1))
    every = set()
    for tp, dp, ep, overlap in product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8), (False, True)):
        says = {"tp": tp, "dp": dp, "ep": ep}
        if tp * dp != chips or any(says[n] != x for n, x in typed.items()):
            continue
        if ("ep" not in typed and ep not in (1, chips)) or (overlap and (dp == 1 or "overlap" in given)):
            continue
        every.add(Deployment(tp, dp, ep, overlap=overlap))
    found = completed(V3, 16, text)
    assert len(found) == len(set(found)) and set(found) == every


def test_groups_of_a_dense_model_are_replicas():
    assert completed(LLAMA, 8, "dp=4,tp=2") == completed(LLAMA, 8, "tp=2") == [Deployment(tp=2)]
    like = Deployment(weights="fp8", cache="fp8")
    assert [(d.weights, d.cache, d.pp) for d in completed(LLAMA, None, "pp=4", like)] == [("fp8", "fp8", 4)]


@walks([d for d in deployments(V3, chip("H100"), 32) if d.replicas == 1])
def test_what_is_printed_may_be_typed(deployment):
    assert deployment in completed(V3, 32, str(deployment)) and deployment in completed(
        V3, 32, f"{deployment} replicas=1"
    )


@walks([1, 3, 16, 100])
def test_layouts_are_compared_at_the_users_that_are_asked(users):
    """None serves more than are there, and each that could serve as many does."""
    ways = list(deployments(V3, chip("H200"), 32, FP8))
    plans = at_users(V3, chip("H200"), 32, 1000, 100, users, ENGINES["sglang"], ways)
    fit = [d for d in ways if Server(V3, chip("H200"), d, ENGINES["sglang"]).most(1100) >= d.dp]
    fair = {(d.tp, d.dp, d.ep, d.overlap) for d in fit if d.dp * min(d.replicas, users) <= users}
    found = [p.deployment for p in plans]
    assert fair and {(d.tp, d.dp, d.ep, d.overlap) for d in found} == fair
    assert all(p.users <= users for p in plans)
    assert all(p.deployment.replicas == min(32 * p.deployment.replicas // p.deployment.chips, users) for p in plans)


def test_what_cannot_be_gets_one_sentence():
    refused(
        (lambda: completed(V3, 8, "tp=16"), "tp=16 takes 16 chips, and there are 8: give more chips, or a smaller layout"),
        (lambda: completed(LLAMA, 8, "dp=16"), "dp=16 takes 16 chips, and there are 8"),
        (lambda: completed(V3, 64, "tp=8,ep=3"), "ep is a part of tp·dp = 8 chips, not 3"),
        (lambda: completed(V3, 64, "ep=12"), "ep=12: ep divides tp·dp chips, and the model's 256 experts"),
        (lambda: completed(LLAMA, 256, "pp=128"), "pp=128 stages are more than the model's 80 layers"),
        (lambda: completed(V3, 8, " "), "--layout of serve is names and values such as tp=8 or dp=16,ep=16"),
        (lambda: completed(V3, 8, "tp=0"), "tp is a whole number from 1, not '0'"),
        (lambda: completed(V3, 8, "tp=2 tp=2"), "--layout names tp twice: give it once"),
        (lambda: completed(V3, 8, "tp=2,replicas=8"), "on 8 chips there are 4 replicas of 2: leave replicas out"),
        (lambda: completed(V3, 8, "zero=2"), "zero is of a training step"),
    )  # fmt: skip
