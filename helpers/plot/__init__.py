"""Every figure of the course, in one style: readable in grey and by the colour-blind, with alt text.

Each function returns a `Picture`, which a notebook and the site show as an image with its alt text.
"""

from .attention import blocks, masks, work
from .charts import bars, levels, lines, roofline, timeline
from .chips import systolic, torus
from .inference import pages, served, tradeoff, trees
from .picture import COLOURS, DASHES, MARKERS, STYLE, Picture, canvas
from .sharded import frames, layout
from .training import pipelines, plane, predicted
from .transformer import shares, stacked

__all__ = [
    "COLOURS", "DASHES", "MARKERS", "STYLE", "Picture", "bars", "blocks", "canvas", "frames", "layout", "levels",
    "lines", "masks", "pages", "pipelines", "plane", "predicted", "roofline", "served", "shares", "stacked",
    "systolic", "timeline", "torus", "tradeoff", "trees", "work",
]  # fmt: skip
