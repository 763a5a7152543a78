"""Real config.json files against the rows of public models and counts of their modelling code; what cannot be said is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.costs.transformers.config import MLA, Config
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import MODELS, SOURCES
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.listed import ALONE

DATA = json.loads((Path(__file__).parents[4] / "book/data/hf_configs.json").read_text(encoding="utf-8"))["models"]
CONFIGS = {row["name"]: row["config"] for row in DATA}
LLAMA, QWEN, V3 = CONFIGS["llama-3-8b"], CONFIGS["qwen-2.5-7b"], CONFIGS["deepseek-v3"]


@walks(DATA)
def test_real_files_to_the_parameter(row):
    c = Config.from_hf(row["config"])
    assert replace(c, name=row["name"]) == MODELS[row["name"]]
    assert parameters(c).total == row["parameters"]
    assert row["source"] == SOURCES[row["name"]] and row["read_in"]


OTHER_NAMES = {
    "qwen3_vl_text": "qwen-3-8b", "qwen3_vl_moe_text": "qwen-3-30b-a3b", "mimo": "qwen-2.5-7b",
    "qwen2_vl_text": "qwen-2.5-7b", "qwen2_5_vl_text": "qwen-2.5-7b", "glm4v_moe_text": "glm-4.5-air",
    "qwen2_vl": "qwen-2.5-7b", "qwen2_5_vl": "qwen-2.5-7b",
}  # fmt: skip
"""The decoder of a model that sees, or that predicts several tokens, under a name of its own."""


@walks(OTHER_NAMES)
def test_decoders_under_other_names(kind):
    config = CONFIGS[OTHER_NAMES[kind]]
    assert Config.from_hf(config | {"model_type": kind}) == Config.from_hf(config)
    seeing = {"model_type": kind.removesuffix("_text"), "text_config": config | {"model_type": kind}}
    assert Config.from_hf(seeing) == Config.from_hf(config)
    assert Config.from_hf({"model_type": kind, "llm_config": config | {"model_type": "unheard"}}) == Config.from_hf(
        config
    )
    m3 = {"model_type": "minimax_m3_vl", "text_config": ALONE["blocks"] | {"model_type": "minimax_m2"}}
    assert Config.from_hf(m3) == Config.from_hf(ALONE["blocks"])


def sizes(D, F, L, N, V, **rest):
    """Fields that every file has, and others."""
    usual = dict(hidden_size=D, intermediate_size=F, num_hidden_layers=L, num_attention_heads=N, vocab_size=V)
    return usual | rest


ERNIE = sizes(
    2560, 12288, 28, 20, 103424, num_key_value_heads=4, moe_num_experts=64, moe_k=6, moe_intermediate_size=1536
)
ERNIE |= dict(model_type="ernie4_5_moe", moe_num_shared_experts=2, moe_layer_start_index=1)

# Parameters of published checkpoints, those exact that are quoted to the last digit; sizes as in the checkpoint's config.json.
PUBLISHED = {
    "smollm3": (3_075_098_624, sizes(2048, 11008, 36, 16, 128256, num_key_value_heads=4)),  # SmolLM3-3B
    "seed_oss": (36_151_104_512, sizes(5120, 27648, 64, 80, 155136, num_key_value_heads=8)),  # Seed-OSS-36B
    "olmo3": (7_298_011_136, sizes(4096, 11008, 32, 32, 100278)),  # Olmo-3-7B
    "ernie4_5": (360_748_032, sizes(1024, 3072, 18, 16, 103424, num_key_value_heads=2)),  # ERNIE-4.5-0.3B
    "cohere2": ("111B", sizes(12288, 36864, 64, 96, 256000, num_key_value_heads=8, head_dim=128)),  # Command A
    "ernie4_5_moe": ("21.8B", dict(ERNIE)),  # ERNIE-4.5-21B-A3B
    "nemotron": ("4.19B", sizes(3072, 9216, 32, 24, 256000, num_key_value_heads=8, head_dim=128)),  # Minitron-4B
}


@walks(PUBLISHED)
def test_published_counts(kind):
    count, config = PUBLISHED[kind]
    c = Config.from_hf({"model_type": kind, **config})
    total = parameters(c).total
    assert count in (total, f"{total / 1e9:.3g}B")
    if kind in ("olmo3", "cohere2"):
        assert (c.window, c.full_every) == (4096, 4)


# A value of another type than its field has.
TYPES = {
    "hidden_size '4096' of this llama cannot be read: it has to be a whole number": {"hidden_size": "4096"},
    "vocab_size 64.5 of this llama cannot be read: it has to be a whole number": {"vocab_size": 64.5},
    "num_hidden_layers True of this llama cannot be read: it has to be a whole number": {"num_hidden_layers": True},
    "head_dim {} of this llama cannot be read: it has to be a whole number": {"head_dim": {}},
    "model_type ['llama'] cannot be read: it has to be a word": {"model_type": ["llama"]},
    "tie_word_embeddings 'false' of this llama cannot be read: it has to be true or false": {"tie_word_embeddings": "false"},
    "attention_bias 1 of this llama cannot be read: it has to be true or false": {"attention_bias": 1},
    "layer_types 'full' of this olmo3 cannot be read: it has to be a list": {"model_type": "olmo3", "layer_types": "full"},
    "layer_types [{}] of this olmo3 cannot be read: it has to be a word": {"model_type": "olmo3", "layer_types": [{}]},
    "intermediate_size [] of this llama cannot be read: it names 0 layers": {"intermediate_size": []},
    "L is a whole number of 1 or more, got 0": {"num_hidden_layers": 0},
}  # fmt: skip


@walks(TYPES)
def test_types_are_looked_at(sentence):
    refused((lambda: Config.from_hf(LLAMA | TYPES[sentence]), sentence))


def test_a_file_is_read_from_its_path(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"pad_token_id": -1, "quantization_config": {"bits": 4}}))
    assert Config.from_hf(path) == Config.from_hf(str(path)) == Config.from_hf(LLAMA | {"pad_token_id": -1})


def test_the_decoder_of_a_model_that_sees():
    seeing = dict(model_type="llava", vision_config={"hidden_size": 9}, tie_word_embeddings=True, text_config=LLAMA)
    assert not Config.from_hf(seeing).tied
    bare = {name: x for name, x in LLAMA.items() if name != "tie_word_embeddings"}
    assert Config.from_hf(seeing | {"text_config": bare}).tied


def test_layer_types_are_the_pattern_that_they_show():
    kinds = ["sliding_attention", "sliding_attention", "full_attention"] * 2 + ["sliding_attention"]
    mistral = CONFIGS["mistral-7b"] | {"num_hidden_layers": 7}
    c = Config.from_hf(mistral | {"layer_types": kinds})
    assert [c.kind(i).window is None for i in range(7)] == [kind == "full_attention" for kind in kinds]
    assert Config.from_hf(mistral | {"layer_types": ["full_attention"] * 7}).window is None
    assert Config.from_hf(mistral | {"layer_types": ["sliding_attention"] * 7}).groups[0][1] == 7


def test_null_is_not_absent():
    """transformers takes a rank of 1536 where the field is absent, and none where it is null."""
    lite = CONFIGS["deepseek-v2-lite"]
    assert lite["q_lora_rank"] is None and Config.from_hf(lite).mla == MLA(None, 512, 128, 64, 128)
    assert Config.from_hf({name: x for name, x in lite.items() if name != "q_lora_rank"}).mla.q_rank == 1536


def test_switches():
    assert Config.from_hf(LLAMA | {"attention_bias": True, "mlp_bias": True}).biases == ("qkv", "o", "mlp")
    assert Config.from_hf(CONFIGS["glm-4.5"] | {"use_qk_norm": False}).qk_norm == ""
    assert Config.from_hf(CONFIGS["aya-23-8b"] | {"use_qk_norm": True}).qk_norm == "full"
    neox = Config.from_hf(CONFIGS["gpt-neox-20b"] | {"use_parallel_residual": False, "attention_bias": False})
    assert (neox.parallel, neox.norms, neox.biases) == (False, 2, ("mlp",))
    windowed = Config.from_hf(QWEN | {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 0})
    assert (windowed.window, windowed.full_every) == (512, None)
    assert Config.from_hf(QWEN | {"use_sliding_window": True, "max_window_layers": 28}).window is None


@walks([
    ({"new_decoder_architecture": True, "num_kv_heads": 1}, 1, 2, True), ({"multi_query": False}, 71, 1, True),
    ({"parallel_attn": False, "bias": True}, 1, 2, False),
])  # fmt: skip
def test_falcons(changes, K, norms, parallel):
    c = Config.from_hf(CONFIGS["falcon-7b"] | changes)
    assert (c.K, c.norms, c.parallel) == (K, norms, parallel)


DROPPED = {name: x for name, x in CONFIGS["mistral-7b"].items() if name != "num_key_value_heads"}
REFUSED = {
    "no way to read a model_type of 'mamba' is known: there are llama, smollm3,": (LLAMA, {"model_type": "mamba"}),
    "no way to read a model_type of None": (LLAMA, {"model_type": None}),
    "of a llama has no intermediate_size: add it": (LLAMA, {"intermediate_size": None}),
    "of a gpt2 has no n_embd": (CONFIGS["gpt-2"], {"n_embd": None}),
    "of a dbrx has no ffn_config.moe_top_k": (CONFIGS["dbrx"], {"ffn_config": {"moe_num_experts": 16, "ffn_hidden_size": 8}}),
    "of a deepseek_v32 has no index_topk": (CONFIGS["deepseek-v3.2"], {"index_topk": None}),
    "moe_layer_end_index 5 of this ernie4_5_moe": (ERNIE, {"moe_layer_end_index": 5}),
    "layers 0, 2 are mamba":
        (CONFIGS["mistral-7b"], {"layer_types": ["mamba", "full_attention", "mamba", "full_attention"], "num_hidden_layers": 4}),
    "it names 2 layers, and num_hidden_layers is 32": (CONFIGS["mistral-7b"], {"layer_types": ["full_attention"] * 2}),
    "of a mistral has no num_key_value_heads": (DROPPED, {}),
    "attention_bias True of this deepseek_v3 cannot be read: latent attention": (V3, {"attention_bias": True}),
    "it names 3 layers, and num_hidden_layers is 61": (CONFIGS["deepseek-v3.2"], {"indexer_types": ["full", "shared", "shared"]}),
    "attn_type_list [0, 1, 0] of this minimax": (CONFIGS["minimax-m2"], {"attn_type_list": [0, 1, 0]}),
    "layers 0, 2 have lightning attention": (CONFIGS["minimax-m2"], {"attn_type_list": [0, 1, 0]}),
    "shared_intermediate_size 8 of this minimax_m2": (CONFIGS["minimax-m2"], {"shared_intermediate_size": 8}),
    "qk_norm_type 'per_head' of this minimax_m2": (CONFIGS["minimax-m2"], {"qk_norm_type": "per_head"}),
    "shared_expert_intermediate_size 700 of this qwen3_next": (CONFIGS["qwen-3-next-80b-a3b"], {"shared_expert_intermediate_size": 700}),
    "layers 1, 2 have an MLP of another width than layer 0":
        (CONFIGS["gemma-3n-e2b"], {"intermediate_size": [8, 9, 9], "num_hidden_layers": 3}),
    "add_cross_attention True of this gpt2": (CONFIGS["gpt-2"], {"add_cross_attention": True}),
    "qk_layernorm True of this phi": (CONFIGS["phi-2"], {"qk_layernorm": True}),
    "layers 1, 2 are not so": (CONFIGS["llama-4-scout"]["text_config"], {"no_rope_layers": [1, 0, 0, 0], "num_hidden_layers": 4}),
}  # fmt: skip


@walks(REFUSED)
def test_what_cannot_be_said_is_refused(sentence):
    config, changes = REFUSED[sentence]
    refused((lambda: Config.from_hf(config | changes), sentence))


@pytest.mark.parametrize(
    "text, sentence", [("{", "no config.json, for it is not JSON: "), ("[]", "and this is a list")]
)
def test_files_that_are_none(tmp_path, text, sentence):
    path = tmp_path / "config.json"
    path.write_text(text)
    refused((lambda: Config.from_hf(path), sentence))


def test_widths_that_agree_are_one():
    assert Config.from_hf(CONFIGS["gemma-3n-e2b"] | {"intermediate_size": [8192] * 30}).F == 8192
