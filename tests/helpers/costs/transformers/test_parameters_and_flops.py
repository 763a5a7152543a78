"""FLOPs against a walk over every query, key and matrix; the course's numbers; crossovers against a search."""

import itertools
import sys

import pytest
from hypothesis import given, strategies as st

from helpers.costs.rooflines import roofline
from helpers.costs.sharding.sharded_array import Mesh
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.layer_products import backward, einsum, sharded_flops
from helpers.costs.transformers.parameters_and_flops import flops, kv_cache, pairs, parameters, works
from helpers.costs.transformers.public_models import MODELS, model
from helpers.costs.transformers.shares_and_thresholds import (
    attention_intensity,
    attention_ratio,
    crossover,
    six_nd,
    six_nd_ratio,
)
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.decoders import EVERY, TOYS, counted, is_linear, layer

USUAL = Config(8192, 4, 64, 64, 128, 4 * 8192, 1000)


def looked_at(T, S, window, count):
    """Pairs of query and key, one by one: query t stands at S - T + t."""
    at = range(S - T, S)
    if count == "all":
        return T * S
    return sum(1 for t in at for s in range(S) if s <= t and (window is None or t - s < window))


@given(st.integers(1, 12), st.integers(0, 12), st.none() | st.integers(1, 20))
def test_pairs(T, earlier, window):
    S = T + earlier
    for count in ("all", "causal"):
        assert pairs(T, S, window, count) == looked_at(T, S, window, count)
    assert pairs(T, S, window, "half") == T * S / 2
    assert sum(pairs(1, s, window) for s in range(S - T + 1, S + 1)) == pairs(T, S, window)  # token by token


def multiply_adds(c, i, T, count):
    """Of attention in layer i, for one sequence of T tokens."""
    if is_linear(c, i):  # each token reads k·S, adds k (v - ...)^T to S, and reads q·S, in every head
        return sum(c.linear.key * c.linear.value for _ in range(T * c.linear.heads) for _ in ("k S", "k v", "q S"))
    wide, top = (c.qk + c.mla.v) if c.mla else 2 * c.H, c.kind(i).window
    scores = 0
    if c.indexer:
        scores, top = looked_at(T, T, None, count) * c.indexer.heads * c.indexer.width, c.indexer.top
    return looked_at(T, T, top, count) * c.N * wide + scores


@walks(EVERY, ["all", "causal"])
def test_flops_by_a_walk_over_everything(name, count):
    c, B, T = EVERY[name], 2, 9
    f = flops(c, B, T, count=count)
    attention = sum(2 * B * multiply_adds(c, i, T, count) for i in range(c.L))
    assert f.attention == attention
    assert f.forward == attention + 2 * B * T * counted(c)[2]
    assert (f.backward, f.train) == (2 * f.forward, 3 * f.forward)
    assert f.layers + f.unembedding == f.forward
    for role in ("mlp", "experts", "shared", "router", "added"):
        assert bool(getattr(f, role)) == bool(getattr(parameters(c), role))
    assert "2 FLOPs a multiply-add" in f.convention and "\n" not in f.convention


@walks([n for n, c in EVERY.items() if not c.mla])
def test_prefill_then_decode_is_the_whole_sequence(name):
    c, T = EVERY[name], 11
    steps = [flops(c, 1, 6, count="causal")] + [flops(c, 1, 1, S, count="causal") for S in range(7, T + 1)]
    assert sum(f.forward for f in steps) == flops(c, 1, T, count="causal").forward


def test_latent_attention_absorbed():
    """Absorbed, scores and values run over the short vectors: more FLOPs a pair, none to make keys and values of the cache."""
    c = TOYS["mla"]
    m = c.mla
    f, g = flops(c, 3, 1, 50), flops(c, 3, 1, 50, absorbed=True)
    made = 2 * 3 * 49 * m.kv_rank * c.N * (m.nope + m.v)  # keys and values of 49 earlier tokens
    assert f.projections - g.projections == c.L * made
    assert g.attention == c.L * 2 * 3 * 50 * c.N * (2 * m.kv_rank + m.rope)
    assert f.mlp == g.mlp


def test_slots_and_logits():
    c = TOYS["moe"]
    f = flops(c, 2, 8)
    assert flops(c, 2, 8, slots=c.moe.E * 16).experts == f.experts * c.moe.E / c.moe.k
    assert flops(c, 2, 8, logits=1).unembedding * 8 == f.unembedding


@walks(EVERY)
def test_kv_cache_layer_by_layer(name):
    c, S = EVERY[name], 7
    each = (c.mla.kv_rank + c.mla.rope) if c.mla else 2 * c.K * c.H
    each += c.indexer.width if c.indexer else 0
    states = sum(is_linear(c, i) for i in range(c.L))
    own = [i for i in range(c.L - c.shared_kv) if not is_linear(c, i)]
    held = sum(min(S, c.kind(i).window or S) for i in own) * each
    m = c.linear
    one = 8 * m.heads * m.key * m.value + 4 * (m.kernel - 1) * (2 * m.key_heads * m.key + m.heads * m.value) if m else 0
    assert kv_cache(c, S, B=3, bytes_each=4, state_bytes=8) == 3 * (4 * held + states * one)


@walks(MODELS)
def test_six_nd_is_right_up_to_tables_and_attention(name):
    c, T = MODELS[name], 256
    p, f = parameters(c), flops(c, 1, T)
    assert f.train - 3 * f.attention == 6 * p.matmul * T
    assert six_nd_ratio(c, T) == pytest.approx(p.matmul / p.active + 3 * f.attention / six_nd(p.active, T))


SEVERAL = "gemma-2-27b gemma-3-12b gpt-oss-20b deepseek-v3 mixtral-8x7b gpt-2".split()


@walks([USUAL, *map(model, SEVERAL)], ["matrices", "projections"], ["all", "causal"])
def test_crossovers_by_search(c, against, count):

    def wins(T):
        f = flops(c, 1, T, count=count)
        return f.attention >= (f.projections if against == "projections" else f.layers - f.attention)

    low, high = 0, 10**8
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (low, mid) if wins(mid) else (mid, high)
    assert high - 1 <= crossover(c, against, count) <= high


def test_local_layers_alone_never_get_there():
    assert crossover(model("mistral-7b"), count="causal") == float("inf")
    narrow = Config(16, 2, 8, 8, 64, 16, 10, window=64)  # windows so wide that attention does win, beyond them
    T = crossover(narrow, count="causal")
    assert attention_ratio(narrow, T, "causal") == pytest.approx(1)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 8), st.integers(1, 4))
def test_intensity_from_flops_and_bytes(T, S, G, K):
    B, H = 2, 16
    moved = 2 * (2 * B * T * K * G * H + 2 * B * S * K * H)  # queries, results, keys, values, in bf16
    assert attention_intensity(T, S, G) == pytest.approx(4 * B * T * S * K * G * H / moved)


@walks(EVERY)
def test_works_have_the_flops_and_read_every_weight(name):
    c, B, T = EVERY[name], 2, 64
    f, w = flops(c, B, T), works(c, B, T)
    assert {role: work.flops for role, work in w.items()} == {role: n for role, n in f.by_role.items() if n}
    none = works(c, B, T, x=0)
    idle = parameters(c)
    matrices = idle.attention + idle.mlp + idle.experts + idle.shared + idle.router + idle.added + c.D * c.V
    states = sum(2 * B * 4 * c.linear.state for i in range(c.L) if is_linear(c, i))  # read and written, in float32
    assert sum(work.bytes for work in none.values()) == 2 * matrices + states


def test_bytes_of_one_dense_layer_matrix_by_matrix():
    c, B, T = TOYS["gqa"], 3, 5
    products = [roofline.matmul(B * T, *shape) for shape in layer(c, 0)[0]]
    w = works(c, B, T)
    assert w["projections"].bytes == c.L * sum(p.bytes for p in products[:4])
    assert w["mlp"].bytes == c.L * sum(p.bytes for p in products[4:])
    assert w["unembedding"].bytes == roofline.matmul(B * T, c.D, c.V).bytes
    assert w["attention"].intensity == pytest.approx(attention_intensity(T, T, c.G))


def test_bytes_of_latent_attention_matrix_by_matrix():
    """Keys and values of all S tokens are made; or queries go into the latent space and results come out, head by head."""
    c, B, T, S = TOYS["mla"], 3, 2, 9
    m, shapes = c.mla, c.mixer(c.kind(0)).matrices(c.D)
    rows = {name: B * (S if name == "kv_up" else T) for name in shapes}
    made = sum(roofline.matmul(rows[name], *shape).bytes for name, shape in shapes.items())
    assert works(c, B, T, S)["projections"].bytes == c.L * made
    kept = sum(roofline.matmul(B * T, *shape).bytes for name, shape in shapes.items() if name != "kv_up")
    heads = c.N * (roofline.matmul(B * T, m.nope, m.kv_rank).bytes + roofline.matmul(B * T, m.kv_rank, m.v).bytes)
    assert works(c, B, T, S, absorbed=True)["projections"].bytes == c.L * (kept + heads)


@walks([
    ("np,pm->nm", ((3, 4), (4, 5))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))), ("i,j->ij", ((3,), (4,))),
    ("i,i->", ((5,), (5,))), ("ijkl,ijmno->klmno", ((2, 2, 3, 2), (2, 2, 2, 3, 2))),
    ("btkgh,bskh->bkgts", ((2, 3, 2, 2, 2), (2, 4, 2, 2))),
])  # fmt: skip
def test_einsum_by_a_loop(spec, shapes):
    e = einsum(spec, *shapes)
    names = spec.split("->")[0].split(",")
    size = dict(pair for letters, shape in zip(names, shapes) for pair in zip(letters, shape))
    adds = sum(1 for _ in itertools.product(*(range(n) for n in size.values())))
    assert e.flops == 2 * adds
    assert set(e.batch + e.contracted + e.free) == set(size)
    A, B = shapes
    out = tuple(size[x] for x in spec.split("->")[1])
    dA, dB = backward(spec)
    assert einsum(dA, out, B).flops == einsum(dB, A, out).flops == e.flops


def test_einsum_asks_for_sense():
    refused(
        (lambda: einsum("ij,jk", (2, 3), (3, 4)), "reads 'ij,jk->ik'"),
        (lambda: einsum("ij,jk->ik", (2, 3), (4, 4)), "'j' is 3 in one array and 4 in the other"),
        (lambda: einsum("ij,jk->ik", (2, 3, 4), (3, 4)), "by a letter of its own"),
        (lambda: einsum("ii,ij->ij", (2, 2), (2, 3)), "by a letter of its own"),
        (lambda: einsum("ij,jk->i", (2, 3), (3, 4)), "of one array only stands in the result"),
        (lambda: einsum("ij,jk->ikl", (2, 3), (3, 4)), "a letter of the result stands in an array"),
    )


def test_replicated_work():
    mesh = Mesh({"X": 4, "Y": 8, "Z": 4})
    sizes = dict(B=64, D=128, F=32)
    dense = 2 * 64 * 128 * 32
    assert sharded_flops("A[B_X, D_Y]", "W[D_Y, F]", sizes, mesh) == (dense * 4, dense / 32)
    assert sharded_flops("A[B_XYZ, D]", "W[D, F]", sizes, mesh) == (dense, dense / 128)
    assert sharded_flops("A[B, D]", "W[D, F]", sizes, mesh) == (dense * 128, dense)
    refused(
        (lambda: sharded_flops("A[B_X, D_Y]", "W[D, F]", sizes, mesh), "D is cut over Y in A.* and over nothing in W"),
        (lambda: sharded_flops("A[B_X, D]", "W[D, F_X]", sizes, mesh), "one mesh axis for two letters"),
    )


@walks(["llama-3.1-405b", "gemma-3-27b", "deepseek-v3"])
def test_no_loop_over_layers(like):
    """As many calls for 120 layers as for 12."""

    def calls(L):
        c, made = model(like, L=L), []

        def count(frame, event, _):  # costs alone: a garbage collection calls JAX, whenever it likes
            if event == "call" and frame.f_globals["__name__"].startswith("helpers.costs."):
                made.append(frame)

        sys.setprofile(count)
        try:
            parameters(c), flops(c, 1, 8192, count="causal"), kv_cache(c, 8192)
        finally:
            sys.setprofile(None)
        return len(made)

    assert calls(12) == calls(120) > 0
