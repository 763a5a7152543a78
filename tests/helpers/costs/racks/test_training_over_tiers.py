"""What a step sends over each tier, against every message, the closed forms of chapter 7, and the seconds of the floor."""

from math import prod
from random import Random

import pytest

from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.tiered_collectives import dispatch, domains_reached
from helpers.costs.racks.training_over_tiers import by_tier, cluster_of, divided, volumes
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import AXES, Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks
from tests.tiers import repeats

HOST, RACK, CUBE = (Slice(chip(n), s) for n, s in (("H100", (8,)), ("GB200", (64,)), ("v5p", (4, 4, 4))))
LLAMA, MOE = model("llama-3-8b"), model("mixtral-8x7b")


def laid(seed: int, experts: bool = False) -> Layout:
    """Some layout of 512 chips, 64 hosts of 8."""
    r, axes = Random(seed), dict.fromkeys(AXES, 1)
    for _ in range(9):
        some = [a for a in AXES if a != "ep" or (experts and axes["ep"] < 8)]
        some = [a for a in some if (a, axes[a]) not in (("tp", 8), ("cp", 8), ("pp", 16))]
        axes[r.choice(some)] *= 2
    return Layout(**axes, pods=64, zero=r.randrange(4), microbatches=axes["pp"])


def of(layout: Layout, s=HOST, c=LLAMA):
    return step(c, layout, 2**24, 8192, s, hop=0.0)


def sent_by(members, tier_of, seconds_of):
    """Bytes of the array that the busiest member sends in each tier, if a gather goes outside first: every message, one by one.

    members  chips of a group; each begins with its own block, of n. tier_of: the tier that two chips meet in
    """
    out = {c: [0.0, 0.0, 0.0] for c in members}
    held = {c: {c} for c in members}
    for tier in (2, 1, 0):
        new = {c: set(blocks) for c, blocks in held.items()}
        for a in members:
            for b in members:
                if a != b and tier_of(a, b) == tier and seconds_of(a, b, tier):
                    out[a][tier] += len(held[a]) / len(members)
                    new[b] |= held[a]
        held = new
    assert all(h == set(members) for h in held.values())
    return [max(x[t] for x in out.values()) for t in range(3)]


@walks([(4, 1, 1), (2, 4, 1), (8, 2, 4), (1, 4, 2), (4, 2, 2)])
def test_a_gather_by_every_message(n):
    """fsdp over so many chips of a domain, domains of a group, and groups: who stands at the same place below a tier talks in it."""
    inside, group, groups = n
    members = [(x, y, z) for z in range(groups) for y in range(group) for x in range(inside)]
    meet = lambda a, b: 2 if a[2] != b[2] else 1 if a[1] != b[1] else 0  # noqa: E731
    aligned = lambda a, b, tier: a[:tier] == b[:tier]  # noqa: E731
    want = sent_by(members, meet, aligned)
    chips = prod(n)
    s = Slice(chip("H100"), (inside,))
    at = step(LLAMA, Layout(fsdp=chips, pods=group * groups), 2**24, 8192, s, hop=0.0)
    gathers = sum(x.bytes * x.times for x in at.sent if x.kind == "AllGather")
    over = divided(volumes(at), at.layout, s, group, groups)
    assert [x.bytes["weights"] / gathers for x in over] == pytest.approx(want)


@walks([8, 32, 64])
def test_the_seconds_of_all_tiers_are_those_of_the_floor(group):
    """Without hops and oversubscription the tiers divide what `layout.wires` adds up; an AllToAll over tp and ep has one place."""
    c = Cluster(HOST, 64, 0 if group == 64 else group)
    for seed in range(repeats(20, 60)):
        experts = seed % 2 == 1
        layout = laid(seed, experts)
        if experts and layout.tp > 1 and layout.ep > 1:
            continue
        at = of(layout, c=MOE if experts else LLAMA)
        total = sum(one.seconds for one in at.sent)
        assert sum(x.seconds for x in by_tier(at, c)) == pytest.approx(total, rel=1e-12), layout


def test_tokens_leave_a_domain_once_for_each_other_domain():
    """ep over 8 hosts of one GPU each, and inside: a chip's own tokens and copies are those of `dispatch`."""
    lone = Slice(chip("H100"), (1,))
    at = step(MOE, Layout(ep=8, pods=8), 2**22, 8192, lone, hop=0.0)
    one = next(x for x in at.sent if x.kind == "AllToAll")
    k = one.copies
    mine = one.bytes / 8 / k  # a chip's tokens, one copy of each
    times = sum(x.times for x in at.sent if x.kind == "AllToAll")
    inside, across = dispatch(mine, k, 1, 8, domains_reached(k, 8))
    over = by_tier(at, Cluster(lone, 8))
    assert [x.bytes["experts"] / times for x in over] == pytest.approx([inside.bytes, across.bytes])


def test_stages_hand_on_over_the_tier_between_them():
    def handed(**axes):
        at = of(Layout(**axes, microbatches=16))
        sent = sum(x.bytes * x.times for x in at.sent if x.kind == "Permute")
        return [x.bytes["stages"] / sent for x in by_tier(at, Cluster(HOST, 64, 16))]

    assert handed(tp=4, pp=2, dp=1, fsdp=64, pods=64)[1:] == [0, 1]  # fsdp lies inside: two halves of the machine
    assert handed(fsdp=32, pp=16, pods=64) == pytest.approx([0, 1 - 1 / 4, 1 / 4])


def test_a_slice_has_its_links_and_slices_the_network():
    at = step(LLAMA, Layout(fsdp=16, tp=4, pods=2), 2**22, 8192, CUBE, hop=0.0)
    slice_, network = by_tier(at, cluster_of(CUBE, 2))
    assert slice_.seconds == pytest.approx(sum(x.seconds for x in at.sent if "pods" not in x.axes))
    assert network.seconds == pytest.approx(sum(x.seconds for x in at.sent if "pods" in x.axes)) and network.seconds > 0
    assert network.bytes["gradients"] == pytest.approx(network.seconds * chip("v5p").dcn_bandwidth)
    assert len(by_tier(step(LLAMA, Layout(fsdp=64), 2**22, 8192, CUBE), cluster_of(CUBE))) == 1


def test_it_says_which_cluster_does_not_fit():
    refused(
        (lambda: by_tier(of(laid(0)), Cluster(HOST, 32)), "the step is of 64 x 8 chips, and the cluster has 32 x 8"),
        (lambda: cluster_of(CUBE, 2, oversubscription=2.0), "groups and oversubscription are of GPUs"),
    )
    assert cluster_of(RACK, 16).group == 8
