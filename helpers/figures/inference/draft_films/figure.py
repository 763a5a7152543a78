"""The film of chapter 5: a good and a poor draft model propose the words of one line."""

from .rounds import DraftFilm, rounds

LINE = "This is the page that waits for the batch".split()
GOOD = "This is the page that waits for the slot".split()
POOR = "This is a page that fits in the slot".split()
FIGURE = DraftFilm(
    name="speculation",
    title="Greedy speculative decoding, three drafts in a round: both draft models give the same text, in a different number of passes.",
    films={"good": rounds(LINE, 2, GOOD, 3), "poor": rounds(LINE, 2, POOR, 3)},
)
