"""A film of chapter 6: the order in which Flash visits blocks of scores, and what it moves."""

from .tiles import TileFilm, flash

FIGURE = TileFilm(
    name="flash-blocks",
    title="Flash over a causal mask: a thick edge for the block on the chip, colour for those before it; empty blocks are never visited.",
    films={
        "Flash 2, queries outside": flash(4, 8),
        "Flash 1, keys outside": flash(4, 8, version=1),
        "Flash 2 in a window": flash(4, 8, window=8),
    },
)
