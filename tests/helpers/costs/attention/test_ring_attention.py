"""Costs of attention over several devices, and of attention without softmax, against simulations and traced programs."""

from dataclasses import replace
from functools import partial
from math import ceil, log2

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.costs.attention import linear_attention as linear, ring_attention as ring
from helpers.costs.attention.flops_and_bytes import Attention, decode, flops
from helpers.costs.rooflines.chips import chip
from helpers.trace import count, two_level_memory
from tests.helpers.costs.attention.test_flops_and_bytes import array
from tests.helpers.costs.tables import refused, walks

PLACES = {"contiguous": lambda i, n, C: i * C + np.arange(C), "striped": lambda i, n, C: i + n * np.arange(C)}


@walks(PLACES, [(1, 4), (2, 3), (3, 4), (4, 4), (5, 1), (8, 2)])
def test_the_map_of_work_is_that_of_the_mask(cut, n, C):
    at = [PLACES[cut](i, n, C) for i in range(n)]
    want = [[int((at[(i - r) % n][None] <= at[i][:, None]).sum()) for i in range(n)] for r in range(n)]
    found = ring.work(n, C, cut)
    assert [list(row) for row in found] == want
    assert sum(map(sum, found)) == n * C * (n * C + 1) // 2  # every causal pair once
    assert ring.ring_time(n, C, cut) == sum(map(max, want))
    if cut == "striped":
        assert {x for row in found for x in row} <= {C * (C + 1) // 2, C * (C - 1) // 2}
        assert sum(map(max, ring.work(n, C))) / sum(map(max, found)) == pytest.approx(ring.stripes_speed_up(n, C))
        assert ring.stripes_speed_up(n, C) <= ring.stripes_speed_up(n) == 2 - 1 / n


def simulated(work, send):
    """Seconds until every device has worked on every block; blocks are passed on as soon as they come."""
    n = len(work)
    return max(_device(work, i, send) for i in range(n))


def _device(work, i, send):
    done = 0.0
    for r in range(len(work)):
        done = max(done, r * send) + work[r][i]
    return done


@walks(PLACES, [True, False])
def test_sends_hide_behind_work_or_do_not(cut, causal):
    n, C, rate = 4, 64, 1e12
    a = Attention(n * C, N=2, H=16, causal=causal)
    each = 4 * a.N * a.H / rate
    work = [[p * each for p in row] for row in (ring.work(n, C, cut) if causal else [[C * C] * n] * n)]
    for W in (1e8, 1e9, 3e9, 5e9, 1e10, 1e12):
        at = ring.ring_seconds(a, n, rate, W, cut=cut)
        assert at.total == pytest.approx(simulated(work, ring.hop_bytes(a, n) / W))
        assert at.work == pytest.approx(max(map(max, work[1:])))
    assert ring.ring_seconds(a, n, rate, 1e30, hop=1.0).send == 1.0
    alone = ring.ring_seconds(replace(a, B=7), 1, rate, 1.0, cut=cut).total
    assert alone == pytest.approx(7 * sum(map(sum, work)))  # one device does what all of them did, and sends nothing


def test_the_smallest_block_that_hides_a_ring():
    """520 and 4,875 tokens, from the sources' A100; a link of 600 GB/s both ways has 300 one way."""
    assert round(ring.hidden_block(3.12e14, 6e11)) == 520 and round(ring.hidden_block(3.12e14, 6.4e10)) == 4875
    a100 = chip("A100")
    assert ring.hidden_block(a100.rate(), a100.link_bandwidth) == 2 * 520 == a100.rate() / a100.link_bandwidth
    for G, cut, x in ((1, "contiguous", 2), (8, "contiguous", 2), (4, "striped", 2), (4, "striped", 4)):
        share = 0.5 if cut == "striped" else 1
        C = ring.hidden_block(1e14, 1e11, G, x, share)
        below, above = (
            ring.ring_seconds(Attention(4 * c, N=8, K=8 / G, H=64, x=x), 4, 1e14, 1e11, cut=cut)
            for c in (C * 0.99, C * 1.02)
        )
        assert below.work < below.send and above.work > above.send
    a = Attention(4 * 1000.0, N=8, K=2, H=64, causal=False)
    p = ring.ring(a, 4, backward=True)
    keys = 3 * ring.hop_bytes(a, 4)
    assert p.sent == keys + 4 * 2 * keys / 3 and p.hops == 4 and p.flops == 2.5 * ring.ring(a, 4).flops


def test_a_ring_does_the_work_of_its_busiest_device():
    n, C = 4, 16
    a = Attention(n * C, N=2, H=8)
    for cut in PLACES:
        assert ring.ring(a, n, cut).flops == 4 * 2 * 8 * sum(map(max, ring.work(n, C, cut)))
    whole = replace(a, causal=False)
    assert n * ring.ring(whole, n).flops == flops(whole)
    refused(
        (lambda: ring.ring(replace(a, window=4), n), "leave it out"),
        (lambda: ring.work(2, 2, "zigzag"), "work: cut is one of 'contiguous', 'striped', not 'zigzag'"),
    )


def around(Q, K, V, n):
    """Every device's memory after a ring that is walked: Q, K, V and m, l, O in it, all else on the chip."""
    cut = [np.split(x, n) for x in (Q, K, V)]
    devices = [
        two_level_memory.Slow(Q=q, K=k, V=v, O=0 * q, m=0 * q[:, 0] - np.inf, l=0 * q[:, 0]) for q, k, v in zip(*cut)
    ]
    for r in range(n):
        for d in devices:
            q, k, v, o, m, total = (d.load(name) for name in "QKVOml")
            new = np.maximum(m, (q @ k.T).max(-1))
            a, p = np.exp(m - new), np.exp(q @ k.T - new[:, None])
            for name, value in (("O", a[:, None] * o + p @ v), ("m", new), ("l", a * total + p.sum(-1))):
                d.store(name, value)
        if r < n - 1:
            there = [[d.load(name) for name in "KV"] for d in devices]
            for d, (k, v) in zip(devices, [there[-1], *there[:-1]]):
                d.store("K", k)
                d.store("V", v)
    return devices


def back_around(devices, dO, n):
    """The same backward: K and V go round once more with their gradients, and these one hop more."""
    for d, do in zip(devices, np.split(dO, n)):
        for name, like in (("dQ", "Q"), ("dK", "K"), ("dV", "V")):
            d.put(name, 0 * d[like])
        d.put("dO", do)
        d.put("logsum", d["m"] + np.log(d["l"]))
        d.put("D", (do * d["O"] / d["l"][:, None]).sum(-1))
        d.reads = d.writes = 0
    for r in range(n):
        for d in devices:
            q, k, v, do, logsum, D = (d.load(name) for name in ("Q", "K", "V", "dO", "logsum", "D"))
            p = np.exp(q @ k.T - logsum[:, None])
            ds = p * (do @ v.T - D[:, None])
            for name, more in (("dQ", ds @ k), ("dK", ds.T @ q), ("dV", p.T @ do)):
                d.store(name, d.load(name) + more)
        names = ("K", "V", "dK", "dV") if r < n - 1 else ("dK", "dV")
        there = [[d.load(name) for name in names] for d in devices]
        for d, values in zip(devices, [there[-1], *there[:-1]]):
            for name, value in zip(names, values):
                d.store(name, value)


def test_bytes_through_the_memory_of_a_device_in_a_ring():
    n, draw = 3, np.random.default_rng(0)
    Q, K, V, dO = (draw.normal(size=(12, 4)) for _ in range(4))
    P_ = np.exp(Q @ K.T) / np.exp(Q @ K.T).sum(-1, keepdims=True)
    dS = P_ * (dO @ V.T - (dO * (P_ @ V)).sum(-1, keepdims=True))
    a = Attention(12, H=4, causal=False, x=4, s=4)
    devices = around(Q, K, V, n)
    np.testing.assert_allclose(np.concatenate([d["O"] / d["l"][:, None] for d in devices]), P_ @ V)
    assert {4 * d.moved for d in devices} == {ring.ring(a, n).bytes}
    for d, k, v in zip(devices, np.split(K, n), np.split(V, n)):
        d.put("K", k)
        d.put("V", v)
    back_around(devices, dO, n)
    for name, want in (("dQ", dS @ K), ("dK", dS.T @ Q), ("dV", P_.T @ dO)):
        np.testing.assert_allclose(np.concatenate([d[name] for d in devices]), want)
    assert {4 * d.moved for d in devices} == {ring.ring(a, n, backward=True).bytes}


def butterfly(n):
    """Rounds until everybody has heard from everybody, each device hearing from one at a time, 1, 2, 4 … places back."""
    heard, rounds = [{i} for i in range(n)], 0
    while any(len(h) < n for h in heard):
        heard = [heard[i] | heard[(i - 2**rounds) % n] for i in range(n)]
        rounds += 1
    return rounds


def test_a_tree_takes_log_rounds():
    assert [ring.rounds(n) for n in range(1, 70)] == [butterfly(n) for n in range(1, 70)]
    assert ring.rounds(2**19 + 1) == 20 and ring.rounds(1000) == ceil(log2(1000)) < 1000 - 1
    a = Attention(1, 4096, N=8, K=2, H=16, B=3)
    p = ring.tree(a, 8)
    assert p.sent == 3 * (16 + 2) * 8 * 3 * 4 and p.hops == 3  # rounds · numbers · heads · sequences · bytes
    assert 8 * p.flops == decode(a).flops and ring.hop_bytes(a, 8) == 2 * 3 * 2 * 512 * 16 * 2
    slow = ring.tree_seconds(a, 8, 1e12, 1e9, hop=1.0)
    assert slow.parts["link"] == 3.0 and ring.tree_seconds(a, 1, 1e12, 1e9, 1.0).parts["link"] == 0
    for n, windows in ((2, 1), (6, 2), (9, 2), (16, 1)):
        assert ring.tree(a, n).sent == windows * butterfly(n) * p.sent / 3
        assert ring.tree(a, n, "chain").hops == n - 1


T, H, F, C = 32, 8, 12, 4


def parallel(q, k, v):
    return jnp.tril(q @ k.T) @ v


def recurrent(q, k, v):
    def step(U, x):
        q, k, v = x
        U = U + jnp.einsum("f,h->fh", k, v)
        return U, q @ U

    return jax.lax.scan(step, jnp.zeros((F, H + 1)), (q, k, v))[1]


def chunked(q, k, v, C=C):
    def step(U, x):
        q, k, v = x
        return U + k.T @ v, q @ U + parallel(q, k, v)

    cut = [x.reshape(len(x) // C, C, -1) for x in (q, k, v)]
    return jax.lax.scan(step, jnp.zeros((k.shape[-1], v.shape[-1])), cut)[1].reshape(len(q), -1)


def test_flops_of_linear_attention():
    """Z is the column of ones beside V."""
    a, n = Attention(2 * linear.CHUNK, N=6, K=2, H=H), 2 * linear.CHUNK  # three query heads use the sums of one KV head
    heads = jax.vmap(jax.vmap(partial(chunked, C=linear.CHUNK), (0, None, None)))
    group = count(heads, *[array(2, *size) for size in ((3, n, H), (n, H), (n, H + 1))])
    assert linear.linear(a).flops == group.matmul_flops
    q, v = (jax.ShapeDtypeStruct((T, n), "float32") for n in (F, H + 1))
    for form, f in (("parallel", parallel), ("chunked", chunked)):
        assert count(f, q, q, v).matmul_flops == linear.linear_flops(T, H, F, form, C)
    one = count(recurrent, q, q, v)  # products of vectors: an outer one and its addition, and q U
    assert one.matmul_flops == linear.linear_flops(T, H, F, "recurrent")
    assert (
        linear.linear_flops(T, H, F, "recurrent") == 4 * T * F * (H + 1) == linear.linear_flops(T, H, F, causal=False)
    )
    assert linear.linear(Attention(1, 99, H=H)).flops == 4 * H * (H + 1)


def test_refusals():
    refused(
        (lambda: ring.tree(Attention(1, 8), 2, "star"), "tree: order is one of 'doubling', 'chain', not 'star'"),
        (lambda: linear.features("cosine", 4), "kind is one of 'elu', 'relu', 'taylor', 'hedgehog', not 'cosine'"),
        (
            lambda: linear.linear_flops(1, 1, 1, "serial"),
            "form is one of 'parallel', 'chunked', 'recurrent', not 'serial'",
        ),
        (lambda: linear.linear(Attention(8, window=2)), "leave the window out"),
    )
