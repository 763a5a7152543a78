"""Files of models whose layers differ by a list, and all shapes of such a checkpoint, as the modelling code makes them layer by layer."""

import json
from math import prod
from pathlib import Path

FILE = json.loads((Path(__file__).parent / "invented_configs.json").read_text(encoding="utf-8"))["models"]
INVENTED = {row["name"]: row["config"].get("text_config", row["config"]) for row in FILE}

USUAL = dict(hidden_size=64, vocab_size=100, num_attention_heads=8, head_dim=16, tie_word_embeddings=False)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=24)
SPARSE = dict(sparse_index_dim=12, sparse_num_index_heads=2, sparse_topk_blocks=3, sparse_block_size=8)
NO_OP, HEADS = {"no_op": True}, {"n_heads_in_group": 4, "no_op": False}

# Those of no invented file.
ALONE = {
    "step": USUAL
    | EXPERTS
    | dict(model_type="step3p5", num_hidden_layers=5, intermediate_size=96, num_attention_groups=2, sliding_window=10)
    | dict(moe_num_experts=6, moe_top_k=2, share_expert_dim=20, moe_layers_enum="2,3,4", use_moe_router_bias=True)
    | dict(attention_other_setting=dict(num_attention_heads=12, num_attention_groups=4, head_dim=16))
    | dict(layer_types=["full_attention", *["sliding_attention"] * 3, "full_attention", "full_attention"])
    | dict(use_head_wise_attn_gate=True),
    "blocks": USUAL
    | EXPERTS
    | dict(model_type="minimax_m3", num_hidden_layers=4, intermediate_size=24, dense_intermediate_size=96)
    | dict(num_key_value_heads=2, num_local_experts=6, shared_intermediate_size=20, moe_layer_freq=[0, 1, 1, 1])
    | dict(sparse_attention_config=SPARSE | dict(sparse_attention_freq=[0, 1, 0, 1])),
    "compressed": USUAL
    | EXPERTS
    | dict(
        model_type="deepseek_v4", num_hidden_layers=5, num_key_value_heads=1, q_lora_rank=20, o_groups=2, o_lora_rank=12
    )
    | dict(n_routed_experts=6, n_shared_experts=1, index_n_heads=3, index_head_dim=8, index_topk=4, sliding_window=10)
    | dict(compress_ratios=[0, 4, 128, 4, 128, 0], num_hash_layers=2, hc_mult=3),
    "flash": USUAL
    | EXPERTS
    | dict(model_type="glm4_moe_lite", num_hidden_layers=3, intermediate_size=96, num_key_value_heads=8)
    | dict(q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14)
    | dict(n_routed_experts=6, n_shared_experts=1, mlp_layer_types=["dense", "sparse", "sparse"]),
    "searched": USUAL
    | dict(model_type="nemotron-nas", num_hidden_layers=3, intermediate_size=None, num_key_value_heads=None)
    | dict(
        block_configs=[
            dict(attention=HEADS, ffn={"ffn_mult": 5.25, "no_op": False}),
            dict(attention=NO_OP, ffn={"ffn_mult": 0.5}),
            dict(attention={"n_heads_in_group": 8}, ffn=NO_OP),
        ]
    ),
}


def mlp(D, F):
    return [(D, F), (D, F), (F, D)]


def mixture(D, E, F, shared, balance=True):
    """Experts, a shared one, the router, and the numbers that balance them."""
    return [(D, E), *([(E,)] if balance else []), *(s for _ in range(E) for s in mlp(D, F)), *mlp(D, shared)]


def attention(D, N, K, H, *more):
    """With norms of queries and keys."""
    return [(D, N * H), (D, K * H), (D, K * H), (N * H, D), (H,), (H,), *more]


def step(f, i):
    near, D = f["layer_types"][i] == "sliding_attention", 64
    shapes = attention(D, 12, 4, 16, (D, 12)) if near else attention(D, 8, 2, 16, (D, 8))
    return shapes + [(D,), (D,)] + (mixture(D, 6, 24, 20) if i in (2, 3, 4) else mlp(D, 96))


def blocks(f, i):
    D, sparse = 64, f["sparse_attention_config"]["sparse_attention_freq"][i]
    index = [(D, 2 * 12), (D, 12), (12,), (12,)] if sparse else []
    return attention(D, 8, 2, 16, *index) + [(D,), (D,)] + (mixture(D, 6, 24, 20) if i else mlp(D, 96))


def compressed(f, i):
    D, H, n, ratio = 64, 16, 3, f["compress_ratios"][i]
    shapes = [(D, 20), (20,), (20, 8 * H), (D, H), (H,), (2, 8 * H // 2, 12), (2 * 12, D), (8,)]
    if ratio:
        made = 2 * H if ratio == 4 else H  # windows of four overlap
        shapes += [(D, made), (D, made), (ratio, made), (H,)]
    if ratio == 4:
        shapes += [(D, 16), (D, 16), (4, 16), (8,), (20, 3 * 8), (D, 3)]
    streams = [(15, n * D), (15,), (3,)] * 2  # (2 + n) n numbers mix n streams
    return shapes + streams + [(D,), (D,)] + mixture(D, 6, 24, 24, balance=i >= 2)


def flash(f, i):
    D = 64
    latent = [(D, 20), (20,), (20, 8 * 16), (D, 12 + 6), (12,), (12, 8 * (10 + 14)), (8 * 14, D)]
    return latent + [(D,), (D,)] + (mixture(D, 6, 24, 24) if i else mlp(D, 96))


def searched(f, i):
    D = 64
    mixes = {0: 2, 2: 1}.get(i)
    heads = [(D, 128), (D, mixes * 16), (D, mixes * 16), (128, D), (D,)] if mixes else []
    return heads + {0: [*mlp(D, 256), (D,)], 1: [*mlp(D, 256), (D,)], 2: []}[i]


END = {"compressed": [(3, 3 * 64), (3,), (1,)]}


def counted(name):
    """Parameters of a file of `ALONE`."""
    by_name = {"step": step, "blocks": blocks, "compressed": compressed, "flash": flash, "searched": searched}
    f, layer = ALONE[name], by_name[name]
    shapes = [s for i in range(f["num_hidden_layers"]) for s in layer(f, i)]
    return sum(map(prod, [(100, 64), (100, 64), (64,), *END.get(name, []), *shapes]))
