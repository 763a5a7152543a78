"""Kinds of layers against a loop over layers, and every wrong configuration against its one sentence."""

import dataclasses
from collections import Counter

from hypothesis import given, strategies as st

from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.costs.transformers.mixers import Gemma3n, Indexer
from helpers.costs.transformers.states import Linear
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.decoders import DELTA, TOY_MLA, TOYS

GOOD = dict(D=64, L=4, N=8, K=2, H=8, F=256, V=100)
few = st.integers(1, 6)


@given(
    L=st.integers(1, 40),
    window=st.none() | few,
    full_every=st.none() | few,
    moe=st.none() | st.tuples(st.integers(0, 9), few),
    linear=st.booleans(),
    shared=st.integers(0, 12),
)
def test_groups_are_the_layers_one_by_one(L, window, full_every, moe, linear, shared):
    first, every = moe or (0, 1)
    first, linear = min(first, L - 1), linear and window is None
    most = 0 if linear else max(L - max(full_every or 1 if window else 1, first if moe else 0), 0)
    c = Config(
        **GOOD | dict(L=L),
        window=window,
        linear=DELTA if linear else None,
        full_every=full_every if window or linear else None,
        moe=MoE(4, 2, 8, first_dense=first, every=every) if moe else None,
        shared_kv=min(shared, most),
    )
    assert dict(c.groups) == Counter(map(c.kind, range(L)))
    assert len(c.groups) <= 8
    same = Counter((k.linear, k.shares) for k in map(c.kind, range(L)))
    assert {(kind.linear, kind.shares): n for kind, n in c.mixers} == same


def test_a_config_is_a_value():
    a, b = Config(**GOOD, biases=("o", "qkv")), Config(**GOOD, biases={"qkv", "o"})
    assert a == b and hash(a) == hash(b)
    assert Config(**GOOD, biases="mlp").biases == ("mlp",)
    assert dataclasses.replace(a, L=9).L == 9


def test_derived_sizes():
    assert Config(**GOOD).G == 4 and Config(**GOOD).matrices == 3
    assert Config(**GOOD | dict(H=None)).H == 8
    c = TOYS["mla"]
    assert (c.H, c.qk) == (8, 10)


WRONG = {
    "a multiple of K": dict(K=3),
    "D=64 does not split into N=7 heads: give the width of a head as H": dict(N=7, K=7, H=None),
    "whole number of 1 or more, got 0": dict(L=0),
    "whole number of 1 or more, got 8.5": dict(H=8.5),
    "F is a number, got '256'": dict(F="256"),
    "D is a number, got True": dict(D=True),
    "V is a number, got None": dict(V=None),
    "positions is a whole number of 0 or more": dict(positions=-1),
    "window is a whole number of 1 or more, got 0": dict(window=0),
    "give the others a window too": dict(full_every=2),
    "full_every is a whole number of 1 or more": dict(window=4, full_every=0),
    "norm is one of 'rms', 'layer', 'layer-no-bias', 'none', not 'batch'": dict(norm="batch"),
    "qk_norm is one of": dict(qk_norm="both"),
    "biases are any of 'qkv', 'o', 'mlp', 'router', 'unembed', not 'q'": dict(biases=("q",)),
    "K is N=8, not 2": dict(mla=TOY_MLA),
    "H is None or v=8, not 9": dict(mla=TOY_MLA, K=8, H=9),
    "leave qk_norm, 'qkv' and 'o' out": dict(mla=TOY_MLA, K=8, biases=("o",)),
    "drop moe or lower first_dense": dict(moe=MoE(4, 2, 8, first_dense=4)),
    "give window or linear, not both": dict(window=4, linear=DELTA),
    "give mla with a q_rank": dict(indexer=Indexer(2, 4, 8)),
    "no linear, output_gate or shared_kv here": dict(mla=TOY_MLA, K=8, H=None, output_gate=True),
    "leave a layer of each kind before them": dict(window=4, full_every=3, shared_kv=2),
    "shared_kv is a whole number of 0 or more": dict(shared_kv=-1),
}


@walks(WRONG)
def test_wrong_configurations(sentence):
    refused((lambda: Config(**GOOD | WRONG[sentence]), sentence))


def test_wrong_parts():
    refused(
        (lambda: MoE(E=4, k=5, F=8), "k is at most E"),
        (lambda: MoE(E=4, k=0, F=8), "k is a whole number of 1 or more"),
        (lambda: MoE(E=4, k=2, F=8, shared=-1), "shared is a whole number of 0 or more"),
        (lambda: MoE(E=4, k=2, F=8, shared_gate=True), "give shared, or leave the gate out"),
        (lambda: Linear(heads=4, key_heads=3, key=8, value=8, kernel=4), "make heads a multiple"),
        (lambda: Linear(heads=4, key_heads=2, key=8, value=8, kernel=0), "kernel is a whole number"),
        (lambda: Indexer(heads=4, width=0, top=8), "width is a whole number"),
        (lambda: Gemma3n(streams=0, laurel=8, V=9, width=8), "streams is a whole number"),
        (lambda: MLA(q_rank=0, kv_rank=8, nope=4, rope=4, v=8), "q_rank is a whole number"),
        (lambda: MLA(q_rank=None, kv_rank=8, nope=4, rope=0, v=8), "rope is a whole number"),
    )
