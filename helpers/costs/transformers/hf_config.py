"""The config.json of a model on huggingface.co, as the fields of a `Config` (chapter 3).

`FAMILIES` says for each model_type what its architecture fixes, how it names its sizes, and which readers see to the rest; what
a reader cannot say in a `Config` it refuses. Values for absent fields are those of transformers' configuration classes.
Multi-token-prediction heads, vision and audio are left out: the decoder alone is read.
"""

import json
from os import PathLike
from pathlib import Path

from helpers.arguments import formula

from .hf_families import FAMILIES
from .hf_fields import ABSENT, Fields, few
from .hf_layers import by_layer

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
        if kind in known and (
            kind == "minimax_m3_vl" or given["model_type"] not in known
        ):  # whose text says minimax_m2
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
