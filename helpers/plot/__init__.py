"""Every figure of the course, in one style: readable in grey and by the colour-blind, with alt text.

Each function returns a `Picture`, which a notebook and the site show as an image with its alt text.
`picture` is that, the style, boxes and arrows, `charts` are curves, rooflines, bars and timelines; the rest
lies in a room for each chapter.
May import: helpers.costs.
Tests: tests/helpers/plot.
"""

from .attention.flash_and_memory import backward_block, blocks_on_cores, flash_tiles, kept, kernels, warps
from .attention.masks_and_blocks import blocks, linear_forms, masks, work
from .attention.softmax_state import combine_tree, cuts, online_softmax, passing_keys, ring_or_tree
from .charts import bars, curves_and_points, levels, lines, roofline, timeline
from .experts.copies import expert_loads, token_copies, two_meshes
from .inference.cache_on_chips import attention_layouts, sharded_cache
from .inference.page_table import page_table, prefill_and_decode
from .inference.serving_timelines import accepted, ragged, served, speculation, tradeoff, trees
from .inference.what_is_cached import absorption, chunks, kept_tokens, rolling, weights_and_caches
from .picture import COLOURS, DASHES, MARKERS, STYLE, Picture, canvas
from .racks.gpu_parts import gpu, wave_rows
from .racks.two_tiers import rails, shards, two_tier_steps
from .racks.wiring import wiring
from .rooflines.chip_and_products import Matrix, chip, products, rows_and_times
from .rooflines.host import host, reuse
from .rooflines.systolic_array_and_torus import systolic, torus
from .sharding.arrays_on_mesh import on_mesh
from .sharding.sharded_arrays import four_cases, frames, layout
from .training.held_and_sent import divisions, held
from .training.meshes_on_chips import cube, hosts, pods, tokens_to_experts
from .training.pipelines_and_layouts import intervals, pipelines, plane, predicted, spans, step_timelines
from .transformers.attention_parts import attention_bytes, expert_exchange, routed, softmax_chunks
from .transformers.block import decoder_stack, flow, kv_heads, transformer_block
from .transformers.kept_over_time import kept_over_time
from .transformers.products import einsum_letters, product_gradients, shares, stacked

__all__ = [
    "COLOURS", "DASHES", "MARKERS", "Matrix", "Picture", "STYLE", "absorption", "accepted",
    "attention_bytes", "attention_layouts", "backward_block", "bars", "blocks", "blocks_on_cores",
    "canvas", "chip", "chunks", "combine_tree", "cube", "curves_and_points", "cuts", "decoder_stack", "divisions",
    "einsum_letters", "expert_exchange", "expert_loads", "flash_tiles", "flow", "four_cases", "frames", "gpu", "held",
    "host", "hosts", "intervals", "kept", "kept_over_time", "kept_tokens", "kernels", "kv_heads", "layout", "levels", "linear_forms",
    "lines", "masks", "on_mesh", "online_softmax", "page_table", "passing_keys", "pipelines", "plane", "pods",
    "predicted", "prefill_and_decode", "product_gradients", "products", "ragged", "rails", "reuse",
    "ring_or_tree", "rolling", "roofline", "routed", "rows_and_times", "served", "sharded_cache", "shards",
    "shares", "softmax_chunks", "spans", "speculation", "stacked", "step_timelines",
    "systolic", "timeline", "token_copies", "tokens_to_experts", "torus", "tradeoff", "transformer_block", "trees", "two_meshes",
    "two_tier_steps", "warps", "wave_rows",
    "weights_and_caches", "wiring", "work",
]  # fmt: skip
