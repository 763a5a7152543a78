"""Readers: what several fields of a config.json together say in a `Config` (chapter 3).

Each takes the fields and gives some of a `Config`'s, and refuses with a sentence what that cannot say.
"""

from .hf_fields import Fields, few
from .hf_layers import BALANCE, shared_indexers

LOCAL = ("sliding_attention", "chunked_attention", "linear_attention")
"""What layer_types calls layers that are not full."""


def pattern(f: Fields, every: int | None) -> dict:
    """full_every of layer_types, or `every` if there are none: 1 if all are full, None if all are local; else which are local."""
    kinds, L = f.layers("layer_types"), f["num_hidden_layers"]
    if kinds is None:
        return {"full_every": every}
    if unknown := sorted(set(kinds) - {"full_attention", *LOCAL}):
        where = [i for i, kind in enumerate(kinds) if kind in unknown]
        f.refuse("layer_types", f"layers {few(where)} are {unknown[0]}; known are full_attention, {', '.join(LOCAL)}")
    full = [i for i, kind in enumerate(kinds) if kind == "full_attention"]
    step = full[0] + 1 if full else None
    if full and full != list(range(step - 1, L, step)):
        return {"local": [kind != "full_attention" for kind in kinds]}
    return {"full_every": step}


def windows(field: str = "sliding_window", every: int | None = None):
    """A reader: local layers with a window, every n-th of which is full, or those of a list."""

    def read(f: Fields) -> dict:
        window, rule = f.get(field), pattern(f, f.get("sliding_window_pattern", every))
        return {} if window is None or rule == {"full_every": 1} else {"window": window, **rule}

    return read


def qwen_windows(f: Fields) -> dict:
    """Windows only where use_sliding_window is on, and then from layer max_window_layers on."""
    if not f.flag("use_sliding_window"):
        return {}
    first, L = f.get("max_window_layers", 0), f["num_hidden_layers"]
    if 0 < first < L:
        return {"window": f["sliding_window"], "local": [i >= first for i in range(L)]}
    return {} if first else {"window": f["sliding_window"]}


def record(record: str, prefix: str = "", **names: str):
    """A reader: a record of `Config`, by the names that the file has for its fields."""
    return lambda f: {record: {field: f[prefix + name] for field, name in names.items()}}


def experts(E: str, F: str = "moe_intermediate_size", k: str = "num_experts_per_tok"):
    """A reader: experts in every layer."""
    return record("moe", E=E, k=k, F=F)


def qwen_experts(f: Fields) -> dict:
    moe = {"E": f["num_experts"], "k": f["num_experts_per_tok"], "F": f["moe_intermediate_size"]}
    dense = sorted(f.typed("mlp_only_layers", i, int) for i in f.get("mlp_only_layers", [], list))
    step, L, lists = f.get("decoder_sparse_step", 1), f["num_hidden_layers"], {}
    if dense == list(range(len(dense))):
        moe |= {"first_dense": len(dense), "every": step}
    else:
        lists = {"sparse": [i not in dense and (i + 1) % step == 0 for i in range(L)]}
    if shared := f.get("shared_expert_intermediate_size"):
        moe |= {"shared": whole(f, "shared_expert_intermediate_size", shared, moe["F"]), "shared_gate": True}
    return {"moe": moe, **lists}


def whole(f: Fields, field: str, wide, width) -> int:
    if wide % width:
        f.refuse(field, f"the shared expert of all layers has to be as wide as a whole number of experts of {width}")
    return wide // width


def deepseek_experts(f: Fields) -> dict:
    if f.get("n_routed_experts") is None:
        return {}
    moe = {"E": f["n_routed_experts"], "k": f["num_experts_per_tok"], "F": f["moe_intermediate_size"]}
    moe |= {"shared": f.get("n_shared_experts", 0), "first_dense": f.get("first_k_dense_replace", 0)}
    step, L, words = f.get("moe_layer_freq", 1), f["num_hidden_layers"], f.layers("mlp_layer_types")
    sparse = (
        [i >= moe["first_dense"] and i % step == 0 for i in range(L)]
        if words is None
        else [w != "dense" for w in words]
    )
    if sparse == [i >= moe["first_dense"] for i in range(L)]:
        return {"moe": moe}
    return {"moe": moe, "sparse": sparse}


def latent(f: Fields) -> dict:
    read = record("mla", kv_rank="kv_lora_rank", nope="qk_nope_head_dim", rope="qk_rope_head_dim", v="v_head_dim")
    return {"mla": {"q_rank": f.get("q_lora_rank"), **read(f)["mla"]}, "H": None, "K": f["num_attention_heads"]}


def indexer(f: Fields) -> dict:
    if any(kind != "full" for kind in f.layers("indexer_types") or []):
        return shared_indexers(f)
    return record("indexer", "index_", heads="n_heads", width="head_dim", top="topk")(f)


def delta(f: Fields) -> dict:
    """Gated DeltaNet, but for every n-th layer, whose attention has a gate."""
    heads = dict(heads="num_value_heads", key_heads="num_key_heads", key="key_head_dim", value="value_head_dim")
    linear = record("linear", "linear_", **heads, kernel="conv_kernel_dim")(f)
    return linear | pattern(f, f.get("full_attention_interval", 4)) | {"output_gate": True}


def gemma3n(f: Fields) -> dict:
    tables = dict(V="vocab_size_per_layer_input", width="hidden_size_per_layer_input")
    read = record("gemma3n", streams="altup_num_inputs", laurel="laurel_rank", **tables)
    return read(f) | {"shared_kv": f["num_kv_shared_layers"]}


def llama4(f: Fields) -> dict:
    rotary = f.get("no_rope_layers", [], list)
    every = f.get("no_rope_layer_interval", 4)
    if rotary and rotary != [int((i + 1) % every != 0) for i in range(len(rotary))]:
        odd = [i for i, has in enumerate(rotary) if has != ((i + 1) % every != 0)]
        f.refuse(
            "no_rope_layers",
            f"every {every}th layer has to be full, without rotary positions, and layers {few(odd)} are not so",
        )
    moe = {"E": f["num_local_experts"], "k": f["num_experts_per_tok"], "F": f["intermediate_size"]}
    return windows("attention_chunk_size", every)(f) | {
        "F": f["intermediate_size_mlp"],
        "moe": moe | {"shared": 1, "every": f.get("interleave_moe_layer_step", 1)},
    }


def falcon(f: Fields) -> dict:
    new, parallel = f.flag("new_decoder_architecture"), f.flag("parallel_attn", True)
    K = f["num_attention_heads"] if not (new or f.flag("multi_query")) else f.get("num_kv_heads") if new else 1
    return {"K": K or f["num_attention_heads"], "parallel": new or parallel, "norms": 1 if parallel and not new else 2}


def norms_of(kind: str):
    """A reader: norms of queries and keys, over a "head" or over the "full" width, where use_qk_norm is on."""
    return lambda f: {"qk_norm": kind if f.flag("use_qk_norm") else ""}


def ernie_experts(f: Fields) -> dict:
    """ERNIE 4.5: experts from one layer to another, every n-th of these."""
    names = ("moe_num_experts", "moe_k", "moe_intermediate_size", "moe_num_shared_experts", "moe_layer_start_index")
    moe = dict(zip(("E", "k", "F", "shared", "first_dense"), (f[name] for name in names)))
    end, L = f.get("moe_layer_end_index", -1), f["num_hidden_layers"]
    if end not in (-1, L - 1):
        f.refuse("moe_layer_end_index", f"experts have to go on to the last layer, {L - 1}")
    moe["every"] = f.get("moe_layer_interval", 1)
    layers = sum(i >= moe["first_dense"] and (i + 1) % moe["every"] == 0 for i in range(L))
    return {"moe": moe, "beside": (0, layers * moe["E"]), "said": (BALANCE,)}


def minimax(f: Fields) -> dict:
    """MiniMax-M2; layers of lightning attention, as in MiniMax-Text-01, have a state of another kind than Gated DeltaNet's."""
    for field, full in (("attn_type_list", 1), ("layer_types", "full_attention")):
        if lightning := [i for i, kind in enumerate(f.get(field, [], list)) if kind != full]:
            f.refuse(field, f"layers {few(lightning)} have lightning attention, which is not known here")
    if f.get("qk_norm_type", "per_layer", str) != "per_layer":
        f.refuse("qk_norm_type", "queries and keys of all layers have to be normed over all heads at once, per_layer")
    return norms_of("full")(f)
