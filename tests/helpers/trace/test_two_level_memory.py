"""Schedules walked in a toy memory: right results, and as many floats as the formulas say."""

import numpy as np
import pytest

from helpers.costs.attention import io_complexity as costs
from helpers.costs.attention.flops_and_bytes import Attention, chunked, flash, fused
from helpers.trace import two_level_memory


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def given(T, S, H):
    draw = np.random.default_rng(T + S)
    Q, K, V, dO = (draw.normal(size=(n, H)) for n in (T, S, S, T))
    P = softmax(Q @ K.T)
    dP = dO @ V.T
    dS = P * (dP - (P * dP).sum(-1, keepdims=True))
    return dict(Q=Q, K=K, V=V, dO=dO), dict(O=P @ V, dQ=dS @ K, dK=dS.T @ Q, dV=P.T @ dO)


def holds(memory, want, *names):
    for name in names:
        np.testing.assert_allclose(memory[name], want[name], rtol=1e-9, atol=1e-12)
    assert memory.held == 0


def test_softmax_unfused_and_fused():
    """F8."""
    s = np.random.default_rng(0).normal(size=(7, 9))
    for in_one in (False, True):
        memory = two_level_memory.Slow(S=s)
        two_level_memory.softmax(memory, in_one)
        holds(memory, {"P": softmax(s)}, "P")
        assert memory.moved == costs.softmax_floats(7, 9, in_one)
    assert memory.most == 9 and costs.softmax_floats(7) == 5 * 49 + 14


@pytest.mark.parametrize("kind", costs.SOFTMAX_ACCESSES)
def test_accesses_of_a_long_row(kind):
    """F9: fast memory has room for one number of the row."""
    x = np.random.default_rng(0).normal(size=50) + (700 if kind != "naive" else 0)  # e^700² overflows
    memory = two_level_memory.Slow(M=1, x=x)
    two_level_memory.softmax_in_passes(memory, kind)
    holds(memory, {"y": softmax(x)}, "y")
    assert memory.moved == 50 * costs.SOFTMAX_ACCESSES[kind] and memory.writes == 50


def test_standard_attention():
    arrays, want = given(12, 12, 5)
    memory = two_level_memory.Slow(**arrays)
    two_level_memory.standard(memory)
    assert memory.moved == costs.standard_floats(12, 5)
    two_level_memory.product(memory, "P", "dO", "dV", lambda p, do: p.T @ do)
    two_level_memory.product(memory, "dO", "V", "dP", lambda do, v: do @ v.T)
    two_level_memory.rows_alone(memory, ("P", "dP"), "dS", lambda p, dp: p * (dp - (p * dp).sum()))
    two_level_memory.product(memory, "dS", "K", "dQ", np.matmul)
    two_level_memory.product(memory, "dS", "Q", "dK", lambda ds, q: ds.T @ q)
    holds(memory, want, "O", "dQ", "dK", "dV")
    a = Attention(12, H=5, causal=False, x=4)
    assert 4 * memory.moved == fused(a).bytes + fused(a, backward=True).bytes


def flash_backward(memory: two_level_memory.Slow, R: int, C: int, version: int = 1) -> None:
    """dQ, dK, dV from dO and what `flash` of that version left; keys outside, so that dK and dV stay."""
    T, S = len(memory["Q"]), len(memory["K"])
    memory.put("dQ", np.zeros_like(memory["Q"]))
    if version == 2:
        two_level_memory.rows_alone(memory, ("dO", "O"), "D", lambda do, o: do @ o, (T,))
    for c in two_level_memory.parts(S, C):
        k, v = memory.load("K", c), memory.load("V", c)
        dk, dv = memory.keep(np.zeros_like(k)), memory.keep(np.zeros_like(v))
        for r in two_level_memory.parts(T, R):
            q, do, dq, *rest = (
                memory.load(n, r) for n in (("Q", "dO", "dQ", *(("O", "l", "m") if version == 1 else ("logsum", "D"))))
            )
            if version == 1:
                o, total, m = rest
                logsum, D = m + np.log(total), (do * o).sum(-1)
            else:
                logsum, D = rest
            p = memory.keep(np.exp(q @ k.T - logsum[:, None]))
            ds = memory.keep(p * (do @ v.T - D[:, None]))
            dk, dv = dk + ds.T @ q, dv + p.T @ do
            memory.store("dQ", dq + ds @ k, r)
            memory.drop(q, do, dq, *rest, p, ds)
        memory.store("dK", dk, c, like=(S, k.shape[1]))
        memory.store("dV", dv, c, like=(S, v.shape[1]))
        memory.drop(k, v, dk, dv)


@pytest.mark.parametrize("version", [1, 2])
def test_flash(version):
    """F14 to F16: any blocks, none of which has to divide L."""
    L, H = 24, 4
    arrays, want = given(L, L, H)
    for R, C in ((4, 6), (8, 3), (5, 7), (24, 24), (1, 1), (6, 6)):
        memory = two_level_memory.Slow(**arrays)
        two_level_memory.flash(memory, R, C, version)
        assert memory.moved == costs.flash_floats(L, H, R, C, version)
        r, c = min(R, L), min(C, L)
        assert memory.most == 2 * r * H + 2 * c * H + r * c + 2 * r  # Q, O; K, V; scores; l, m
        forward = memory.moved
        flash_backward(memory, R, C, version)
        holds(memory, want, "O", "dQ", "dK", "dV")
        if R == C:
            backward = flash(Attention(L, H=H, causal=False, x=4), R, version, backward=True)
            assert 4 * (memory.moved - forward) == backward.bytes
    arrays, want = given(10, 17, 3)
    memory = two_level_memory.Slow(**arrays)
    two_level_memory.flash(memory, 4, 5, version)
    holds(memory, want, "O")


def test_two_kernels_backward():
    """dQ with queries outside, dK and dV with keys outside: nothing is added to in memory, S and dP are made twice."""
    L, H, b = 24, 4, 6
    arrays, want = given(L, L, H)
    memory = two_level_memory.Slow(**arrays)
    two_level_memory.flash(memory, b, b, 2)
    before, products = memory.moved, 0
    two_level_memory.rows_alone(memory, ("dO", "O"), "D", lambda do, o: do @ o, (L,))

    def block(q, k, v, do, logsum, D):
        p = np.exp(q @ k.T - logsum[:, None])
        return p, p * (do @ v.T - D[:, None])

    names = ("Q", "dO", "logsum", "D")
    for r in two_level_memory.parts(L, b):
        (q, do, *rows), dq = (memory.load(n, r) for n in names), 0.0
        for c in two_level_memory.parts(L, b):
            k, v = memory.load("K", c), memory.load("V", c)
            dq, products = dq + block(q, k, v, do, *rows)[1] @ k, products + 3
        memory.store("dQ", dq, r, like=(L, H))
    for c in two_level_memory.parts(L, b):
        k, v, dk, dv = memory.load("K", c), memory.load("V", c), 0.0, 0.0
        for r in two_level_memory.parts(L, b):
            q, do, *rows = (memory.load(n, r) for n in names)
            p, ds = block(q, k, v, do, *rows)
            dk, dv, products = dk + ds.T @ q, dv + p.T @ do, products + 4
        memory.store("dK", dk, c, like=(L, H))
        memory.store("dV", dv, c, like=(L, H))
    for name in ("dQ", "dK", "dV"):
        np.testing.assert_allclose(memory[name], want[name])
    p = flash(Attention(L, H=H, x=4, causal=False), b, backward=True, kernels=2)
    assert 4 * (memory.moved - before) == p.bytes and products * 2 * b * b * H == p.flops


def test_memory_is_a_budget():
    memory = two_level_memory.Slow(M=4, x=np.arange(6.0))
    x = memory.load("x", slice(0, 3))
    with pytest.raises(ValueError, match="room for 4 floats and would hold 6"):
        memory.load("x", slice(3, 6))
    memory.drop(x, x)
    assert memory.most == 6 and memory.reads == 6 and memory.held == 0
    x[0] = 7
    assert memory["x"][0] == 0  # what was loaded is a copy
    memory.store("y", 1.0, 2, like=(3,))
    assert memory.writes == 1 and memory["y"][2] == 1


def in_chunks(memory, C):
    """A causal prefill of C queries at a time, each kernel's operands read and its result written."""
    T = len(memory["Q"])
    for rows in two_level_memory.parts(T, C):
        keys = slice(0, rows.stop)
        seen = np.arange(rows.stop) <= np.arange(rows.start, rows.stop)[:, None]
        q, k = memory.load("Q", rows), memory.load("K", keys)
        memory.store("S", np.where(seen, q @ k.T, -np.inf), rows, keys, like=(T, T))
        s = memory.load("S", rows, keys)
        memory.store("P", softmax(s), rows, keys, like=(T, T))
        p, v = memory.load("P", rows, keys), memory.load("V", keys)
        memory.store("O", p @ v, rows, like=memory["V"].shape)
        memory.drop(q, k, s, p, v)


def in_chunks_back(memory, C):
    """The scores of each chunk again, then four products; dK and dV are added to."""
    T = len(memory["Q"])
    for name in ("K", "V"):
        memory.put("d" + name, np.zeros_like(memory[name]))
    for rows in two_level_memory.parts(T, C):
        keys, load = slice(0, rows.stop), memory.load
        seen = np.arange(rows.stop) <= np.arange(rows.start, rows.stop)[:, None]
        memory.store("S", np.where(seen, load("Q", rows) @ load("K", keys).T, -np.inf), rows, keys, like=(T, T))
        memory.store("P", softmax(load("S", rows, keys)), rows, keys, like=(T, T))
        memory.store("dV", load("dV", keys) + load("P", rows, keys).T @ load("dO", rows), keys)
        memory.store("dP", load("dO", rows) @ load("V", keys).T, rows, keys, like=(T, T))
        p, dp = load("P", rows, keys), load("dP", rows, keys)
        memory.store("dS", p * (dp - (p * dp).sum(-1, keepdims=True)), rows, keys, like=(T, T))
        memory.store("dQ", load("dS", rows, keys) @ load("K", keys), rows, like=memory["Q"].shape)
        memory.store("dK", load("dK", keys) + load("dS", rows, keys).T @ load("Q", rows), keys)


def test_chunks_through_memory():
    T, H = 12, 5
    arrays, _ = given(T, T, H)
    P = softmax(np.where(np.tri(T, dtype=bool), arrays["Q"] @ arrays["K"].T, -np.inf))
    dP = arrays["dO"] @ arrays["V"].T
    dS = P * (dP - (P * dP).sum(-1, keepdims=True))
    want = dict(O=P @ arrays["V"], dQ=dS @ arrays["K"], dK=dS.T @ arrays["Q"], dV=P.T @ arrays["dO"])
    for C in (3, 4, 12):
        memory, a = two_level_memory.Slow(**arrays), Attention(T, H=H, x=4)
        in_chunks(memory, C)
        holds(memory, want, "O")
        assert 4 * memory.moved == chunked(a, C).bytes
        before = memory.moved
        in_chunks_back(memory, C)
        for name in ("dQ", "dK", "dV"):
            np.testing.assert_allclose(memory[name], want[name])
        assert 4 * (memory.moved - before) == chunked(a, C, backward=True).bytes
