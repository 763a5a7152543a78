"""The config.json of a model on huggingface.co, as the fields of a `Config` (chapter 3).

`FAMILIES` says for each model_type what its architecture fixes, how it names its sizes, and which readers see to the rest; what
a reader cannot say in a `Config` it refuses. Values for absent fields are those of transformers' configuration classes.
Multi-token-prediction heads, vision and audio are left out: the decoder alone is read.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from helpers.arguments import formula, unchecked

SIZES = {
    "D": "hidden_size",
    "L": "num_hidden_layers",
    "N": "num_attention_heads",
    "F": "intermediate_size",
    "V": "vocab_size",
}
EVERY = ("qkv", "o", "mlp")
MHA = (
    "llama", "gpt2", "gpt_neox", "phi", "phi3", "olmo", "olmo2", "cohere", "falcon", "bloom",
    "deepseek", "deepseek_v2", "deepseek_v3", "kimi_k2", "deepseek_v32",
)  # fmt: skip
"""Architectures with as many KV heads as query heads where the file does not say."""

LOCAL = ("sliding_attention", "chunked_attention", "linear_attention")
"""What layer_types calls layers that are not full."""

ABSENT = object()


class _Fields:
    """The fields of one config.json, under the names that llama's has; a dot goes into a nested one."""

    def __init__(self, given: dict, model_type: str, family: "Family"):
        self.given, self.type, self.family = given, model_type, family

    def get(self, name: str, default=None):
        """The value of a field; `default` if it is null, and if it is absent and transformers takes nothing for it."""
        for own in (self.family.names.get(name, name), name):
            value = self.given
            for part in own.split("."):
                value = value.get(part, ABSENT) if isinstance(value, dict) else ABSENT
            if value is not ABSENT:
                return default if value is None else value
        return self.family.defaults.get(name, default)

    def __getitem__(self, name: str):
        value = self.get(name)
        if value is None:
            raise ValueError(
                f"the config.json of a {self.type} has no {self.family.names.get(name, name)}: add it, or take one that has it"
            )
        return value

    def refuse(self, field: str, why: str):
        """A sentence that names the field, its value where it is short, and what cannot be said."""
        value = repr(self.get(field))
        shown = f" {value}" if len(value) <= 40 else ""
        raise ValueError(f"{self.family.names.get(field, field)}{shown} of this {self.type} cannot be read: {why}")


def _sizes(f: _Fields) -> dict:
    wide = {"F": 4 * f["hidden_size"]} if f.family.four_wide and f.get("intermediate_size") is None else {}
    out = {symbol: f[name] for symbol, name in SIZES.items() if symbol not in wide} | wide
    if isinstance(out["F"], list):  # one for each layer
        if len(set(out["F"])) > 1:
            odd = [i for i, F in enumerate(out["F"]) if F != out["F"][0]]
            f.refuse("intermediate_size", f"layers {_few(odd)} have an MLP of another width than layer 0")
        out["F"] = out["F"][0]
    biases = [b for switch, some in f.family.switches.items() if f.get(switch, False) for b in some]
    K = f.get("num_key_value_heads", out["N"] if f.type in MHA or "num_key_value_heads" in f.given else None)
    out |= {"K": f["num_key_value_heads"] if K is None else K, "H": f.get("head_dim")}
    out |= {"tied": bool(f.get("tie_word_embeddings", False)), "biases": (*f.family.fixed.get("biases", ()), *biases)}
    for field, why in f.family.never.items():
        if f.get(field):
            f.refuse(field, why)
    return out


def _few(layers: list[int]) -> str:
    return ", ".join(map(str, layers[:4])) + (", …" if len(layers) > 4 else "")


def _pattern(f: _Fields, every: int | None) -> int | None:
    """full_every of layer_types, or `every` if there are none; 1 if all are full, None if all are local."""
    kinds, L = f.get("layer_types"), f["num_hidden_layers"]
    if kinds is None:
        return every
    if len(kinds) != L:
        f.refuse("layer_types", f"it names {len(kinds)} layers, and num_hidden_layers is {L}")
    if unknown := sorted(set(kinds) - {"full_attention", *LOCAL}):
        where = [i for i, kind in enumerate(kinds) if kind in unknown]
        f.refuse("layer_types", f"layers {_few(where)} are {unknown[0]}; known are full_attention, {', '.join(LOCAL)}")
    full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    step = full[0] + 1 if full else None
    if full and (odd := sorted(set(full) ^ set(range(step - 1, L, step)))):
        f.refuse(
            "layer_types",
            f"layer {step - 1} is the first full one, so each {step} layers one has to be, and layers {_few(odd)} break that",
        )
    return step


def _windows(field: str = "sliding_window", every: int | None = None, pattern: str = "sliding_window_pattern"):
    """A reader: local layers with a window, every n-th of which is full."""

    def read(f: _Fields) -> dict:
        window, step = f.get(field), _pattern(f, f.get(pattern, every))
        if window is None or step == 1:
            return {}
        return {"window": window, "full_every": step}

    return read


def _qwen_windows(f: _Fields) -> dict:
    """Windows only where use_sliding_window is on, and then from layer max_window_layers on."""
    if not f.get("use_sliding_window", False):
        return {}
    first, L = f.get("max_window_layers", 0), f["num_hidden_layers"]
    if 0 < first < L:
        f.refuse(
            "max_window_layers",
            f"layers 0 to {first - 1} are full and the others local, and full ones have to be every n-th",
        )
    return {} if first else {"window": f["sliding_window"]}


def _record(record: str, prefix: str = "", **names: str):
    """A reader: a record of `Config`, by the names that the file has for its fields."""
    return lambda f: {record: {field: f[prefix + name] for field, name in names.items()}}


def _experts(E: str, F: str = "moe_intermediate_size", k: str = "num_experts_per_tok"):
    """A reader: experts in every layer."""
    return _record("moe", E=E, k=k, F=F)


def _qwen_experts(f: _Fields) -> dict:
    moe = {"E": f["num_experts"], "k": f["num_experts_per_tok"], "F": f["moe_intermediate_size"]}
    dense = sorted(f.get("mlp_only_layers", []))
    if dense != list(range(len(dense))):
        f.refuse("mlp_only_layers", f"layers {_few(dense)} have no experts, and those without have to be the first")
    moe |= {"first_dense": len(dense), "every": f.get("decoder_sparse_step", 1)}
    if shared := f.get("shared_expert_intermediate_size"):
        moe |= {"shared": _whole(f, "shared_expert_intermediate_size", shared, moe["F"]), "shared_gate": True}
    return {"moe": moe}


def _whole(f: _Fields, field: str, wide, width) -> int:
    if wide % width:
        f.refuse(field, f"the shared expert of all layers has to be as wide as a whole number of experts of {width}")
    return wide // width


def _deepseek_experts(f: _Fields) -> dict:
    if f.get("n_routed_experts") is None:
        return {}
    if (step := f.get("moe_layer_freq", 1)) != 1:
        f.refuse("moe_layer_freq", f"one layer of {step} has experts, and all after the first dense ones have to")
    moe = {"E": f["n_routed_experts"], "k": f["num_experts_per_tok"], "F": f["moe_intermediate_size"]}
    return {"moe": moe | {"shared": f.get("n_shared_experts", 0), "first_dense": f.get("first_k_dense_replace", 0)}}


def _latent(f: _Fields) -> dict:
    read = _record("mla", kv_rank="kv_lora_rank", nope="qk_nope_head_dim", rope="qk_rope_head_dim", v="v_head_dim")
    return {"mla": {"q_rank": f.get("q_lora_rank"), **read(f)["mla"]}, "H": None, "K": f["num_attention_heads"]}


def _indexer(f: _Fields) -> dict:
    if shared := [i for i, kind in enumerate(f.get("indexer_types", [])) if kind != "full"]:
        f.refuse("indexer_types", f"layers {_few(shared)} have no indexer of their own, and every layer has to")
    return _record("indexer", "index_", heads="n_heads", width="head_dim", top="topk")(f)


def _delta(f: _Fields) -> dict:
    """Gated DeltaNet, but for every n-th layer, whose attention has a gate."""
    heads = dict(heads="num_value_heads", key_heads="num_key_heads", key="key_head_dim", value="value_head_dim")
    linear = _record("linear", "linear_", **heads, kernel="conv_kernel_dim")(f)
    return linear | {"full_every": _pattern(f, f.get("full_attention_interval", 4)), "output_gate": True}


def _gemma3n(f: _Fields) -> dict:
    tables = dict(V="vocab_size_per_layer_input", width="hidden_size_per_layer_input")
    read = _record("gemma3n", streams="altup_num_inputs", laurel="laurel_rank", **tables)
    return read(f) | {"shared_kv": f["num_kv_shared_layers"]}


def _llama4(f: _Fields) -> dict:
    rotary = f.get("no_rope_layers") or []
    every = f.get("no_rope_layer_interval", 4)
    if rotary and rotary != [int((i + 1) % every != 0) for i in range(len(rotary))]:
        odd = [i for i, has in enumerate(rotary) if has != ((i + 1) % every != 0)]
        f.refuse(
            "no_rope_layers",
            f"every {every}th layer has to be full, without rotary positions, and layers {_few(odd)} are not so",
        )
    moe = {"E": f["num_local_experts"], "k": f["num_experts_per_tok"], "F": f["intermediate_size"]}
    return _windows("attention_chunk_size", every)(f) | {
        "F": f["intermediate_size_mlp"],
        "moe": moe | {"shared": 1, "every": f.get("interleave_moe_layer_step", 1)},
    }


def _falcon(f: _Fields) -> dict:
    new, parallel = f.get("new_decoder_architecture", False), f.get("parallel_attn", True)
    K = f["num_attention_heads"] if not (new or f["multi_query"]) else f.get("num_kv_heads") if new else 1
    return {"K": K or f["num_attention_heads"], "parallel": new or parallel, "norms": 1 if parallel and not new else 2}


def _norms_of(kind: str):
    """A reader: norms of queries and keys, over a "head" or over the "full" width, where use_qk_norm is on."""
    return lambda f: {"qk_norm": kind if f.get("use_qk_norm", False) else ""}


def _minimax(f: _Fields) -> dict:
    """MiniMax-M2; layers of lightning attention, as in MiniMax-Text-01, have a state of another kind than Gated DeltaNet's."""
    for field, full in (("attn_type_list", 1), ("layer_types", "full_attention")):
        if lightning := [i for i, kind in enumerate(f.get(field, [])) if kind != full]:
            f.refuse(field, f"layers {_few(lightning)} have lightning attention, which is not known here")
    if f.get("qk_norm_type", "per_layer") != "per_layer":
        f.refuse("qk_norm_type", "queries and keys of all layers have to be normed over all heads at once, per_layer")
    return _norms_of("full")(f)


@formula
@dataclass(frozen=True)
class Family:
    """How the config.json of one architecture is read.

    fixed     fields of `Config` that all its models have
    names     its own names of the usual fields
    defaults  what transformers takes for an absent field
    switches  fields that switch biases on, and which
    readers   of the other fields, in order
    never     fields that have to be absent or false, and why
    four_wide  an MLP whose width is not given is 4·hidden_size wide
    """

    fixed: dict
    names: dict
    defaults: dict
    switches: dict
    readers: tuple[Callable[[_Fields], dict], ...]
    never: dict
    four_wide: bool


def _family(*readers, names=None, defaults=None, switches=None, never=None, four_wide=False, **fixed) -> Family:
    with unchecked():
        return Family(fixed, names or {}, defaults or {}, switches or {}, readers, never or {}, four_wide)


ATTENTION = {"attention_bias": ("qkv", "o")}
NO_BIAS = {"attention_bias": "latent attention of all layers has no biases here"}
TIED = {"tie_word_embeddings": True}
GEMMA = dict(defaults=TIED | {"head_dim": 256}, switches=ATTENTION)
PLAIN = dict(gated=False, norm="layer")
GPT = PLAIN | dict(four_wide=True)
N_NAMES = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}

_QWEN3 = dict(qk_norm="head", switches=ATTENTION, defaults={"head_dim": 128})
_GEMMA3 = _family(
    _windows(every=6),
    norms=4, qk_norm="head", switches=ATTENTION,
    defaults=TIED | dict(head_dim=256, num_attention_heads=8, num_key_value_heads=4, vocab_size=262208, sliding_window=4096),
)  # fmt: skip
_GEMMA3N = _family(
    _windows(every=5), _gemma3n,
    norms=4, qk_norm="head", switches=ATTENTION,
    defaults=TIED | dict(head_dim=256, sliding_window=512, laurel_rank=64, altup_num_inputs=4, vocab_size_per_layer_input=262144,
                         hidden_size_per_layer_input=256),
)  # fmt: skip
_LLAMA4 = _family(_llama4, switches=ATTENTION, defaults={"attention_chunk_size": 8192})
_LATENT = dict(never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 1, "first_k_dense_replace": 3})
_NEXT = dict(qk_norm="head", switches=ATTENTION, defaults={"head_dim": 256, "linear_conv_kernel_dim": 4})
_QWEN35 = _family(_delta, **_NEXT)
_QWEN35_MOE = _family(_qwen_experts, _delta, names={"intermediate_size": "moe_intermediate_size"}, **_NEXT)
_M2 = _family(
    _experts("num_local_experts", "intermediate_size"), _minimax,
    never={"shared_intermediate_size": "no layer has a shared expert here"}, defaults={"head_dim": 128, "use_qk_norm": True},
)  # fmt: skip

FAMILIES = {
    "llama": _family(switches=ATTENTION | {"mlp_bias": ("mlp",)}),
    "mistral": _family(_windows(), defaults={"sliding_window": 4096}),
    "ministral3": _family(_windows()),
    "mixtral": _family(_windows(), _experts("num_local_experts", "intermediate_size")),
    "qwen2": _family(_qwen_windows, biases=("qkv",)),
    "qwen3": _family(_qwen_windows, **_QWEN3),
    "qwen2_moe": _family(_qwen_windows, _qwen_experts, biases=("qkv",)),
    "qwen3_moe": _family(_qwen_windows, _qwen_experts, **_QWEN3 | {"defaults": {}}),
    "qwen3_next": _family(_qwen_experts, _delta, **_NEXT),
    "qwen3_5": _QWEN35,
    "qwen3_5_text": _QWEN35,
    "qwen3_5_moe": _QWEN35_MOE,
    "qwen3_5_moe_text": _QWEN35_MOE,
    "gemma": _family(**GEMMA),
    "gemma2": _family(_windows(every=2), norms=4, **GEMMA | {"defaults": GEMMA["defaults"] | {"sliding_window": 4096}}),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n": _GEMMA3N,
    "gemma3n_text": _GEMMA3N,
    "gpt2": _family(
        lambda f: {"positions": f["n_positions"]},
        biases=EVERY, names=N_NAMES | {"intermediate_size": "n_inner"}, defaults=TIED,
        never={"add_cross_attention": "no layer has attention to an encoder here"}, **GPT,
    ),
    "gpt_neox": _family(
        lambda f: {"parallel": f.get("use_parallel_residual", True)},
        biases=("mlp",), switches=ATTENTION, defaults={"attention_bias": True, "use_parallel_residual": True}, **PLAIN,
    ),
    "phi": _family(
        biases=(*EVERY, "unembed"), parallel=True, norms=1,
        never={"qk_layernorm": "no layer norms its queries and keys with a shift here"}, **PLAIN,
    ),
    "phi3": _family(_windows()),
    "olmo": _family(norm="none", switches=ATTENTION),
    "olmo2": _family(qk_norm="full", switches=ATTENTION),
    "cohere": _family(_norms_of("full"), norm="layer-no-bias", norms=1, parallel=True, switches=ATTENTION, defaults=TIED),
    "falcon": _family(
        _falcon, names={"intermediate_size": "ffn_hidden_size"}, switches={"bias": EVERY},
        defaults=TIED | {"multi_query": True, "parallel_attn": True}, **GPT,
    ),
    "bloom": _family(
        biases=EVERY, embed_norm=True, defaults=TIED,
        names={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head"}, **GPT,
    ),
    "starcoder2": _family(_windows(), switches={"use_bias": EVERY}, defaults=TIED | {"use_bias": True}, **PLAIN),
    "deepseek": _family(_deepseek_experts, switches=ATTENTION),
    "deepseek_v2": _family(
        _latent, _deepseek_experts,
        never=NO_BIAS, defaults={"q_lora_rank": 1536, "n_shared_experts": 2},
    ),
    "deepseek_v3": _family(_latent, _deepseek_experts, **_LATENT),
    "kimi_k2": _family(_latent, _deepseek_experts, **_LATENT),
    "deepseek_v32": _family(_latent, _deepseek_experts, _indexer, **_LATENT),
    "glm_moe_dsa": _family(_latent, _deepseek_experts, _indexer, **_LATENT),
    "glm4_moe": _family(
        _deepseek_experts, _norms_of("head"), switches={"attention_bias": ("qkv",)},
        defaults={"n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
    "minimax_m2": _M2,
    "minimax": _M2,
    "gpt_oss": _family(
        _windows(every=2), _experts("num_local_experts", "intermediate_size"),
        biases=("mlp", "router"), sinks=True, switches=ATTENTION, defaults={"attention_bias": True, "sliding_window": 128},
    ),
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "dbrx": _family(
        _experts("ffn_config.moe_num_experts", "intermediate_size", "ffn_config.moe_top_k"),
        norm="layer-no-bias",
        names={"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
               "num_key_value_heads": "attn_config.kv_n_heads", "intermediate_size": "ffn_config.ffn_hidden_size"},
    ),
}  # fmt: skip


@formula(signed="source")
def fields(source: dict | str | PathLike) -> dict:
    """Fields of a `Config`, those of its records as dicts; see `Config.from_hf`."""
    given = source if isinstance(source, dict) else _file(source)
    if isinstance(text := given.get("text_config"), dict):  # a model that sees or hears as well
        given = {name: given[name] for name in ("model_type", "tie_word_embeddings") if name in given} | text
    kind = given.get("model_type")
    if kind not in FAMILIES:
        raise ValueError(f"no way to read a model_type of {kind!r} is known: there are {', '.join(FAMILIES)}")
    f = _Fields(given, kind, FAMILIES[kind])
    out = f.family.fixed | _sizes(f)
    for read in f.family.readers:
        out |= read(f)
    return out


def _file(path: str | PathLike) -> dict:
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as e:
        raise ValueError(f"{path} is no config.json, for it is not JSON: {e}") from None
    if not isinstance(given, dict):
        raise ValueError(f"{path} is no config.json: that is an object of fields, and this is a {type(given).__name__}")
    return given
