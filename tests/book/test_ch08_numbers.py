"""Every number of the sources that chapter 8 uses, computed again by `helpers`; values are typed here with where they stand.

B is Megatron Bridge, docs/training/moe-optimization.md; D DeepEP, docs/legacy.md; E the README of EPLB; G DeepGEMM's pull request 316;
I InferenceX's issue 1061; M the Megatron MoE model zoo; R the DeepSeek-V3 report; V vLLM's pull request 13932; P what the page says
itself, rounded there.
"""

from helpers.costs.experts.balance import (
    dropped_share,
    expert_placement,
    fullest_distribution,
    placed_imbalance,
)
from helpers.costs.experts.exchange import copy_bytes, exchange_seconds, groups_met, least_width
from helpers.costs.experts.experts_met import crossings, expert_seconds, met_unevenly, padding, popularity
from helpers.costs.experts.measured import half_batches
from helpers.costs.experts.two_meshes import (
    Folding,
    attention_sends,
    expert_fsdp_tokens,
    expert_sends,
    foldings,
    held_bytes,
)
from helpers.costs.inference.serving_operations import expected_imbalance, met
from helpers.costs.racks.cluster import hosts, slices
from helpers.costs.rooflines.chips import chip
from helpers.costs.sharding.collectives import domains_reached
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.public_models import model
from tests.book.stated import near
from tests.helpers.costs.tables import walks

H100, H800, GB200 = (chip(name) for name in ("H100", "H800", "GB200"))
V3, QWEN, K2 = model("deepseek-v3"), model("qwen-3-235b-a22b"), model("kimi-k2")
FP8 = dict(dtype="fp8", dispatch=1)
ONE = hosts("H100", 1), hosts("B200", 1), hosts("GB200", 1, chips=64)
LIMITED = groups_met(256, 8, 8, 4)
LOADS = [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86]
LAYER = (4096, QWEN.D, QWEN.moe.F, 128, 8)


def share_of_experts(T: int) -> float:
    """Of Qwen3-235B's FLOPs, under a causal mask."""
    f = flops(QWEN, 1, T)
    return f.experts / (sum(f.by_role.values()) - f.attention / 2)


def held(c, pp: int, ep: int, edp: int):
    p = parameters(c)
    x = held_bytes(p.experts, p.total - p.experts, pp, 1, Folding(1, ep, edp))
    return tuple(b / 1e9 for b in (x.experts, x.others, x.state, x.total))


CLAIMS = {
    # sizes
    "P: total over active": (
        tuple(parameters(c).total / parameters(c).active for c in (V3, QWEN, K2, model("gpt-oss-120b"))),
        (17.9, 10.6, 31.2, 20.5)),
    # two meshes
    "B: 64 of 256 chips are a stage, ep up to all of them": (max(f.ep for f in foldings(4, 2, 8)), 64),
    "P: bytes of attention, ep 8, etp 8, etp 4 and ep 2, MB": (
        (attention_sends(4096, QWEN.D, 4) / 1e6, expert_sends(*LAYER, Folding(1, 8, 1)).exchange / 1e6,
         expert_sends(*LAYER, Folding(8, 1, 1)).tensor / 1e6,
         (expert_sends(*LAYER, Folding(4, 2, 1)).exchange + expert_sends(*LAYER, Folding(4, 2, 1)).tensor) / 1e6), (201, 470, 470, 1879)),
    "P: gradients over edp 2, GB": (expert_sends(*LAYER, Folding(1, 4, 2)).gradients / 1e9, 1.21),
    "P: GB of a chip, V3": (held(V3, 16, 64, 2), (3.83, 6.42, 3.93, 14.2)),
    "P: GB of a chip, K2": (held(K2, 16, 16, 8), (23.8, 4.4, 6.0, 34.2)),
    # the exchange
    "P: least F, bf16": (tuple(least_width(c, 8) for c in ONE), (1282, 1458, 1823)),
    "P: least F, fp8 there": (tuple(least_width(c, 8, dispatch=1) for c in (hosts("H100", 1), slices("v5p", (4, 4, 4)))), (962, 1275)),
    "P: least F, fp8": (tuple(least_width(c, 8, **FP8) for c in ONE), (1924, 2188, 2734)),
    "P: without the share at home": (3 / 6 * H100.rate("fp8") / H100.link_bandwidth, 2199),
    "P: over eight hosts, bf16": (
        tuple(least_width(hosts("H100", 8), 8, reached=n) for n in (None, domains_reached(8, 8, E=256), 3.95)), (11538, 7636, 5697)),
    "R: products and exchange of a layer, ms": (
        (6e3 * 4096 * 8 * 7168 * 2048 / H800.rate("fp8"),
         1e3 * exchange_seconds(4096, 7168, 8, 8, 8, 2e11, 5e10, dispatch=1 + 1 / 32, reached=LIMITED).cards), (1.46, 6.17)),
    "D: MB of 128 tokens, there and back, within two per cent": (
        (128 * 8 * copy_bytes(7168) / 1e6, 128 * 8 * copy_bytes(7168, "bf16") / 1e6), (7.57, 14.68)),
    # weights that travel
    "P: tokens of FSDP on racks, and with 16 stages": (
        tuple(expert_fsdp_tokens(GB200.rate("fp8"), 72 * 5e10, 384, 6, P) for P in (1, 16)), (88889, 5556)),
    # experts met
    "P: met of 256": (tuple(met(256, 8, B) for B in (1, 8, 32, 128)), (8, 57.4, 163, 252)),
    "G: experts read, measured and predicted": ((56.5e-6 * 1311e9 / (3 * 4096 * 2048 * 4.25 / 8), met(256, 6, 8) / 8), (5.54, 5.53)),
    "I: met of 128 at 64 tokens": (met(128, 4, 64), 111.2),
    "P: met unevenly": (met_unevenly(popularity([(1 + e) ** -0.5 for e in range(256)], 8), 32), 147),
    "P: microseconds on H800": (
        tuple(1e6 * seconds for seconds in vars(expert_seconds(88, 2, 7168, 2048, 8, 1.979e15, 3.35e12, 5e10, 144)).values()),
        (26.3, 31.3, 300.7)),
    "P: the exchange passes the weights": (
        (crossings(2, 2048, 8, 1.979e15, 3.35e12, 5e10, 144).exchange, crossings(4, 2048, 8, 5e15, 8e12, 9e11, 64).exchange), (7.7, 117)),
    # the load
    "P: by chance": ((expected_imbalance(512, 256, 8, 8), expected_imbalance(4096, 256, 8, 64)), (1.06, 1.10)),
    "M: forced over own, shares, factors": (
        (295 / 237, 389 / 357, share_of_experts(16384), share_of_experts(131072),
         1 + (295 / 237 - 1) / share_of_experts(16384), 1 + (389 / 357 - 1) / share_of_experts(131072)),
        (1.245, 1.090, 0.415, 0.116, 1.59, 1.77)),
    "E: imbalance of the printed plan, and of a free one": (
        tuple(placed_imbalance(LOADS, expert_placement(LOADS, 16, n, m, 8), 8) for n, m in ((4, 2), (1, 1))), (1.208, 1.073)),
    "P: dropped": (tuple(dropped_share(T, 64, 2) for T in (64, 512, 4096)), (0.2664, 0.0977, 0.0347)),
    "P: fullest of four": (sum(n * p for n, p in fullest_distribution(8, 4, 1, 4).items()), 3.5381),
    # whole steps
    "D: share of V3's decode step": (58 * (192e-6 + 369e-6) * 88 / 128 / 0.048, 0.466),
    "P: two half batches, ms": (half_batches(6.6, 4.6, 10.8, 22.1), (44.1, 28.6)),
    "M: exposed at least": ((19.7 - 17.6) / 19.7, 0.107),
    # few rows
    "P: padding": (tuple(padding(float(n)) for n in (8, 64, 350)), (8.0, 1.47, 1.09)),
    "V: reading all weights, ms": (256e3 * 3 * 7168 * 2048 / 3.35e12, 3.37),
    "P: tokens from which attention is better data-parallel": (
        (parameters(V3).total - parameters(V3).experts - parameters(V3).embedding) / (61 * 576), 461e3),
}  # fmt: skip


@walks(CLAIMS)
def test_number(claim):
    near(*CLAIMS[claim])


def test_printed_plan_of_eplb():
    assert expert_placement(LOADS, 16, 4, 2, 8) == (5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1)
    assert sum(LOADS) == 1033
