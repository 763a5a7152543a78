"""A film of chapter 8: tokens find their experts over two hosts, and their results come home."""

from dataclasses import dataclass
from random import Random

from helpers.live.film import Film, LiveFilm
from helpers.plot.experts.copies import CARD, LINK, Chip, copies, crosses
from helpers.plot.picture import COLOURS
from helpers.plot.svg import element, frame, rect, word

HOSTS, CHIPS, OWN, K = 2, 4, 2, 3  # hosts, chips of each, experts on a chip, experts of a token
WIDE, GAP, HEAD, SQUARE, HIGH = 62, 22, 74, 17, 66
FILLS = (*COLOURS, "#888888", "#444444")
"""Of tokens, by the chip that each begins on."""
TITLES = {"host": "one for each host", "device": "one for each device", "expert": "one for each expert"}


@dataclass(frozen=True)
class Moment:
    """What was just sent, and what each chip holds: tokens on their way or at work, or results of tokens.

    sent  copies over cards and over NVLink since the start
    """

    label: str
    text: str
    arrows: tuple[tuple[Chip, Chip], ...]
    held: dict[Chip, tuple[int, ...]]
    results: bool
    sent: tuple[int, int]


def experts_of_tokens() -> list[list[int]]:
    """The experts of each chip's token, drawn once.

    >>> [len(set(chosen)) for chosen in experts_of_tokens()] == [K] * HOSTS * CHIPS
    True
    """
    draw = Random(12)
    return [sorted(draw.sample(range(HOSTS * CHIPS * OWN), K)) for _ in range(HOSTS * CHIPS)]


def home(expert: int) -> Chip:
    """The chip on which an expert lies.

    >>> home(0), home(15)
    ((0, 0), (1, 3))
    """
    return divmod(expert // OWN, CHIPS)


def dispatch(way: str) -> Film:
    """All moments under one way of copying, of `plot.experts.copies.copies`.

    >>> dispatch("host").frames[-1].sent, [m.label for m in dispatch("host").frames][:3]
    ((12, 36), ['start', 'over cards', 'inside the hosts'])
    """
    chips = [divmod(i, CHIPS) for i in range(HOSTS * CHIPS)]
    routes = [copies(chip, [home(e) for e in chosen], way) for chip, chosen in zip(chips, experts_of_tokens())]
    far = [(t, x) for t, route in enumerate(routes) for x in route if crosses(x)]
    near = [(t, x) for t, route in enumerate(routes) for x in route if not crosses(x)]
    start = {chip: (t,) for t, chip in enumerate(chips)}
    arrived = {chip: start[chip] + tuple(t for t, (_, to) in far if to == chip) for chip in chips}
    rows = {
        chip: tuple(t for t, chosen in enumerate(experts_of_tokens()) for e in chosen if home(e) == chip)
        for chip in chips
    }
    back = {chip: tuple(t for t in arrived[chip] if way == "host" or t == start[chip][0]) for chip in chips}
    over, inside = len(far), len(near)
    what = TITLES[way].removeprefix("one ")
    frames = (
        Moment("start", f"Start: a token on each chip, and the {K} experts that its router chose.", (), start, False, (0, 0)),
        Moment("over cards", f"Dispatch over cards: {over} copies, one {what} elsewhere.", _arrows(far), arrived, False, (over, 0)),
        Moment("inside the hosts", f"Dispatch inside the hosts: {inside} copies over NVLink.", _arrows(near), rows, False, (over, inside)),
        Moment(
            "experts multiply", f"The experts multiply: the fullest chip has {max(map(len, rows.values()))} rows, the emptiest "
            f"{min(map(len, rows.values()))}.", (), rows, True, (over, inside),
        ),
        Moment("back inside", "Combine inside the hosts: results go back, and are added where they meet.", _arrows(near, True), back,
               True, (over, 2 * inside)),
        Moment("back over cards", "Combine over cards: each token's results are added at home.", _arrows(far, True), start, True,
               (2 * over, 2 * inside)),
    )  # fmt: skip
    said = f"A copy {what}: {2 * over} copies cross cards, there and back, and {2 * inside} go over NVLink."
    return Film(said, frames, (HOSTS * (CHIPS * WIDE + GAP) + 4, HEAD + HIGH + 122), drawing)


def _arrows(sent: list[tuple[int, tuple[Chip, Chip]]], back: bool = False) -> tuple[tuple[Chip, Chip], ...]:
    return tuple(x[::-1] if back else x for _, x in sent)


def drawing(moment: Moment) -> str:
    """What is inside of one frame's <svg>: hosts side by side, in each its chips with the tokens that they hold."""
    out, chosen, y = [], experts_of_tokens(), HEAD + HIGH + 84
    for host in range(HOSTS):
        x = 2 + host * (CHIPS * WIDE + GAP)
        out.append(rect(x, HEAD - 8, CHIPS * WIDE + 4, HIGH + 34, stroke_dasharray="3"))
    for chip, tokens in moment.held.items():
        x, number = _left(chip), chip[0] * CHIPS + chip[1]
        out.append(rect(x, HEAD, WIDE - 8, HIGH, edge=0.8))
        out.append(word(x, HEAD + HIGH + 17, f"e{OWN * number}, e{OWN * number + OWN - 1}", size=10))
        if moment.label == "start":
            out.append(word(x + 3, HEAD + HIGH - 8, " ".join(map(str, chosen[number])), size=10))
        for n, t in enumerate(tokens):
            out.append(_token(x + 3 + 17 * (n % 3), HEAD + 4 + 20 * (n // 3), t, moment.results))
    out += [_bow(a, b) for a, b in moment.arrows]
    out += [
        word(2, y, f"copies over cards: {moment.sent[0]}"),
        word(2, y + 18, f"copies over NVLink: {moment.sent[1]}"),
    ]
    return frame(moment.label, out)


def _left(chip: Chip) -> int:
    return 8 + chip[0] * (CHIPS * WIDE + GAP) + chip[1] * WIDE


def _token(x: int, y: int, t: int, result: bool) -> str:
    """A square with the token's number: filled on its way there, a ring with its results in it."""
    fill, ink = ("none", "currentColor") if result else (FILLS[t], "#fff")
    return rect(x, y, SQUARE - 2, SQUARE - 1, fill, 2, stroke=FILLS[t]) + word(x + 4, y + 12, t, size=11, fill=ink)


def _bow(a: Chip, b: Chip) -> str:
    """Over cards above the chips, over NVLink below them, with a point where it arrives."""
    card = crosses((a, b))
    colour, y = (CARD, HEAD - 2) if card else (LINK, HEAD + HIGH + 22)
    start, end = (_left(c) + (WIDE - 8) / 2 for c in (a, b))
    deep = abs(end - start) / (7 if card else 4)
    bow = f"M{start:g} {y}Q{(start + end) / 2:g} {y - deep if card else y + deep:.4g} {end:g} {y}"
    return element("path", d=bow, fill="none", stroke=colour, stroke_width=1.4) + element(
        "circle", cx=end, cy=y, r=2.6, fill=colour
    )


FIGURE = LiveFilm(
    name="expert-dispatch",
    title="Eight tokens and sixteen experts on two hosts of four chips. Squares are tokens, by the chip they begin on; frames are results.",
    films={TITLES[way]: dispatch(way) for way in TITLES},
    menu="Copies",
)
