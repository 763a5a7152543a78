"""Strategies of training: run line by line on simulated devices, and against the sources' numbers; and what microbatches send."""

import string
from collections import Counter

import numpy as np
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.costs.training import closed_forms as experts, dp_fsdp_tp as strategies, training_step
from helpers.costs.training.closed_forms import WAYS, accumulation_bytes
from helpers.costs.training.dp_fsdp_tp import STRATEGIES, algorithm, best_split, cost, data_ratio
from helpers.costs.training.layout import Layout
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

V5P = chip("v5p")
SIZES = {"B": 16, "D": 24, "F": 32}
MESHES = {"DP": {"X": 4}, "FSDP": {"X": 4}, "TP": {"Y": 4}, "FSDP+TP": {"X": 4, "Y": 2}}


def scattered(whole, a, mesh):
    """One block for each device."""
    return [whole[tuple(slice(*r) for r in a.slices(at, SIZES, mesh))] for at in mesh.coordinates()]


def summed(blocks, a, mesh):
    """The whole array, from every device's block: partial sums add up, copies must agree."""
    whole, seen = np.zeros([SIZES[d] for d in a.dims]), {}
    for block, at in zip(blocks, mesh.coordinates()):
        where = tuple(slice(*r) for r in a.slices(at, SIZES, mesh))
        key = (str(where), *(at[u] for u in a.unreduced))
        if key in seen:
            np.testing.assert_allclose(block, seen[key], rtol=1e-12)
        else:
            seen[key] = block
            whole[where] += block
    return whole


def run(lines, held, mesh):
    """Run an algorithm on blocks. A product sees what its device holds; a collective is the new sharding of the same array."""
    flops, sent = Counter(), Counter()
    letter = dict(zip("BDF", string.ascii_lowercase))
    for line in lines:
        blocks = []
        for a in line.operands:
            have, _ = held[a.name]
            assert have == a, f"{line} takes {a}, and the device has {have}"
        if line.kind == "Matmul":
            dims = ["".join(letter[d] for d in a.dims) for a in (*line.operands, line.result)]
            for device in range(mesh.devices):
                one, two = (held[a.name][1][device] for a in line.operands)
                blocks.append(np.einsum(f"{dims[0]},{dims[1]}->{dims[2]}", one, two))
                spent = 2 * np.prod([size for _, size in {*zip(dims[0], one.shape), *zip(dims[1], two.shape)}])
                flops[device] += spent
            contracted = next(d for d in line.operands[0].dims if d not in line.result.dims)
            assert line.operands[0].at(contracted) == line.operands[1].at(contracted) == line.result.unreduced
        else:
            (a,) = line.operands
            before = held[a.name][1]
            blocks = scattered(summed(before, a, mesh), line.result, mesh)
            big = max(before[0].size, blocks[0].size)
            for axis in line.axes:
                sent[axis] += 2 * big * (2 if line.kind == "AllReduce" else 1)
        held[line.result.name] = (line.result, blocks)
    assert len(set(flops.values())) == 1
    return flops[0], sent


@walks(STRATEGIES, [False, True])
def test_an_algorithm_computes_the_dense_gradients(strategy, keep):
    """The lines, run on blocks, give the dense layer's gradients, and FLOPs and bytes of the table."""
    mesh = Mesh(MESHES[strategy])
    draw = np.random.default_rng(0)
    whole = {
        name: draw.normal(size=[SIZES[d] for d in dims])
        for name, dims in {"In": "BD", "W_in": "DF", "W_out": "FD", "dOut": "BD"}.items()
    }
    lines = algorithm(strategy, keep)
    first = {}
    for line in (*lines.forward, *lines.backward):
        for a in line.operands:
            if a.name in whole:
                first.setdefault(a.name, a)
    held = {name: (a, scattered(whole[name], a, mesh)) for name, a in first.items()}
    own = dict(held)
    forward = run(lines.forward, held, mesh)
    for name in held.keys() & own.keys() - ({"In"} if keep else set()):  # what was gathered is dropped
        held[name] = own[name]
    backward = run(lines.backward, held, mesh)

    In, W_in, W_out, dOut = whole.values()
    dTmp = dOut @ W_out.T
    dense = {"Out": In @ W_in @ W_out, "dW_out": (In @ W_in).T @ dOut, "dW_in": In.T @ dTmp, "dIn": dTmp @ W_in.T}
    for name, want in dense.items():
        np.testing.assert_allclose(summed(held[name][1], held[name][0], mesh), want, rtol=1e-9, atol=1e-9)
    assert held["Out"][0].axes == held["dIn"][0].axes == own["In"][0].axes  # so that layers stack
    for p, (flops, sent) in zip(cost(strategy, **SIZES, **MESHES[strategy], keep_gathered=keep), (forward, backward)):
        assert p.flops == flops and {a: b for a, b in p.bytes.items() if b} == sent


def test_what_each_strategy_sends():
    """Kinds and numbers of collectives, and which of them the next product waits for."""

    def kinds(lines):
        return Counter((a.kind, a.axes[0], a.waits) for a in lines if a.kind != "Matmul")

    AG, RS, AR = "AllGather", "ReduceScatter", "AllReduce"
    dp, fsdp, tp, mixed = map(algorithm, STRATEGIES)
    assert not kinds(dp.forward) and kinds(dp.backward) == {(AR, "X", False): 2}
    assert kinds(fsdp.forward) == {(AG, "X", False): 2}
    assert kinds(fsdp.backward) == {(AG, "X", False): 2, (RS, "X", False): 2}  # with the forward pass 3 for each matrix
    assert kinds(tp.forward) == {(AG, "Y", True): 1, (RS, "Y", True): 1}
    assert kinds(tp.backward) == {(AG, "Y", True): 1, (RS, "Y", True): 1, (AG, "Y", False): 1}
    assert kinds(mixed.forward) == kinds(fsdp.forward) + kinds(tp.forward)
    assert kinds(mixed.backward) == kinds(fsdp.backward) + kinds(tp.backward)


def slower(strategy, B, D, F, X, Y, M):
    """T_math / T_comms of the forward pass (for DP the backward one), from the bytes and FLOPs of the lines."""
    p = cost(strategy, B, D, F, X, Y)[strategy == "DP"]
    t = p.time(V5P.rate(), V5P.link_bandwidth, M)
    return t.math / max(s for a, s in t.parts.items() if a != "math")


def test_thresholds_are_where_arithmetic_takes_as_long():
    """Each closed form at its own limit, against the bytes and FLOPs of the algorithm."""
    D, F = 8192, 28672
    for M in (1, 2, 3):
        B = strategies.data_batch(V5P.alpha_ici(), M) * 512
        for s in ("DP", "FSDP"):
            assert slower(s, B, D, F, 512, 1, {"X": M}) == pytest.approx(1)
            assert slower(s, 2 * B, D, F, 512, 1, {"X": M}) == pytest.approx(
                strategies.data_ratio(2 * B, 512, V5P.alpha_ici(), M)
            )
        assert strategies.chips_limit(B, strategies.data_batch(V5P.alpha_ici(), M)) == 512
        Y = strategies.tensor_limit(F, V5P.alpha_ici(), M)
        for B in (1e3, 1e6):
            assert slower("TP", B, D, F, 1, Y, {"Y": M}) == pytest.approx(1)
            assert slower("TP", B, D, F, 1, 64, {"Y": M}) == pytest.approx(
                strategies.tensor_ratio(F, 64, V5P.alpha_ici(), M)
            )


@walks([(48000, 32768, 64, 2, 1), (3e6, 13824, 4096, 2, 1), (1e6, 28672, 8960, 1, 2)])
def test_X_opt_is_the_least_of_the_slower_one(B, F, N, M_X, M_Y):
    """X_opt, the ratio and the smallest batch, against a fine grid of real X over the bytes of the lines."""
    grid = np.exp(np.linspace(0, np.log(N), 200_001))
    p, _ = cost("FSDP+TP", B, 8192, F, grid, N / grid)
    t = p.time(V5P.rate(), V5P.link_bandwidth, {"X": M_X, "Y": M_Y})
    comms = np.maximum(t.parts["X"], t.parts["Y"])
    best = grid[np.argmin(comms)]
    assert strategies.X_opt(B, F, N, M_X, M_Y) == pytest.approx(best, rel=1e-4)
    ratio = t.math[0] / comms.min()
    assert strategies.mixed_ratio(B, F, N, V5P.alpha_ici(), M_X, M_Y) == pytest.approx(ratio, rel=1e-4)
    least = strategies.mixed_batch(F, V5P.alpha_ici(), M_X, M_Y)
    assert B / N / least == pytest.approx(ratio**2, rel=1e-3)  # as the ratio grows with the square root of B


def test_whole_splits_beside_the_formula():
    """The exact search ends at a neighbour of X_opt among the divisors, and both win in a tie."""
    for B in (1e4, 48e3, 1e6, 3e6):
        for N in (64, 4096, 8960):
            divisors = [d for d in range(1, N + 1) if N % d == 0]
            X = strategies.X_opt(B, 32768, N, 2, 1)
            near = {max((d for d in divisors if d <= X), default=1), min((d for d in divisors if d >= X), default=N)}
            assert set(best_split(B, 32768, N)) <= near
    assert best_split(32768 * 32 * 2, 32768, 4, 2, 1) == (4,)
    tie = best_split(2 * 4096, 4096, 64, 1, 1)  # F·X = B·N/X at X² = 128, between 8 and 16
    assert tie == (8, 16)


def test_data_parallelism_over_pods():
    """Gradients over the network, sent by all chips of a slice, take as long as the backward pass of that many tokens."""
    from helpers.costs.sharding.collectives import over_dcn
    from helpers.costs.sharding.sharded_array import Axis

    D, F, M = 8192, 28672, 8960
    for pods in (2, 3, 8, 1000):  # two of them ask for half of C/W_dcn, many for nearly all
        B = pods * strategies.slice_batch(V5P.alpha_dcn(), pods)
        _, backward = cost("DP", B, D, F, X=pods * M)
        sent = [m for m in over_dcn("AllReduce", 2 * D * F, Axis(M), pods) if m.link == "dcn"]
        dcn = 2 * sum(m.bytes for m in sent) / V5P.dcn_bandwidth  # two matrices
        assert dcn == pytest.approx(backward.flops / V5P.rate())


def test_on_real_rings_the_best_mesh_is_that_of_the_formula():
    """Whole axes of 4x4x4, with latency and rings, against X_opt; at large batches all axes go to the batch."""
    cube = Slice(V5P, (4, 4, 4))
    assert strategies.best_mesh(48000, 8192, 32768, cube).sizes == {"X": 16, "Y": 4}
    assert strategies.best_mesh(64 * 4096, 8192, 32768, cube).sizes == {"X": 64, "Y": 1}
    f, b = strategies.times("FSDP+TP", 48000, 8192, 32768, Mesh.on(cube, {"X": (0, 1), "Y": (2,)}), V5P)
    want, _ = cost("FSDP+TP", 48000, 8192, 32768, 16, 4)
    plain = want.time(V5P.rate(), V5P.link_bandwidth, {"X": 2, "Y": 1})
    assert {a: f.parts[a] for a in plain.parts} == pytest.approx(plain.parts)  # even rings, large arrays
    assert b.math == 2 * f.math and parse("W_in[D_X, F_Y]") in algorithm("FSDP+TP").forward[1].operands
    line = strategies.times("TP", 512, 8192, 8192, Mesh.on(Slice(chip("v5e"), (4, 1)), "YX"), chip("v5e"))[0]
    assert line.parts["Y"] == pytest.approx(4 * 512 * 8192 * 0.75 / 4.5e10)  # no wraparound: 3/4 of it over one link


def test_errors_say_what_would_be_right():
    gather = algorithm("FSDP").forward[0]
    refused(
        (lambda: algorithm("ZeRO"), "'ZeRO' is no strategy: there are DP, FSDP, TP, FSDP"),
        (lambda: cost("TP", 8, 8, 8, X=2, Y=2), "TP has no axis X: its axes are Y"),
        (lambda: strategies.best_mesh(3, 8, 8, Slice(V5P, (4, 4, 4))), "no split of 64 chips over X and Y divides"),
        (
            lambda: gather.collective(SIZES | {"D": 6}, Mesh({"X": 4})),
            "X is 4 and does not divide D = 6; .* are 4 and 8",
        ),
    )


LLAMA, CUBE = model("llama-2-13b"), Slice(chip("v5p"), (4, 4, 4))


def test_fsdp_needs_its_tokens_in_each_microbatch():
    """Links outlast arithmetic eight times as soon with eight microbatches (attention and the head apart, so T is short)."""
    for m in (1, 2, 8):
        at = training_step.step(LLAMA, Layout(fsdp=64, microbatches=m, policy="everything"), 2**20, 256, CUBE)
        forward = sum(s.seconds for s in at.sent if s.when == "forward")
        math = at.parts["math"] / 3
        ratio = data_ratio(at.tokens, 64, 2550, 3, m)
        assert math / forward == pytest.approx(ratio, rel=0.03)


def test_a_way_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'ZeRO-4' is no way to add gradients up: there are DP, DP, summed once"):
        accumulation_bytes("ZeRO-4", 1, 1, 1)
    assert all(not way.cut or way.micro[1] for way in WAYS.values())  # what is cut was scattered each time


def links_of(shape, wraps):
    """The most bytes that a link carries, one direction, if each chip of a torus sends 1/chips to every one, axis by axis."""
    from collections import Counter
    from itertools import product

    chips = list(product(*map(range, shape)))
    load = Counter()
    for a, b in product(chips, chips):
        at = list(a)
        for i, n in enumerate(shape):
            far = b[i] - at[i]
            ways = [(+1, far % n), (-1, -far % n)] if wraps else [(+1, far), (-1, -far)]
            least = min(d for _, d in ways if d >= 0)
            best = [(sign, d) for sign, d in ways if d == least and d]
            for sign, d in best:  # what is as far both ways goes half each way
                x = list(at)
                for _ in range(d):
                    load[i, sign, tuple(x)] += 1 / len(best) / len(chips)
                    x[i] = (x[i] + sign) % n
            at[i] = b[i]
    return max(load.values())


@walks([((4,), True), ((5,), True), ((4, 8), True), ((2, 3, 4), True), ((4,), False), ((5, 3), False)])
def test_widths_on_a_torus_are_those_of_counted_links(shape, wraps):
    """A device sends 1, of which the busiest link carries that much: F where twice this takes as long as the products."""
    wraps = wraps and max(shape) > 2
    W, C, D, t, k = 9e10, 4.59e14, 64, 100, 2
    sends = links_of(shape, wraps) * 2 * t * k * D / W  # seconds of one AllToAll
    F = experts.expert_width_on_rings(C / (2 * W), max(shape), wraps)
    assert 6 * t * k * D * F / C == pytest.approx(2 * sends)


def test_a_predicted_step_waits_for_its_experts_where_the_formula_says():
    """`training.step` on a cube of v5p: seconds of both AllToAlls over those of the experts' products, forward."""
    c, cube = model("deepseek-v3"), Slice(chip("v5p"), (8, 8, 8))
    at = training_step.step(c, Layout(ep=8, fsdp=64), 2**21, 4096, cube)
    layers = sum(n for kind, n in c.groups if kind.moe)
    sends = sum(x.seconds for x in at.sent if x.kind == "AllToAll" and x.when == "forward")
    math = layers * 6 * 2**21 / 512 * c.moe.k * c.D * c.moe.F / cube.chip.rate()
    assert math / sends == pytest.approx(c.moe.F / experts.expert_width_on_rings(2550, 8), rel=1e-3)
    assert math < sends
