"""The config.json of a model on huggingface.co, as the fields of a `Config`: a row for each model_type (chapter 3).

`FAMILIES` says what an architecture fixes, how it names its sizes, and which readers see to the rest; what a reader cannot say in
a `Config` it refuses. Values for absent fields are those of transformers' configuration classes. Multi-token-prediction heads,
vision and audio are left out: the decoder alone is read.
"""

import json
from os import PathLike
from pathlib import Path

from helpers.arguments import formula

from . import hf_layers as layers
from .hf_fields import ABSENT, Fields, family, few, latent, mixture
from .hf_layers import BALANCE, by_layer, shared_indexers
from .mixers import Gemma3n, Indexer
from .states import Linear

# Readers: what several fields of a file together say in a `Config`; each refuses with a sentence what that cannot say.

LOCAL = ("sliding_attention", "chunked_attention", "linear_attention")
"""What layer_types calls layers that are not full."""


def pattern(hf: Fields, full_every: int | None) -> dict:
    """full_every of layer_types, or the given one if there are none: 1 if all are full, None if all are local; else which are local."""
    kinds, L = hf.layers("layer_types"), hf["num_hidden_layers"]
    if kinds is None:
        return {"full_every": full_every}
    if unknown := sorted(set(kinds) - {"full_attention", *LOCAL}):
        where = [i for i, kind in enumerate(kinds) if kind in unknown]
        hf.refuse("layer_types", f"layers {few(where)} are {unknown[0]}; known are full_attention, {', '.join(LOCAL)}")
    full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    step = full[0] + 1 if full else None
    if full and full != list(range(step - 1, L, step)):
        return {"local": [kind != "full_attention" for kind in kinds]}
    return {"full_every": step}


def windows(field: str = "sliding_window", full_every: int | None = None):
    """A reader: local layers with a window, each `full_every`-th of which is full, or those of a list."""

    def read(hf: Fields) -> dict:
        window, rule = hf.get(field), pattern(hf, hf.get("sliding_window_pattern", full_every))
        return {} if window is None or rule == {"full_every": 1} else {"window": window, **rule}

    return read


def qwen_windows(hf: Fields) -> dict:
    """Windows only where use_sliding_window is on, and then from layer max_window_layers on."""
    if not hf.flag("use_sliding_window"):
        return {}
    first, L = hf.get("max_window_layers", 0), hf["num_hidden_layers"]
    if 0 < first < L:
        return {"window": hf["sliding_window"], "local": [i >= first for i in range(L)]}
    return {} if first else {"window": hf["sliding_window"]}


def made(kind: type, field: str, prefix: str, **names: str):
    """A reader: a record of `Config`, by the names that the file has for its fields."""
    return lambda f: {field: kind(**{name: f[prefix + own] for name, own in names.items()})}


def experts(E: str, F: str = "moe_intermediate_size", k: str = "num_experts_per_tok"):
    """A reader: experts in every layer."""
    return lambda f: {"moe": mixture(f, E, k, F)}


def qwen_experts(hf: Fields) -> dict:
    moe = mixture(hf, "num_experts")
    dense = sorted(hf.typed("mlp_only_layers", i, int) for i in hf.get("mlp_only_layers", [], list))
    step, L, lists = hf.get("decoder_sparse_step", 1), hf["num_hidden_layers"], {}
    if dense == list(range(len(dense))):
        moe |= {"first_dense": len(dense), "every": step}
    else:
        lists = {"sparse": [i not in dense and (i + 1) % step == 0 for i in range(L)]}
    if shared := hf.get("shared_expert_intermediate_size"):
        if shared % (width := moe["F"]):
            why = f"the shared expert of all layers has to be as wide as a whole number of experts of {width}"
            hf.refuse("shared_expert_intermediate_size", why)
        moe |= {"shared": shared // width, "shared_gate": True}
    return {"moe": moe, **lists}


def deepseek_experts(hf: Fields) -> dict:
    if hf.get("n_routed_experts") is None:
        return {}
    dense, step, L = hf.get("first_k_dense_replace", 0), hf.get("moe_layer_freq", 1), hf["num_hidden_layers"]
    moe, words = mixture(hf, shared=hf.get("n_shared_experts", 0), first_dense=dense), hf.layers("mlp_layer_types")
    sparse = [word != "dense" for word in words or []] or [i >= dense and i % step == 0 for i in range(L)]
    return {"moe": moe} if sparse == [i >= dense for i in range(L)] else {"moe": moe, "sparse": sparse}


def latent_heads(hf: Fields) -> dict:
    return {"mla": latent(hf), "H": None, "K": hf["num_attention_heads"]}


def indexer(hf: Fields) -> dict:
    if any(kind != "full" for kind in hf.layers("indexer_types") or []):
        return shared_indexers(hf)
    return made(Indexer, "indexer", "index_", heads="n_heads", width="head_dim", top="topk")(hf)


def delta(hf: Fields) -> dict:
    """Gated DeltaNet, but for every n-th layer, whose attention has a gate."""
    heads = dict(heads="num_value_heads", key_heads="num_key_heads", key="key_head_dim", value="value_head_dim")
    linear = made(Linear, "linear", "linear_", **heads, kernel="conv_kernel_dim")(hf)
    return linear | pattern(hf, hf.get("full_attention_interval", 4)) | {"output_gate": True}


def gemma3n(hf: Fields) -> dict:
    tables = dict(V="vocab_size_per_layer_input", width="hidden_size_per_layer_input")
    read = made(Gemma3n, "gemma3n", "", streams="altup_num_inputs", laurel="laurel_rank", **tables)
    return read(hf) | {"shared_kv": hf["num_kv_shared_layers"]}


def llama4(hf: Fields) -> dict:
    rotary = hf.get("no_rope_layers", [], list)
    every = hf.get("no_rope_layer_interval", 4)
    if rotary and rotary != [int((i + 1) % every != 0) for i in range(len(rotary))]:
        odd = [i for i, has in enumerate(rotary) if has != ((i + 1) % every != 0)]
        hf.refuse(
            "no_rope_layers",
            f"every {every}th layer has to be full, without rotary positions, and layers {few(odd)} are not so",
        )
    step = hf.get("interleave_moe_layer_step", 1)
    moe = mixture(hf, "num_local_experts", F="intermediate_size", shared=1, every=step)
    return windows("attention_chunk_size", every)(hf) | {"F": hf["intermediate_size_mlp"], "moe": moe}


def falcon(hf: Fields) -> dict:
    new, parallel = hf.flag("new_decoder_architecture"), hf.flag("parallel_attn", True)
    K = hf["num_attention_heads"] if not (new or hf.flag("multi_query")) else hf.get("num_kv_heads") if new else 1
    return {"K": K or hf["num_attention_heads"], "parallel": new or parallel, "norms": 1 if parallel and not new else 2}


def norms_of(kind: str):
    """A reader: norms of queries and keys, over a "head" or over the "full" width, where use_qk_norm is on."""
    return lambda f: {"qk_norm": kind if f.flag("use_qk_norm") else ""}


def ernie_experts(hf: Fields) -> dict:
    """ERNIE 4.5: experts from one layer to another, every n-th of these."""
    shared, first = hf["moe_num_shared_experts"], hf["moe_layer_start_index"]
    step = hf.get("moe_layer_interval", 1)
    moe = mixture(hf, "moe_num_experts", "moe_k", shared=shared, first_dense=first, every=step)
    end, L = hf.get("moe_layer_end_index", -1), hf["num_hidden_layers"]
    if end not in (-1, L - 1):
        hf.refuse("moe_layer_end_index", f"experts have to go on to the last layer, {L - 1}")
    layers = sum(i >= first and (i + 1) % step == 0 for i in range(L))
    return {"moe": moe, "beside": (0, layers * moe["E"]), "said": (BALANCE,)}


def minimax(hf: Fields) -> dict:
    """MiniMax-M2; layers of lightning attention, as in MiniMax-Text-01, have a state of another kind than Gated DeltaNet's."""
    for field, full in (("attn_type_list", 1), ("layer_types", "full_attention")):
        if lightning := [i for i, kind in enumerate(hf.get(field, [], list)) if kind != full]:
            hf.refuse(field, f"layers {few(lightning)} have lightning attention, which is not known here")
    if hf.get("qk_norm_type", "per_layer", str) != "per_layer":
        hf.refuse("qk_norm_type", "queries and keys of all layers have to be normed over all heads at once, per_layer")
    return norms_of("full")(hf)


# Architectures: what they fix, how they name their sizes, and which readers see to the rest.

EVERY = ("qkv", "o", "mlp")
ATTENTION = {"attention_bias": ("qkv", "o")}
NO_BIAS = {"attention_bias": "latent attention of all layers has no biases here"}
TIED = {"tie_word_embeddings": True}
GEMMA = dict(defaults=TIED | {"head_dim": 256}, switches=ATTENTION)
PLAIN = dict(gated=False, norm="layer")
GPT = PLAIN | dict(four_wide=True)
N_NAMES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}

_LLAMA = dict(switches=ATTENTION | {"mlp_bias": ("mlp",)})
_COHERE = dict(norm="layer-no-bias", norms=1, parallel=True, switches=ATTENTION)
_LATENT = dict(never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 1, "first_k_dense_replace": 3})
_NEXT = dict(qk_norm="head", switches=ATTENTION, defaults={"head_dim": 256, "linear_conv_kernel_dim": 4})

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
        ernie_experts,
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
    "mistral": family(windows(), defaults={"sliding_window": 4096}),
    "ministral3": family(windows()),
    "mixtral": family(windows(), experts("num_local_experts", "intermediate_size")),
    "qwen2": family(qwen_windows, biases=("qkv",)),
    "qwen3": family(qwen_windows, qk_norm="head", switches=ATTENTION, defaults={"head_dim": 128}),
    "qwen2_moe": family(qwen_windows, qwen_experts, biases=("qkv",)),
    "qwen3_moe": family(qwen_windows, qwen_experts, qk_norm="head", switches=ATTENTION),
    "qwen3_next": family(qwen_experts, delta, **_NEXT),
    "qwen3_5": family(delta, **_NEXT),
    "qwen3_5_moe": family(qwen_experts, delta, names={"intermediate_size": "moe_intermediate_size"}, **_NEXT),
    "gemma": family(**GEMMA),
    "gemma2": family(windows(full_every=2), norms=4, **GEMMA | {"defaults": GEMMA["defaults"] | {"sliding_window": 4096}}),
    "gemma3": family(
        windows(full_every=6),
        norms=4, qk_norm="head", switches=ATTENTION,
        defaults=TIED | dict(head_dim=256, num_attention_heads=8, num_key_value_heads=4, vocab_size=262208, sliding_window=4096),
    ),
    "gemma3n": family(
        windows(full_every=5), gemma3n,
        norms=4, qk_norm="head", switches=ATTENTION,
        defaults=TIED | dict(head_dim=256, sliding_window=512, laurel_rank=64, altup_num_inputs=4, vocab_size_per_layer_input=262144,
                             hidden_size_per_layer_input=256),
    ),
    "gemma4": family(
        layers.gemma4, switches=ATTENTION,
        defaults=TIED | dict(head_dim=256, num_key_value_heads=4, sliding_window=512, vocab_size_per_layer_input=262144),
    ),
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
    "phi3": family(windows()),
    "olmo": family(norm="none", switches=ATTENTION),
    "olmo2": family(qk_norm="full", switches=ATTENTION),
    "olmo3": family(windows(full_every=4), qk_norm="full", switches=ATTENTION, defaults={"sliding_window": 4096}),
    "cohere": family(norms_of("full"), defaults=TIED, **_COHERE),
    "cohere2": family(windows(full_every=4), defaults=TIED | {"sliding_window": 4096}, **_COHERE),
    "falcon": family(
        falcon, names={"intermediate_size": "ffn_hidden_size"}, switches={"bias": EVERY},
        defaults=TIED | {"multi_query": True, "parallel_attn": True}, **GPT,
    ),
    "bloom": family(
        biases=EVERY, embed_norm=True, defaults=TIED,
        names={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}, **GPT,
    ),
    "starcoder2": family(windows(), switches={"use_bias": EVERY}, defaults=TIED | {"use_bias": True}, **PLAIN),
    "deepseek": family(deepseek_experts, switches=ATTENTION),
    "deepseek_v2": family(
        latent_heads, deepseek_experts,
        never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 2},
    ),
    "deepseek_v3": family(latent_heads, deepseek_experts, **_LATENT),
    "deepseek_v32": family(latent_heads, deepseek_experts, indexer, **_LATENT),
    "glm4_moe": family(
        deepseek_experts, norms_of("head"), switches={"attention_bias": ("qkv",)},
        defaults={"n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "glm4_moe_lite": family(
        latent_heads, deepseek_experts, layers.balanced,
        never=NO_BIAS, defaults={"n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "kimi_linear": family(layers.kimi_linear, never=NO_BIAS, defaults={"first_k_dense_replace": 1, "num_shared_experts": 1}),
    "deepseek_v4": family(
        layers.compressed,
        names={"intermediate_size": "moe_intermediate_size"}, defaults={"hc_mult": 4, "num_key_value_heads": 1}, never=NO_BIAS,
    ),
    "mimo_v2": family(layers.two_heads, defaults={"sliding_window": 128}, switches={"attention_bias": ("qkv",)}),
    "step3p5": family(
        layers.step,
        names={"num_key_value_heads": "num_attention_groups"}, defaults={"head_dim": 128, "sliding_window": 512},
    ),
    "minimax_m3": family(layers.block_sparse, defaults={"head_dim": 128, "dense_intermediate_size": 12288}),
    "minimax_m2": family(
        experts("num_local_experts", "intermediate_size"), minimax,
        never={"shared_intermediate_size": "no layer has a shared expert here"}, defaults={"head_dim": 128, "use_qk_norm": True},
    ),
    "gpt_oss": family(
        windows(full_every=2), experts("num_local_experts", "intermediate_size"),
        biases=("mlp", "router"), sinks=True, switches=ATTENTION, defaults={"attention_bias": True, "sliding_window": 128},
    ),
    "llama4": family(llama4, switches=ATTENTION, defaults={"attention_chunk_size": 8192}),
    "dbrx": family(
        experts("ffn_config.moe_num_experts", "intermediate_size", "ffn_config.moe_top_k"),
        norm="layer-no-bias",
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "num_key_value_heads": "attn_config.kv_n_heads", "intermediate_size": "ffn_config.ffn_hidden_size"},
    ),
}  # fmt: skip
SAME = {
    "qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl": "qwen2", "qwen2_5_vl_text": "qwen2", "mimo": "qwen2",
    "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe", "gemma3_text": "gemma3", "gemma3n_text": "gemma3n", "gemma4_text": "gemma4",
    "glm4v_moe_text": "glm4_moe", "mimo_v2_flash": "mimo_v2", "step3p7_text": "step3p5",
    "minimax_m3_vl": "minimax_m3", "minimax_m3_vl_text": "minimax_m3", "minimax": "minimax_m2",
    "llama4_text": "llama4", "kimi_k2": "deepseek_v3", "glm_moe_dsa": "deepseek_v32",
}  # fmt: skip
"""Names under which a file has all fields of another architecture's: newer models of it, and decoders of those that see."""
FAMILIES |= {name: FAMILIES[other] for name, other in SAME.items()}

TEXTS = "text_config", "llm_config", "language_config"  # the decoder of a model that sees or hears as well
MHA = (
    "llama", "gpt2", "gpt_neox", "phi", "phi3", "olmo", "olmo2", "cohere", "falcon", "bloom",
    "olmo3", "cohere2", "nemotron", "seed_oss", "deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2", "deepseek_v32",
)  # fmt: skip
"""Architectures with as many KV heads as query heads where the file does not say."""


def _sizes(hf: Fields) -> dict:
    out = {"D": hf["hidden_size"], "L": hf["num_hidden_layers"], "N": hf["num_attention_heads"], "V": hf["vocab_size"]}
    if not hf.family.sized:
        return out | {"tied": hf.flag("tie_word_embeddings")}
    out["F"] = _width(hf)
    biases = [b for switch, some in hf.family.switches.items() if hf.flag(switch) for b in some]
    K = hf.get("num_key_value_heads", out["N"] if hf.type in MHA or "num_key_value_heads" in hf.given else None)
    out |= {"K": hf["num_key_value_heads"] if K is None else K, "H": hf.get("head_dim")}
    out |= {"tied": hf.flag("tie_word_embeddings"), "biases": (*hf.family.fixed.get("biases", ()), *biases)}
    for field, why in hf.family.never.items():
        if hf.raw(field) not in (ABSENT, None, False, 0):
            hf.refuse(field, why)
    return out


def _width(hf: Fields) -> int:
    """F, which is one number, or one for each layer."""
    if isinstance(hf.raw("intermediate_size"), list):
        F = hf.layers("intermediate_size", int)
        if odd := [i for i, one in enumerate(F) if one != F[0]]:
            hf.refuse("intermediate_size", f"layers {few(odd)} have an MLP of another width than layer 0")
        return F[0]
    four_wide = hf.get("intermediate_size") is None and hf.family.four_wide
    return 4 * hf["hidden_size"] if four_wide else hf["intermediate_size"]


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
