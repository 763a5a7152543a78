"""Formulas of chapter 8, with settings of each: see tests/helpers/costs/formulas.py."""

from helpers.costs.experts import exchange, experts_met as met, measured, two_meshes
from helpers.costs.experts.two_meshes import Folding
from helpers.costs.racks.cluster import hosts, slices
from tests.helpers.costs.tables import by_name

H800 = (1.979e15, 3.35e12, 5e10, 144.0)  # C, W_hbm, W of a card, devices


def _sends(t, D, F, E, k, etp, ep, edp):
    x = two_meshes.expert_sends(t, D, F, E, k, Folding(etp, ep, edp))
    return x.exchange, x.tensor, x.gradients


def _held(experts, rest, pp, tp, ep):
    return two_meshes.held_bytes(experts, rest, pp, tp, Folding(1, ep, 2)).total


def _exchange(t, D, k, g, m):
    x = exchange.exchange_seconds(t, D, k, g, m, 4.5e11, 5e10, 1, 2, reached=4.0)
    return x.links, x.cards, x.seconds


def _layer(t, experts, D, F, k):
    x = met.expert_seconds(t, experts, D, F, k, *H800)
    return x.weights, x.arithmetic, x.exchange


def _crossings(experts, F, k):
    x = met.crossings(experts, F, k, *H800)
    return x.arithmetic, x.exchange, x.F


def _work(t, D, F, E, k, ep):
    x = measured.expert_work(t, D, F, E, k, ep)
    shares = measured.KernelShares(5e-5, 0.6, 0.5, 0.5)
    return x.weights, x.flops, x.links, measured.kernel_seconds(x, shares, 1.979e15, 4.8e12, 4.5e11)


FORMULAS = {
    **by_name(
        (two_meshes.attention_sends, [(4096.0, 4096.0, 4.0)]),
        (two_meshes.expert_fsdp_tokens, [(5e15, 3.6e12, 384.0, 6.0, 16.0)]),
        (exchange.copy_bytes, [(7168.0,)]),
        (exchange.largest_gather, [(8.0, 1536.0, 2500.0)]),
        (met.row_bytes, [(7168.0, 2048.0)]),
        (met.ragged_intensity, [(350.0, 7168.0, 2048.0)]),
        (met.compute_bound_rows, [(7168.0, 2048.0, 1.979e15, 3.35e12)]),
        (measured.half_batches, [(6.6, 4.6, 10.8, 22.1), (6.6, 4.6, 10.8, 60.0)]),
        (measured.cached_tokens, [(8.0, 1.27e11, 6.5e11, 1.6e10, 35136.0)]),
    ),
    "expert_sends": (_sends, [(4096.0, 4096.0, 1536.0, 128.0, 8.0, 4.0, 2.0, 2.0), (64.0, 32.0, 16.0, 8.0, 2.0, 4.0, 1.0, 1.0)]),
    "held_bytes": (_held, [(6.5e11, 1.7e10, 16.0, 1.0, 64.0)]),
    "least_width": (lambda k, share: exchange.least_width(hosts("H100", 8), k, "fp8", 1, 2, 4.0, share), [(8.0, 0.8), (1.0, 1.0)]),
    "least_width on a torus": (lambda share: exchange.least_width(slices("v5p", (4, 4, 8)), 8, share=share), [(0.5,), (1.0,)]),
    "exchange_seconds": (_exchange, [(4096.0, 7168.0, 8.0, 8.0, 8.0)]),
    "met_unevenly": (lambda tokens: met.met_unevenly([0.5, 0.25, 0.25], tokens), [(1.0,), (8.0,)]),
    "expert_seconds": (_layer, [(88.0, 2.0, 7168.0, 2048.0, 8.0)]), "crossings": (_crossings, [(2.0, 2048.0, 8.0)]),
    "expert_work": (_work, [(512.0, 4096.0, 2048.0, 256.0, 6.0, 8.0), (1.0, 4096.0, 2048.0, 256.0, 6.0, 8.0)]),
    "kernel_seconds": (lambda t: _work(t, 4096, 2048, 256, 6, 8)[-1], [(8.0,), (8192.0,)]),
}  # fmt: skip
