"""The config.json of a model on huggingface.co, as the fields of a `Config`: a row for each model_type (chapter 3).

`FAMILIES` says what an architecture fixes, how it names its sizes, and which readers see to the rest; what a reader cannot say in
a `Config` it refuses. Values for absent fields are those of transformers' configuration classes. Multi-token-prediction heads,
vision and audio are left out: the decoder alone is read.
"""

import json
from os import PathLike
from pathlib import Path

from helpers.arguments import formula

from . import hf_layers as layers, hf_readers as readers
from .hf_fields import ABSENT, Fields, family, few
from .hf_layers import by_layer

EVERY = ("qkv", "o", "mlp")
ATTENTION = {"attention_bias": ("qkv", "o")}
NO_BIAS = {"attention_bias": "latent attention of all layers has no biases here"}
TIED = {"tie_word_embeddings": True}
GEMMA = dict(defaults=TIED | {"head_dim": 256}, switches=ATTENTION)
PLAIN = dict(gated=False, norm="layer")
GPT = PLAIN | dict(four_wide=True)
N_NAMES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}

_LLAMA = dict(switches=ATTENTION | {"mlp_bias": ("mlp",)})
_QWEN2 = family(readers.qwen_windows, biases=("qkv",))
_QWEN3 = dict(qk_norm="head", switches=ATTENTION, defaults={"head_dim": 128})
_QWEN3_MOE = family(readers.qwen_windows, readers.qwen_experts, **_QWEN3 | {"defaults": {}})
_COHERE = dict(norm="layer-no-bias", norms=1, parallel=True, switches=ATTENTION)
_GEMMA3 = family(
    readers.windows(every=6),
    norms=4, qk_norm="head", switches=ATTENTION,
    defaults=TIED | dict(head_dim=256, num_attention_heads=8, num_key_value_heads=4, vocab_size=262208, sliding_window=4096),
)  # fmt: skip
_GEMMA3N = family(
    readers.windows(every=5), readers.gemma3n,
    norms=4, qk_norm="head", switches=ATTENTION,
    defaults=TIED | dict(head_dim=256, sliding_window=512, laurel_rank=64, altup_num_inputs=4, vocab_size_per_layer_input=262144,
                         hidden_size_per_layer_input=256),
)  # fmt: skip
_LLAMA4 = family(readers.llama4, switches=ATTENTION, defaults={"attention_chunk_size": 8192})
_LATENT = dict(never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 1, "first_k_dense_replace": 3})
_NEXT = dict(qk_norm="head", switches=ATTENTION, defaults={"head_dim": 256, "linear_conv_kernel_dim": 4})
_QWEN35 = family(readers.delta, **_NEXT)
_QWEN35_MOE = family(readers.qwen_experts, readers.delta, names={"intermediate_size": "moe_intermediate_size"}, **_NEXT)
_GEMMA4 = family(
    layers.gemma4, switches=ATTENTION,
    defaults=TIED | dict(head_dim=256, num_key_value_heads=4, sliding_window=512, vocab_size_per_layer_input=262144),
)  # fmt: skip
_MIMO2 = family(layers.two_heads, defaults={"sliding_window": 128}, switches={"attention_bias": ("qkv",)})
_STEP = family(
    layers.step,
    names={"num_key_value_heads": "num_attention_groups"}, defaults={"head_dim": 128, "sliding_window": 512},
)  # fmt: skip
_GLM4_MOE = family(
    readers.deepseek_experts, readers.norms_of("head"), switches={"attention_bias": ("qkv",)},
    defaults={"n_shared_experts": 1, "first_k_dense_replace": 1},
)  # fmt: skip
_M3 = family(layers.block_sparse, defaults={"head_dim": 128, "dense_intermediate_size": 12288})
_M2 = family(
    readers.experts("num_local_experts", "intermediate_size"), readers.minimax,
    never={"shared_intermediate_size": "no layer has a shared expert here"}, defaults={"head_dim": 128, "use_qk_norm": True},
)  # fmt: skip

FAMILIES = {
    "llama": family(**_LLAMA),
    "smollm3": family(
        never={"use_sliding_window": "no layer has a window here"}, defaults=TIED | {"num_key_value_heads": 4}, **_LLAMA,
    ),
    "seed_oss": family(
        switches={"attention_bias": ("qkv",), "attention_out_bias": ("o",), "mlp_bias": ("mlp",)},
        defaults={"attention_bias": True, "head_dim": 128},
    ),
    "ernie4_5": family(switches={"use_bias": (*EVERY, "unembed")}, defaults=TIED | {"head_dim": 128}),
    "ernie4_5_moe": family(
        readers.ernie_experts,
        switches={"use_bias": (*EVERY, "unembed")},
        defaults=TIED | {"num_key_value_heads": 4, "moe_num_shared_experts": 2, "moe_layer_start_index": 1},
    ),
    "nemotron": family(**_LLAMA, **PLAIN),
    "nemotron-nas": family(layers.searched, sized=False, **_LLAMA),
    "nemotron_h": family(
        layers.nemotron_h,
        gated=False, switches=ATTENTION | {"mlp_bias": ("mlp",)},
        defaults={"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 21504},
    ),
    "mistral": family(readers.windows(), defaults={"sliding_window": 4096}),
    "ministral3": family(readers.windows()),
    "mixtral": family(readers.windows(), readers.experts("num_local_experts", "intermediate_size")),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "mimo": _QWEN2,
    "qwen3": family(readers.qwen_windows, **_QWEN3),
    "qwen3_vl_text": family(readers.qwen_windows, **_QWEN3),
    "qwen2_moe": family(readers.qwen_windows, readers.qwen_experts, biases=("qkv",)),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "qwen3_next": family(readers.qwen_experts, readers.delta, **_NEXT),
    "qwen3_5": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe": _QWEN35_MOE,
    "qwen3_5_moe_text": _QWEN35_MOE,
    "gemma": family(**GEMMA),
    "gemma2": family(readers.windows(every=2), norms=4, **GEMMA | {"defaults": GEMMA["defaults"] | {"sliding_window": 4096}}),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n": _GEMMA3N,
    "gemma3n_text": _GEMMA3N,
    "gemma4": _GEMMA4,
    "gemma4_text": _GEMMA4,
    "gpt2": family(
        lambda f: {"positions": f["n_positions"]},
        biases=EVERY, names=N_NAMES | {"intermediate_size": "n_inner"}, defaults=TIED,
        never={"add_cross_attention": "no layer has attention to an encoder here"}, **GPT,
    ),
    "gpt_neox": family(
        lambda f: {"parallel": f.flag("use_parallel_residual")},
        biases=("mlp",), switches=ATTENTION, defaults={"attention_bias": True, "use_parallel_residual": True}, **PLAIN,
    ),
    "phi": family(
        biases=(*EVERY, "unembed"), parallel=True, norms=1,
        never={"qk_layernorm": "no layer norms its queries and keys with a shift here"}, **PLAIN,
    ),
    "phi3": family(readers.windows()),
    "olmo": family(norm="none", switches=ATTENTION),
    "olmo2": family(qk_norm="full", switches=ATTENTION),
    "olmo3": family(readers.windows(every=4), qk_norm="full", switches=ATTENTION, defaults={"sliding_window": 4096}),
    "cohere": family(readers.norms_of("full"), defaults=TIED, **_COHERE),
    "cohere2": family(readers.windows(every=4), defaults=TIED | {"sliding_window": 4096}, **_COHERE),
    "falcon": family(
        readers.falcon, names={"intermediate_size": "ffn_hidden_size"}, switches={"bias": EVERY},
        defaults=TIED | {"multi_query": True, "parallel_attn": True}, **GPT,
    ),
    "bloom": family(
        biases=EVERY, embed_norm=True, defaults=TIED,
        names={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}, **GPT,
    ),
    "starcoder2": family(readers.windows(), switches={"use_bias": EVERY}, defaults=TIED | {"use_bias": True}, **PLAIN),
    "deepseek": family(readers.deepseek_experts, switches=ATTENTION),
    "deepseek_v2": family(
        readers.latent, readers.deepseek_experts,
        never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 2},
    ),
    "deepseek_v3": family(readers.latent, readers.deepseek_experts, **_LATENT),
    "kimi_k2": family(readers.latent, readers.deepseek_experts, **_LATENT),
    "deepseek_v32": family(readers.latent, readers.deepseek_experts, readers.indexer, **_LATENT),
    "glm_moe_dsa": family(readers.latent, readers.deepseek_experts, readers.indexer, **_LATENT),
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe_text": _GLM4_MOE,
    "glm4_moe_lite": family(
        readers.latent, readers.deepseek_experts, layers.balanced,
        never=NO_BIAS, defaults={"n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "kimi_linear": family(layers.kimi_linear, never=NO_BIAS, defaults={"first_k_dense_replace": 1, "num_shared_experts": 1}),
    "deepseek_v4": family(
        layers.compressed,
        names={"intermediate_size": "moe_intermediate_size"}, defaults={"hc_mult": 4, "num_key_value_heads": 1}, never=NO_BIAS,
    ),
    "mimo_v2_flash": _MIMO2,
    "mimo_v2": _MIMO2,
    "step3p5": _STEP,
    "step3p7_text": _STEP,
    "minimax_m3": _M3,
    "minimax_m3_vl": _M3,
    "minimax_m3_vl_text": _M3,
    "minimax_m2": _M2,
    "minimax": _M2,
    "gpt_oss": family(
        readers.windows(every=2), readers.experts("num_local_experts", "intermediate_size"),
        biases=("mlp", "router"), sinks=True, switches=ATTENTION, defaults={"attention_bias": True, "sliding_window": 128},
    ),
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "dbrx": family(
        readers.experts("ffn_config.moe_num_experts", "intermediate_size", "ffn_config.moe_top_k"),
        norm="layer-no-bias",
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "num_key_value_heads": "attn_config.kv_n_heads", "intermediate_size": "ffn_config.ffn_hidden_size"},
    ),
}  # fmt: skip


SIZES = {
    "D": "hidden_size",
    "L": "num_hidden_layers",
    "N": "num_attention_heads",
    "V": "vocab_size",
}
TEXTS = "text_config", "llm_config", "language_config"  # the decoder of a model that sees or hears as well
MHA = (
    "llama", "gpt2", "gpt_neox", "phi", "phi3", "olmo", "olmo2", "cohere", "falcon", "bloom",
    "olmo3", "cohere2", "nemotron", "seed_oss", "deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2", "deepseek_v32",
)  # fmt: skip
"""Architectures with as many KV heads as query heads where the file does not say."""


def _sizes(f: Fields) -> dict:
    out = {symbol: f[name] for symbol, name in SIZES.items()}
    if not f.family.sized:
        return out | {"tied": f.flag("tie_word_embeddings")}
    out["F"] = _width(f)
    biases = [b for switch, some in f.family.switches.items() if f.flag(switch) for b in some]
    K = f.get("num_key_value_heads", out["N"] if f.type in MHA or "num_key_value_heads" in f.given else None)
    out |= {"K": f["num_key_value_heads"] if K is None else K, "H": f.get("head_dim")}
    out |= {"tied": f.flag("tie_word_embeddings"), "biases": (*f.family.fixed.get("biases", ()), *biases)}
    for field, why in f.family.never.items():
        if f.raw(field) not in (ABSENT, None, False, 0):
            f.refuse(field, why)
    return out


def _width(f: Fields) -> int:
    """F, which is one number, or one for each layer."""
    if isinstance(f.raw("intermediate_size"), list):
        F = f.layers("intermediate_size", int)
        if odd := [i for i, one in enumerate(F) if one != F[0]]:
            f.refuse("intermediate_size", f"layers {few(odd)} have an MLP of another width than layer 0")
        return F[0]
    return 4 * f["hidden_size"] if f.get("intermediate_size") is None and f.family.four_wide else f["intermediate_size"]


@formula(signed="source")
def fields(source: dict | str | PathLike) -> dict:
    """Fields of a `Config`, those of its records as dicts; see `Config.from_hf`."""
    given = source if isinstance(source, dict) else _file(source)
    if text := next((text for name in TEXTS if isinstance(text := given.get(name), dict)), None):
        outer = {name: given[name] for name in ("model_type", "tie_word_embeddings") if name in given}
        given = outer | text
        kind, known = outer.get("model_type"), (*FAMILIES,)
        # The text of minimax_m3_vl says minimax_m2.
        if kind in known and (kind == "minimax_m3_vl" or given["model_type"] not in known):
            given["model_type"] = kind
    kind = given.get("model_type")
    if not isinstance(kind, str | None):
        raise ValueError(f"model_type {kind!r} cannot be read: it has to be a word in quotes, such as 'llama'")
    if kind not in FAMILIES:
        raise ValueError(f"no way to read a model_type of {kind!r} is known: there are {', '.join(FAMILIES)}")
    f = Fields(given, kind, FAMILIES[kind])
    out = f.family.fixed | _sizes(f)
    for read in f.family.readers:
        out |= read(f)
    return by_layer(out)


def _file(path: str | PathLike) -> dict:
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as e:
        raise ValueError(f"{path} is no config.json, for it is not JSON: {e}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{path} is no config.json: that is an object of fields, and this is a {type(given).__name__}")
    return given
