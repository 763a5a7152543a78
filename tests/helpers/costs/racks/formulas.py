"""Formulas of chapter 7, with settings of each: see tests/helpers/costs/formulas.py."""

from helpers.costs.racks import (
    cluster,
    cut,
    measured_collectives as measured,
    tiered_collectives as tiered,
    training_over_tiers,
)
from helpers.costs.rooflines import gpu_machine as gpu
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training.layout import Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import by_name

KINDS = "AllGather", "ReduceScatter", "AllReduce"
SIZES = [(1e9, 8.0, 16.0), (3e6, 72.0, 2.0), (1e3, 4.0, 3.0)]


def _moves(formula, kinds=KINDS):
    """Bytes and hops of both tiers, for each kind."""

    def listed(V, g, m):
        return tuple(x for kind in kinds for move in formula(kind, V, g, m) for x in (move.bytes, move.hops + 0 * V))

    return listed


def _both(moves):
    return tuple(x.bytes for x in moves)


def _tiles(m, n):
    t = gpu.tiled(m, n, 132)
    return t.tiles, t.waves, t.used, t.full


def _measured(size, chips, domains):
    at = size, chip("H100"), chips, domains
    return tuple(measured.measured_seconds("AllReduce", *at, a) for a in ("ring", "tree", "nvls", "collnet", "best"))


def _on_cluster(V):
    c = cluster.hosts("H100", 16)
    return tuple(
        tiered.cluster_time(c, kind, V, a).upper for kind in (*KINDS, "AllToAll") for a in tiered.algorithms(c, kind)
    )


def _switched(V, g, m):
    return tuple(
        x for kind, some in tiered.ALGORITHMS.items() for a in some for x in _both(tiered.SENT_BY[a](kind, V, g, m))
    )


def _torus(V, m):
    s = Slice(chip("v5p"), (4, 4, 4))
    return tuple(x for kind in (*KINDS, "AllToAll") for x in _both(tiered.moves_on_torus(s, m, kind, V)))


def _by_tier(fsdp, group, groups, oversubscription):
    """Bytes of weights, and seconds, in each tier of a machine of GPUs."""
    layout = Layout(tp=2.0, fsdp=fsdp, dp=2.0, pods=group * groups)
    at = step(model("llama-3-8b"), layout, 2**24, 8192, Slice(chip("H100"), (8,)))
    over = training_over_tiers.divided(
        training_over_tiers.volumes(at), layout, at.slice, group, groups, oversubscription
    )
    return tuple(y + 0 * fsdp for x in over for y in (x.bytes["weights"], x.seconds))


FORMULAS = {
    **by_name(
        (tiered.card_across_groups, [(5e10, 1.25e10, 64.0, 2.0), (5e10, 1.25e10, 32.0, 1.0), (5e10, 5e10, 1.0, 1.0)]),
        (tiered.nvls_bus_bandwidth, [(309.0, 8.0), (309.0, 2.0)]), (tiered.nvls_from, [(370.0, 309.0)]),
        (tiered.domains_reached, [(8.0, 8.0), (2.0, 16.0)]),
        (tiered.sms_to_take, [(1e-3, 2e-2, 132.0)]),
        (training_over_tiers.data_tokens,
         [(9.89e14, 8.0, 128.0, 4.5e11, 5e10, 1.0, 16384.0), (2.5e15, 72.0, 16.0, 9e11, 5e10, 8.0, 28672.0)]),
        (training_over_tiers.tensor_share, [(2.5e15, 8.0, 9e11, 28672.0)]), (tiered.card_messages, [(8.0, 32.0)]),
        (training_over_tiers.hsdp_tokens, [(9.89e14, 8.0, 128.0, 4.5e11, 5e10)]),
        (training_over_tiers.tensor_width, [(9.89e14, 8.0, 8.0, 4.5e11, 5e10), (2.5e15, 144.0, 72.0, 9e11, 5e10)]),
        (training_over_tiers.expert_width_over_domains, [(9.89e14, 8.0, 8.0, 8.0, 4.5e11, 5e10, 4.0)]),
        (gpu.bytes_in_flight, [(3.35e12, 4e-7)]),
        (gpu.rate_in_flight, [(1e6, 4e-7, 3.35e12), (1e7, 4e-7, 3.35e12)]), (gpu.warps_in_flight, [(3.35e12, 4e-7, 132.0, 16.0, 4.0)]),
        (gpu.stages_in_flight, [(3.35e12, 4e-7, 132.0, 49152.0)]), (gpu.tile_intensity, [(128.0, 256.0, 2.0)]),
        (gpu.l2_rate, [(9.89e14, 128.0, 256.0)]),
    ),
    "divided": (_by_tier, [(64.0, 8.0, 4.0, 2.0), (8.0, 4.0, 1.0, 1.0)]), "cluster_time": (_on_cluster, [(1e3,), (1e9,)]),
    "sent by each algorithm": (_switched, [*SIZES, (1e6, 8.0, 1.0)]), "moves_on_torus": (_torus, [(1e9, 2.0), (1e3, 1.0)]),
    "needs": (lambda X, n: tuple(cut.needs(kind, X, n) for kind in (*KINDS, "AllToAll")), [(8.0, 16.0), (1.0, 64.0)]),
    "bus_factor": (lambda n: tuple(tiered.bus_factor(kind, n) for kind in (*KINDS, "AllToAll")), [(2.0,), (72.0,)]),
    "flat_ring": (_moves(tiered.flat_ring), [*SIZES, (1e6, 8.0, 1.0)]), "hierarchical": (_moves(tiered.hierarchical), SIZES),
    "in_network": (_moves(tiered.in_network), [*SIZES, (1e6, 8.0, 1.0)]),
    "double_tree": (_moves(tiered.double_tree, ("AllReduce",)), [*SIZES, (1e6, 8.0, 8.0)]),
    "switches_across": (lambda V, g: _both(tiered.switches_across("AllReduce", V, g, 2)), [(1e9, 8.0), (1e6, 4.0)]),
    "swap_tiers": (lambda V, g, m: tuple(x for a in (False, True) for x in _both(tiered.swap_tiers(V, g, m, a))), SIZES),
    "dispatch":
        (lambda V, k, g, m, r: (*_both(tiered.dispatch(V, k, g, m)), *_both(tiered.dispatch(V, k, g, m, r))), [(1e6, 8.0, 8.0, 8.0, 4.0)]),
    "alpha_beta": (
        lambda V, W, hop: tiered.alpha_beta(tiered.hierarchical("AllReduce", V, 8, 4), W, 5e10, hop, 2 * hop).upper,
        [(1e9, 4.5e11, 1e-6)],
    ),
    "overtakes": (lambda a, b, c, d: tiered.overtakes((a, b), (c, d)), [(8e-5, 6e-12, 3e-4, 5e-12)]),
    "without_sms": (lambda t, taken: tiered.without_sms(t, taken, 132), [(1e-3, 20.0)]),
    "tiled": (_tiles, [(8192.0, 8448.0), (8193.0, 8448.0)]), "measured_seconds": (_measured, [(1e9, 8.0, 1.0), (1e6, 32.0, 4.0)]),
    "bus_bandwidth": (lambda size, n: measured.bus_bandwidth("AllReduce", size, chip("H100"), n, algorithm="nvls"), [(1e9, 8.0)]),
}  # fmt: skip
