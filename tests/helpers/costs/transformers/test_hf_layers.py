"""Models whose layers differ by a list: counts, caches and costs of files of every kind."""

import pytest

from helpers.costs.inference.serving_operations import Batch, Deployment, operations as serving
from helpers.costs.training.layout import Layout
from helpers.costs.training.step_operations import operations as training
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.mixers import Heads, LayerKind
from helpers.costs.transformers.parameters_and_flops import caches, flops, keys_read, kv_cache, parameters, works
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.listed import ALONE, FILE, INVENTED, counted
from tests.helpers.costs.transformers.test_hf_config import CONFIGS

EVERY = {name: Config.from_hf(config) for name, config in (INVENTED | ALONE).items()}
S = 4096  # beyond every window and choice


@walks(FILE)
def test_invented_files(row):
    c = Config.from_hf(row["config"])
    assert parameters(c).total == row["parameters"]
    inputs = sum(2 * n * c.mixer(kind).inputs for kind, n in c.groups if kind.linear)
    token = (kv_cache(c, 2 * S) - kv_cache(c, S)) / S
    assert (token, kv_cache(c, S) - S * token - inputs) == (row["token"], row["fixed"])


@walks(ALONE)
def test_counts_of_all_shapes(name):
    assert parameters(EVERY[name]).total == counted(name)


def test_caches():
    """By hand: keys and values of 4 KV heads for the last 10 tokens of 3 layers; index keys; compressed keys; KV heads 2 and 1."""
    assert kv_cache(EVERY["step"], S) == 2 * (2 * 2 * 2 * 16 * S + 3 * 2 * 4 * 16 * 10)
    assert kv_cache(EVERY["blocks"], S) == 2 * (4 * 2 * 2 * 16 + 2 * 12) * S
    assert kv_cache(EVERY["compressed"], S) == 2 * (5 * 10 * 16 + 2 * S / 4 * (16 + 8) + 2 * S / 128 * 16)
    assert kv_cache(EVERY["searched"], S) == 2 * (2 * 2 * 16 + 2 * 16) * S
    assert [K for K, _ in caches(EVERY["step"], S)] == [2, 4, 4, 2]


@walks(EVERY)
def test_a_product_is_counted_once_by_training_serving_and_flops(name):
    """What a step multiplies, of one device, and what is read of weights, are the model's; what an indexer leaves idle is neither."""
    c, B, T = EVERY[name], 2, 512
    f = flops(c, B, T, count="causal")
    whole = training(c, Layout(), B, T)
    added = 2 * B * T * c.L * c.beside[0]
    assert sum(whole.forward("causal")) == pytest.approx(f.forward - added)
    p, ops = parameters(c), serving(c, Deployment(), Batch(prefill=10**6), 1)
    held = sum(kind.moe for kind in c.layers)
    idle = sum(
        sum(a * b for a, b in kind.mixer.indexer.matrices(c.D, kind.mixer.mla.q_rank).values())
        for kind in c.layers
        if getattr(kind.mixer, "mla", None) and kind.mixer.indexer and not kind.mixer.indexer.chooses
    )
    small = sum(c.mixer(k).channels * c.mixer(k).kernel for k in c.layers if k.linear)
    tables = p.embedding if not c.tied else 0
    assert ops.weights == pytest.approx(p.total - tables - p.norms - p.biases - p.sinks - p.added - idle - small)
    assert held == 0 or p.inactive > 0
    assert works(c, 1, 1, S)["attention"].bytes > 0 and keys_read(c, 1, 1, S, True) > 0


def test_a_rule_and_its_list_cost_the_same():
    """gpt-oss and Qwen3-Next, whose every n-th layer is full, as lists: nothing but the list differs."""
    for name in ("gpt-oss-20b", "qwen-3-next-80b-a3b", "qwen-3-30b-a3b"):
        c = Config.from_hf(CONFIGS[name])
        kinds = tuple(
            LayerKind(k.window, k.moe, mixer=c.mixer(k)) for k in map(c.kind, range(c.L))
        )  # fmt: skip
        sizes = {
            n: getattr(c, n) for n in ("D", "L", "N", "K", "H", "F", "V", "tied", "norms", "biases", "moe", "gated")
        }
        listed = Config(**sizes, layers=kinds)
        assert parameters(listed) == parameters(c)
        for count in ("causal", "all"):
            assert flops(listed, 2, 300, count=count) == flops(c, 2, 300, count=count)
        assert kv_cache(listed, S) == kv_cache(c, S)
        assert works(listed, 2, 1, S) == works(c, 2, 1, S)


def test_lists_that_no_rule_gives():
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    c = Config.from_hf(CONFIGS["mistral-7b"] | {"layer_types": kinds, "num_hidden_layers": 3})
    assert [c.kind(i).window for i in range(3)] == [4096, None, None] and c.kind(1).mixer == Heads(32, 8, 128)
    qwen = CONFIGS["qwen-2.5-7b"] | {"use_sliding_window": True, "max_window_layers": 21, "sliding_window": 64}
    assert [n for _, n in Config.from_hf(qwen).groups] == [21, 7]
    dense = Config.from_hf(CONFIGS["qwen-3-30b-a3b"] | {"mlp_only_layers": [5, 3]})
    assert [i for i in range(dense.L) if not dense.kind(i).moe] == [3, 5]
    usual = parameters(Config.from_hf(CONFIGS["qwen-3-30b-a3b"]))
    assert usual.total - parameters(dense).total == 2 * 2048 * (3 * 128 * 768 + 128 - 3 * dense.F)


HYBRID, LETTERS, HEADS2 = (INVENTED[n] for n in ("hybrid-listed-layers", "one-letter-layers", "two-kinds-of-heads"))
LINEAR = HYBRID["linear_attn_config"]
REFUSED = {
    "it has to name each of the layers 1 to 9 once": (HYBRID, {"linear_attn_config": LINEAR | {"kda_layers": [1, 2]}}),
    "layers 1 are none of mamba, moe, attention, mlp": (LETTERS, {"hybrid_override_pattern": "MXM*EMEM"}),
    "layers all of them are none of mamba": (LETTERS, {"hybrid_override_pattern": ""}),
    "layers_block_type ['mamba', 3] of this nemotron_h": (LETTERS, {"hybrid_override_pattern": None, "layers_block_type": ["mamba", 3]}),
    "hybrid_layer_pattern ['0', 1] of this mimo_v2_flash cannot be read: it has to be a whole number":
        (HEADS2, {"hybrid_layer_pattern": ["0", 1], "num_hidden_layers": 2}),
    "it has to name the tokens of a key": (ALONE["compressed"], {"compress_ratios": [4, 4]}),
    "layer_types of this deepseek_v4 cannot be read: give it, or compress_ratios": (ALONE["compressed"], {"compress_ratios": None}),
    "it has to be numbers of layers": (ALONE["step"], {"moe_layers_enum": "two"}),
    "layer 1 has no attention and ffn": (ALONE["searched"], {"block_configs": [ALONE["searched"]["block_configs"][0], {}]}),
    "layers has 1 of the L=3 layers": (ALONE["searched"], {"block_configs": ALONE["searched"]["block_configs"][:1]}),
    "which does not divide the heads":
        (ALONE["searched"], {"block_configs": [{"attention": {"n_heads_in_group": "2"}, "ffn": {"no_op": True}}]}),
}  # fmt: skip


@walks(REFUSED)
def test_lists_that_are_wrong(sentence):
    config, changes = REFUSED[sentence]
    refused((lambda: Config.from_hf(config | changes), sentence))
