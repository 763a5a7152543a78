"""Every figure of the course, in one style: readable in grey and by the colour-blind, with alt text.

Each function returns a `Picture`, which a notebook and the site show as an image with its alt text.
`picture` is that and the style, `marks` are boxes and arrows, `charts` are curves, rooflines, bars and timelines; the rest
lies in a room for each chapter.
May import: helpers.costs.
Tests: tests/helpers/plot.
"""

from .attention.backward_block import backward_block
from .attention.blocks_on_cores import blocks_on_cores
from .attention.flash_and_memory import flash_tiles, kept, kernels, warps
from .attention.linear_forms import linear_forms
from .attention.many_chips import cuts, ring_or_tree
from .attention.masks_and_blocks import blocks, masks, work
from .attention.shared_heads import shared_heads
from .attention.softmax_state import combine_tree, online_softmax, passing_keys
from .charts import bars, curves_and_points, levels, lines, roofline, timeline
from .experts.copies import token_copies
from .experts.loads import expert_loads
from .experts.two_meshes import two_meshes
from .inference.absorption import absorption
from .inference.batches_in_time import arrivals, batching, ragged
from .inference.cache_on_chips import attention_layouts, pools, sharded_cache
from .inference.drafts import accepted, speculation
from .inference.page_table import page_table
from .inference.prefill_and_decode import prefill_and_decode
from .inference.serving_timelines import pages, served, tradeoff, trees
from .inference.what_is_cached import cached_heads, chunks, kept_tokens, rolling, weights_and_caches
from .picture import COLOURS, DASHES, MARKERS, STYLE, Picture, canvas
from .racks.gpu_parts import gpu, wave_rows
from .racks.two_tiers import rails, shards, two_tier_steps
from .racks.wiring import wiring
from .rooflines.chip_and_products import Matrix, chip, products
from .rooflines.host import host
from .rooflines.reuse import reuse
from .rooflines.rows_and_times import rows_and_times
from .rooflines.systolic_array_and_torus import systolic, torus
from .sharding.arrays_on_mesh import on_mesh
from .sharding.four_cases import four_cases
from .sharding.sharded_arrays import frames, layout
from .training.held_and_sent import held
from .training.meshes_on_chips import cube, hosts, pods, tokens_to_experts
from .training.pipelines_and_layouts import intervals, pipelines, plane, predicted
from .training.step_timelines import spans, step_timelines
from .training.what_is_divided import divisions
from .transformers.attention_parts import attention_bytes, softmax_chunks
from .transformers.bars_by_role import shares, stacked
from .transformers.block import decoder_stack, transformer_block
from .transformers.experts import expert_exchange, routed
from .transformers.flow import flow
from .transformers.heads import kv_heads
from .transformers.kept_over_time import kept_over_time
from .transformers.products import einsum_letters, product_gradients

__all__ = [
    "COLOURS", "DASHES", "MARKERS", "Matrix", "Picture", "STYLE", "absorption", "accepted", "arrivals",
    "attention_bytes", "attention_layouts", "backward_block", "bars", "batching", "blocks", "blocks_on_cores",
    "cached_heads", "canvas",
    "chip", "chunks", "combine_tree", "cube", "curves_and_points", "cuts", "decoder_stack", "divisions",
    "einsum_letters", "expert_exchange", "expert_loads", "flash_tiles", "flow", "four_cases", "frames", "gpu", "held",
    "host", "hosts", "intervals", "kept", "kept_over_time", "kept_tokens", "kernels", "kv_heads", "layout", "levels", "linear_forms",
    "lines", "masks", "on_mesh", "online_softmax", "page_table", "pages", "passing_keys", "pipelines", "plane", "pods",
    "pools", "predicted", "prefill_and_decode", "product_gradients", "products", "ragged", "rails", "reuse",
    "ring_or_tree", "rolling", "roofline", "routed", "rows_and_times", "served", "sharded_cache", "shards",
    "shared_heads", "shares", "softmax_chunks", "spans", "speculation", "stacked", "step_timelines",
    "systolic", "timeline", "token_copies", "tokens_to_experts", "torus", "tradeoff", "transformer_block", "trees", "two_meshes",
    "two_tier_steps", "warps", "wave_rows",
    "weights_and_caches", "wiring", "work",
]  # fmt: skip
