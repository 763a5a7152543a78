"""Readers of models whose layers differ by a list: a mixer and a feed-forward for each (chapter 3).

Each says what its architecture's modelling code builds, in transformers or beside the checkpoint, and counts what a checkpoint
holds: numbers that balance the load of experts too, which a rule sets and no gradient trains.
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from .hf_fields import Fields, few, latent, mixture
from .mixers import Compressed, Gemma3n, Heads, Indexer, Latent, LayerKind, NoMixer
from .states import ChannelDecay, Mamba2

BALANCE = "numbers that balance the load of experts are counted, as the checkpoint holds them"
STREAMS = "several residual streams as the weights that mix them"


def by_layer(fields: dict) -> dict:
    """Fields of a `Config` whose layers are `local`, or have experts (`sparse`), by a list that no rule gives: with that list."""
    local, sparse = fields.pop("local", None), fields.pop("sparse", None)
    if local is None and sparse is None:
        return fields
    window, every, linear = (fields.pop(name, None) for name in ("window", "full_every", "linear"))
    moe, L = fields.get("moe") or {}, fields["L"]
    first, step = moe.pop("first_dense", 0), moe.pop("every", 1)
    if local is None:
        local = [bool(window or linear) and not (every and (i + 1) % every == 0) for i in range(L)]
    if sparse is None:
        sparse = [bool(moe) and i >= first and (i + 1) % step == 0 for i in range(L)]
    gate = "full" if fields.pop("output_gate", False) else ""
    H = fields["H"] or fields["D"] // fields["N"]
    heads = Heads(fields["N"], fields["K"], H, None, fields.get("qk_norm", ""), gate, sinks=fields.get("sinks", False))
    layers = zip(local, sparse)
    kinds = (LayerKind(window if near else None, has, mixer=near and linear or heads) for near, has in layers)
    return fields | {"layers": tuple(kinds)}


def listed(read: Callable[[Fields], dict]) -> Callable[[Fields], dict]:
    """A reader of layers, which says what each mixer is priced as."""

    def said(hf: Fields) -> dict:
        out = read(hf)
        mixers = dict.fromkeys(kind.mixer for kind in out["layers"])
        sentences = [m.said for m in mixers] + list(out.pop("said", ()))
        return out | {"said": tuple(dict.fromkeys(filter(None, sentences)))}

    return said


def balanced(hf: Fields) -> dict:
    """Numbers that balance the load, of each layer that has experts."""
    return {"beside": _experts(hf, sum(_sparse(hf, hf.get("first_k_dense_replace", 0))))["beside"], "said": (BALANCE,)}


def _sparse(hf: Fields, dense: int = 0) -> list[bool]:
    """Which layers have experts: by a list of words or of numbers, else all after the first `dense`."""
    if words := hf.layers("mlp_layer_types"):
        return [word != "dense" for word in words]
    if isinstance(hf.raw("moe_layer_freq"), list):
        return [has != 0 for has in hf.layers("moe_layer_freq", int)]
    return [i >= dense for i in range(hf["num_hidden_layers"])]


def _experts(hf: Fields, layers: int, *names: str, balanced: bool = True, **fields_of_moe) -> dict:
    """Experts in so many layers, by the file's `names` of E, k and F, with the numbers that balance them."""
    moe = mixture(hf, *names, **{"shared": hf.get("n_shared_experts", 0)} | fields_of_moe)
    balance = {"beside": (0, layers * moe["E"]), "said": (BALANCE,)} if balanced else {"beside": (0, 0)}
    return {"moe": moe, **balance}


@listed
def shared_indexers(hf: Fields) -> dict:
    """GLM-5.2: every layer has an indexer's weights, and those that are "full" choose keys, for the layers after them too."""
    mla = latent(hf)
    sizes = [hf["index_" + name] for name in ("n_heads", "head_dim", "topk")]
    sparse = _sparse(hf, hf.get("first_k_dense_replace", 0))
    full = [word == "full" for word in hf.layers("indexer_types")]
    N = hf["num_attention_heads"]
    layers = [LayerKind(moe=has, mixer=Latent(N, mla, Indexer(*sizes, chooses=own))) for own, has in zip(full, sparse)]
    said = "layers that share an indexer keep its weights, and none of its keys"
    return _experts(hf, sum(sparse)) | {"layers": tuple(layers), "mla": mla, "said": (BALANCE, said)}


@listed
def kimi_linear(hf: Fields) -> dict:
    """Kimi Linear and K3: latent attention in some layers, Kimi Delta Attention in the others, counted from 1."""
    D, L, N = hf["hidden_size"], hf["num_hidden_layers"], hf["num_attention_heads"]
    mla = latent(hf)
    attention = Latent(N, mla, None, hf.flag("mla_use_output_gate"))
    at = "linear_attn_config."
    sizes = hf[at + "num_heads"], hf[at + "head_dim"], hf.get(at + "short_conv_kernel_size", 4)
    delta = ChannelDecay(*sizes, hf.flag(at + "use_full_rank_gate"))
    names = at + "full_attn_layers", at + "kda_layers"
    full, linear = ({hf.typed(name, i, int) for i in hf.get(name, [], list)} for name in names)
    if full | linear != set(range(1, L + 1)) or full & linear:
        hf.refuse(at + "full_attn_layers", f"with kda_layers it has to name each of the layers 1 to {L} once")
    E, dense, step = hf.get("num_experts"), hf.get("first_k_dense_replace", 0), hf.get("moe_layer_freq", 1)
    sparse = [E is not None and i >= dense and i % step == 0 for i in range(L)]
    kinds = [LayerKind(moe=has, mixer=attention if i + 1 in full else delta) for i, has in enumerate(sparse)]
    out: dict = {"beside": (0, 0), "said": ()}
    if E:
        narrow, shared = hf.get("routed_expert_hidden_size"), hf.get("num_shared_experts", 0)
        out = _experts(hf, sum(sparse), "num_experts", "num_experts_per_token", shared=shared, latent=narrow)
        normed = sum(sparse) * (narrow or 0) * hf.flag("latent_moe_use_norm")
        out["beside"] = (0, out["beside"][1] + normed)
    if hf.get("attn_res_block_size"):
        # mixers, feed-forwards and the end: a norm, and a vector that scores earlier blocks
        out |= {"beside": (4 * D, out["beside"][1] + 2 * D), "said": (*out["said"], STREAMS)}
    return out | {"layers": tuple(kinds), "mla": mla, "K": N, "H": None}


def _near_and_far(
    hf: Fields, is_local: list[bool], has_experts: list[bool], local_heads: Heads, full_heads: Heads
) -> dict:
    """Local layers with a mixer of their own, and which of all layers have experts."""
    window = hf["sliding_window"]
    of = {True: (window, local_heads), False: (None, full_heads)}
    return {"layers": tuple(LayerKind(of[x][0], has, mixer=of[x][1]) for x, has in zip(is_local, has_experts))}


@listed
def two_heads(hf: Fields) -> dict:
    """MiMo-V2: local layers with KV heads of their own, values narrower than keys."""
    N, K, H, v = (hf[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim"))
    own = lambda name, usual: hf.get("swa_" + name, usual)  # noqa: E731
    kinds = hf.layers("hybrid_layer_pattern", int) or hf.layers("layer_types")
    if kinds is None:
        kinds = [0 if i == 0 or (i + 1) % 6 == 0 else 1 for i in range(hf["num_hidden_layers"])]
    sizes = own("num_attention_heads", N), own("num_key_value_heads", 2 * K), own("head_dim", H), own("v_head_dim", v)
    near = Heads(*sizes, sinks=hf.flag("add_swa_attention_sink_bias", True))
    far = Heads(N, K, H, v, sinks=hf.flag("add_full_attention_sink_bias"))
    local, sparse = [kind not in (0, "full_attention") for kind in kinds], _sparse(hf, 1)
    return _experts(hf, sum(sparse)) | _near_and_far(hf, local, sparse, near, far)


@listed
def step(hf: Fields) -> dict:
    """Step 3.5: local layers with more query heads, a gate for each head, a shared expert."""
    L, N, H = hf["num_hidden_layers"], hf["num_attention_heads"], hf["head_dim"]
    words, other = hf.get("layer_types", ["full_attention"] * L, list), "attention_other_setting."
    if len(words) < L:
        hf.refuse("layer_types", f"it names {len(words)} layers, and num_hidden_layers is {L}")
    gate = "head" if hf.flag("use_head_wise_attn_gate") else ""
    K = hf["num_key_value_heads"]
    far = Heads(N, K, H, None, "head", gate)
    wider = dict(N=("num_attention_heads", N), K=("num_attention_groups", K), H=("head_dim", H))
    near = replace(far, **{symbol: hf.get(other + name, usual) for symbol, (name, usual) in wider.items()})
    named = hf.get("moe_layers_enum", None, (str, list))
    named = named.split(",") if isinstance(named, str) else named
    try:
        experts = set(range(3, L)) if named is None else {int(i) for i in named if str(i).strip()}
    except (TypeError, ValueError):
        hf.refuse("moe_layers_enum", "it has to be numbers of layers")
    local, sparse = [word == "sliding_attention" for word in words], [i in experts for i in range(L)]
    more = dict(balanced=hf.flag("use_moe_router_bias"), shared=1, shared_F=hf["share_expert_dim"])
    out = _experts(hf, sum(sparse), "moe_num_experts", "moe_top_k", **more)
    return out | _near_and_far(hf, local, sparse, near, far)


@listed
def gemma4(hf: Fields) -> dict:
    """Gemma 4: full layers with wider heads whose keys may be values; a scale for each layer; experts beside the dense MLP."""
    N, K, H, F = (hf[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size"))
    L = hf["num_hidden_layers"]
    words = hf.layers("layer_types") or [
        "full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(L)
    ]
    same, shared = hf.flag("attention_k_eq_v"), hf.get("num_kv_shared_layers", 0)
    E, mixed = hf.get("num_experts", 0), hf.flag("enable_moe_block")
    wide = F * (2 if hf.flag("use_double_wide_mlp") else 1)
    kinds = []
    for i, word in enumerate(words):
        near, shares = word == "sliding_attention" and i < L - 1, 0 < L - shared <= i
        whole = hf.get("num_global_key_value_heads", K) if same else K, hf.get("global_head_dim", 512)
        sizes = (K, H) if near else whole
        mixer = Heads(N, *sizes, None, "head", "", shares, same and not near)
        kinds.append(LayerKind(hf["sliding_window"] if near else None, mixed, mixer=mixer, F=wide if shares else F))
    out = {"layers": tuple(kinds), "norms": 8 if mixed else 4, "beside": (0, L)}
    if mixed:  # three norms and the router's scale besides; the dense MLP is there as well, like a shared expert
        out |= _experts(hf, L, "num_experts", "top_k_experts", balanced=False, shared=1, shared_F=F)
        out |= {"beside": (0, L + L * E), "said": ("the dense MLP beside experts as a shared expert",)}
    if width := hf.get("hidden_size_per_layer_input", 256):
        out["gemma3n"] = Gemma3n(streams=1, laurel=0, V=hf["vocab_size_per_layer_input"], width=width)
    return out


@listed
def nemotron_h(hf: Fields) -> dict:
    """Nemotron H and 3: layers that are a mixer or a feed-forward alone, by letters or words."""
    letters = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
    words = {"linear_attention": "mamba", "full_attention": "attention"}
    named = hf.get("hybrid_override_pattern", None, str)
    field = "layers_block_type" if named is None else "hybrid_override_pattern"
    names = [letters.get(c) for c in named] if named is not None else hf.get(field, [], list)
    names = [words.get(name, name) if isinstance(name, str) else None for name in names]
    if not names or (odd := [i for i, name in enumerate(names) if name not in letters.values()]):
        where = few(odd) if names else "all of them"
        hf.refuse(field, f"layers {where} are none of {', '.join(letters.values())}")
    sizes = [hf[n] for n in ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")]
    mamba = Mamba2(*sizes, hf.flag("use_conv_bias", True), hf.flag("use_bias"))
    heads = Heads(hf["num_attention_heads"], hf["num_key_value_heads"], hf.get("attention_head_dim") or hf["head_dim"])
    kinds = {
        "mamba": LayerKind(mixer=mamba, F=0),
        "attention": LayerKind(mixer=heads, F=0),
        "moe": LayerKind(moe=True, mixer=NoMixer(), F=0),
        "mlp": LayerKind(mixer=NoMixer()),
    }
    out = {"layers": tuple(kinds[name] for name in names), "L": len(names)}
    if mixed := names.count("moe"):
        latent, shared = hf.get("moe_latent_size"), hf["moe_shared_expert_intermediate_size"]
        out |= _experts(hf, mixed, shared=1, shared_F=shared, latent=latent)
    return out


@listed
def block_sparse(hf: Fields) -> dict:
    """MiniMax-M3: some layers look at blocks of keys that an indexer chose, and have experts."""
    at = "sparse_attention_config."
    N, K, H = (hf[n] for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    norm = "head" if hf.flag("use_qk_norm", True) else ""
    top = hf[at + "sparse_topk_blocks"] * hf[at + "sparse_block_size"]
    index = Indexer(hf[at + "sparse_num_index_heads"], hf[at + "sparse_index_dim"], top)
    gate = "full" if hf.flag("attention_output_gate") else ""
    far = Heads(N, K, H, None, norm, gate)
    near = replace(far, indexer=index)
    chosen = [has != 0 for has in hf.layers(at + "sparse_attention_freq", int) or [1] * hf["num_hidden_layers"]]
    sparse = _sparse(hf)
    layers = [LayerKind(moe=has, mixer=near if picks else far) for picks, has in zip(chosen, sparse)]
    names, F = ("num_local_experts", "num_experts_per_tok", "intermediate_size"), hf["intermediate_size"]
    more = dict(shared=hf.get("n_shared_experts", 1), shared_F=hf.get("shared_intermediate_size", F))
    out = _experts(hf, sum(sparse), *names, balanced=hf.flag("use_routing_bias", True), **more)
    return out | {"layers": tuple(layers), "F": hf["dense_intermediate_size"]}


@listed
def compressed(hf: Fields) -> dict:
    """DeepSeek-V4: a window everywhere, and compressed keys, chosen or all, in most layers; residual streams."""
    D, L, n = (hf[name] for name in ("hidden_size", "num_hidden_layers", "hc_mult"))
    rates = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    ratios = hf.get("compress_ratios", None, list)
    if ratios is None:
        words = hf.layers("layer_types") or hf.refuse(
            "layer_types", "give it, or compress_ratios: what each layer keeps"
        )
        if odd := [word for word in words if word not in rates]:
            hf.refuse("layer_types", f"known are {', '.join(rates)}, and not {odd[0]}")
        ratios = [hf.get(f"compress_rates.{word}", rates[word]) for word in words]
    if len(ratios) < L or any(hf.typed("compress_ratios", r, int) < 0 for r in ratios):
        hf.refuse("compress_ratios", f"it has to name the tokens of a key, 0 for none, in each of the {L} layers")
    sizes = [hf[name] for name in ("num_attention_heads", "head_dim", "q_lora_rank", "o_groups", "o_lora_rank")]
    index = Indexer(hf["index_n_heads"], hf["index_head_dim"], hf["index_topk"])
    kept = lambda r: Compressed(*sizes, r if r > 1 else None, index if 1 < r < 128 else None)  # noqa: E731
    layers = [LayerKind(hf["sliding_window"], True, mixer=kept(r)) for r in ratios[:L]]
    words = hf.layers("mlp_layer_types")
    hashed = words.count("hash_moe") if words else min(L, hf.get("num_hash_layers", 3))
    mix = (2 + n) * n  # hyper-connections: how streams are read, written and mixed, twice a layer; at the end read once
    streams, end = 2 * (mix * n * D + mix + 3), n * n * D + n + 1
    out = _experts(hf, L - hashed, shared=hf.get("n_shared_experts", 1))
    said = (BALANCE, STREAMS, "experts of the first layers by routing, though a table of tokens says which")
    return out | {"layers": tuple(layers), "K": 1, "beside": (streams, end + out["beside"][1]), "said": said}


@listed
def searched(hf: Fields) -> dict:
    """Nemotron models that a search has thinned out: each layer has as many KV heads and as wide an MLP as it needs, or none."""
    D, N = hf["hidden_size"], hf["num_attention_heads"]
    H = hf.get("head_dim", D // N)
    kinds, most = [], {"K": 1, "F": 1}
    blocks = hf.get("block_configs", [], list)
    for i, block in enumerate(blocks):
        refuse = lambda reason, i=i: hf.refuse("block_configs", f"layer {i} has {reason}")  # noqa: E731
        mixes, feeds = (block.get(n) if isinstance(block, dict) else None for n in ("attention", "ffn"))
        if not isinstance(mixes, dict) or not isinstance(feeds, dict):
            refuse("no attention and ffn")
        if mixes.get("replace_with_linear") or feeds.get("replace_with_linear"):
            refuse("a plain matrix in place of attention or MLP")
        group, times, wide = mixes.get("n_heads_in_group"), feeds.get("ffn_mult"), feeds.get("intermediate_size")
        if wide is None and type(times) in (int, float):
            wide = 256 * ceil(int(2 * times * D / 3) / 256)
        if not mixes.get("no_op") and (type(group) is not int or group < 1 or N % group):
            refuse(f"an n_heads_in_group of {group!r}, which does not divide the heads")
        if not feeds.get("no_op") and type(wide) is not int:
            refuse(f"an ffn_mult of {times!r}")
        mixer = NoMixer() if mixes.get("no_op") else Heads(N, N // group, H)
        F = 0 if feeds.get("no_op") else wide
        kinds.append(LayerKind(mixes.get("window_length"), mixer=mixer, F=F))
        most = {"K": max(most["K"], getattr(mixer, "K", 1)), "F": max(most["F"], F)}
    return {"layers": tuple(kinds), "H": H, **most}
