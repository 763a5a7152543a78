"""A film of chapter 6: which keys a device of a ring has at each hop, and how much work that is."""

from .tiles import TileFilm, ring

FIGURE = TileFilm(
    name="ring-hops",
    title="A causal ring of four devices: thick edges show the keys that each device has; bars, the pairs that it computes with them.",
    films={"whole pieces": ring(4, 8), "stripes": ring(4, 8, "striped")},
    menu="Cut",
)
