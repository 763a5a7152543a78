"""Every figure of the course, in one style: readable in grey and by the colour-blind, with alt text.

Each function returns a `Picture`, which a notebook and the site show as an image with its alt text.
`picture` is that and the style, `charts` are curves, rooflines, bars and timelines; the rest lies in a room for each chapter.
May import: helpers.costs.
Tests: tests/helpers/plot.
"""

from .attention.masks_and_blocks import blocks, masks, work
from .charts import bars, levels, lines, roofline, timeline
from .inference.page_table import page_table
from .inference.serving_timelines import pages, served, tradeoff, trees
from .picture import COLOURS, DASHES, MARKERS, STYLE, Picture, canvas
from .rooflines.systolic_array_and_torus import systolic, torus
from .sharding.sharded_arrays import frames, layout
from .training.pipelines_and_layouts import pipelines, plane, predicted
from .transformers.bars_by_role import shares, stacked

__all__ = [
    "COLOURS", "DASHES", "MARKERS", "STYLE", "Picture", "bars", "blocks", "canvas", "frames", "layout", "levels",
    "lines", "masks", "page_table", "pages", "pipelines", "plane", "predicted", "roofline", "served", "shares", "stacked",
    "systolic", "timeline", "torus", "tradeoff", "trees", "work",
]  # fmt: skip
