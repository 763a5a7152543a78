"""What the planner says and shows: its rows, its fields, its sentences."""

import math
import re
from dataclasses import dataclass

from helpers.figures.training.layout_search.candidates import MOST_CP, PARTS, ROLES
from helpers.figures.training.layout_search.page import HELD, TAKES
from helpers.figures.transformers.decoder_sizes.decoder import SIZES
from helpers.live.controls import Result, ungrouped

NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,6})?|\.[0-9]{1,6}")
WHOLE = re.compile(r"[0-9]{1,9}")
TASKS = ("train", "serve")
ROWS = 10  # of the table of layouts, at a time


@dataclass(frozen=True)
class Field:
    """A number that the reader types.

    whole  without a point; otherwise it may have one
    empty  may be left empty: then it is unknown
    task   "train" or "serve", if the other has no use for it
    """

    name: str
    label: str
    value: str
    low: float = 1
    high: float = 1e6
    whole: bool = True
    empty: bool = False
    task: str = ""

    def number(self, typed: str) -> float:
        """What was typed; ValueError, in one sentence, if it is none.

        >>> Field("B", "B", "8").number(" 1,024 "), Field("price", "Price", "", 0, 10, False, True).number("")
        (1024.0, nan)
        >>> Field("B", "B, sequences", "8", 1, 64).number("1e3")
        Traceback (most recent call last):
        ValueError: B, sequences: a whole number from 1 to 64, and not “1e3”.
        """
        typed = typed.strip()
        if self.empty and not typed:
            return math.nan
        digits = ungrouped(typed)
        fits = (WHOLE if self.whole else NUMBER).fullmatch(digits)
        if not fits or not self.low <= float(digits) <= self.high:
            raise ValueError(WRONG.format(label=self.label, kind=self.kind, typed=typed))
        return float(digits)

    @property
    def kind(self) -> str:
        """What may be typed, in words."""
        what = "a whole number" if self.whole else "a number, with a point if need be,"
        return f"{what} from {self.low:,.0f} to {self.high:,.0f}" + (", or nothing" if self.empty else "")


WRONG = "{label}: {kind}, and not “{typed}”."
FIELDS = (
    Field("budget", "Tokens of the whole run, in billions", "1000", 1, 1e6, whole=False, task="train"),
    Field("S", "S, context", "8192", 1, 2**20, task="serve"),
    Field("B", "B, sequences", "32", 1, 65536, task="serve"),
    Field("price", "Price of a chip-hour, yours", "", 0, 1e6, whole=False, empty=True),
)
MOST = dict(zip(SIZES, (2**17, 1024, 1024, 1024, 4096, 2**20, 2**20, 4096, 4096, 2**17), strict=True))
LABELS = dict(
    zip(
        SIZES,
        (
            "D, width", "L, layers", "N, query heads", "K, KV heads", "H, of a head", "F, MLP", "V, vocabulary", "E, experts",
            "k, experts of a token", "F of an expert",
        ),
        strict=True,
    )
)  # fmt: skip

RESULTS = {
    "train": (
        Result("mid", "a step takes", "s"),
        Result("low", "three of four measured steps lie from", "s"),
        Result("high", "to", "s"),
        Result("math", "its products at published rates", "s"),
        Result("mfu", "MFU: products that the model asks for", "%"),
        Result("hfu", "HFU: products done again too", "%"),
        Result("rate", "all chips", "tokens/s"),
        Result("each", "one chip", "tokens/s"),
        Result("memory", "the fullest device holds", "B"),
        Result("days", "the whole run takes", "days"),
        Result("hours", "the whole run takes", "chip-hours"),
        Result("run", "the whole run costs, at your price"),
        Result("million", "a million tokens, at your price"),
    ),
    "serve": (
        Result("seconds", "a token, block after block", "s"),
        Result("lower", "a token, all at once", "s"),
        Result("rate", "all chips", "tokens/s"),
        Result("per_chip", "one chip", "tokens/s"),
        Result("hours", "a million tokens", "chip-hours"),
        Result("cost", "a million tokens, at your price"),
        Result("held", "the fullest chip holds", "B"),
        Result("kv", "KV cache of one sequence", "B"),
        Result("most", "sequences that fit"),
        Result("critical", "batch from which products wait for arithmetic"),
    ),
}
RUN = "estimate, if nothing fails or restarts"
ENGINE = "from the floor: no engine is as fast"
KINDS = {
    "train": {
        "mid": "estimate, of tuned software with fused attention", "low": "estimate", "high": "estimate", "math": "floor",
        "mfu": "FLOPs counted, over the estimate", "hfu": "FLOPs counted, over the estimate", "rate": "estimate", "each": "estimate",
        "memory": "count, 12 bytes a parameter, no master copy", "days": RUN, "hours": RUN, "run": RUN, "million": RUN,
    },
    "serve": {
        "seconds": "floor of one decode step, no prefill", "lower": "floor", "rate": ENGINE, "per_chip": ENGINE, "hours": ENGINE,
        "cost": ENGINE, "held": "count, nothing kept free", "kv": "count", "most": "count", "critical": "count",
    },
}  # fmt: skip
"""What kind each of these numbers is, and what it leaves out."""
PAID = ("run", "million", "cost")
BARS = {
    "memory": {
        "train": {f"m{n}": HELD[role] for n, role in enumerate(ROLES)},
        "serve": {
            "m_weights": "weights",
            "m_caches": "KV caches, an even share",
            "m_copies": "copies and uneven shares",
        },
    },
    "time": {
        "train": {f"t{n}": TAKES[part] for n, part in enumerate(PARTS)},
        "serve": {
            "t_weights": "weights from HBM",
            "t_caches": "caches from HBM",
            "t_rest": "activations, HBM",
            "t_math": "arithmetic",
            "t_links": "links between chips",
        },
    },
}
DRAWN = {"memory": "Memory of the fullest device, by role", "time": "Seconds, by what takes them"}

TRAIN = "{who} on {n} {chip} ({place}), {tokens} tokens a step in sequences of {T}: "
SERVE = "{who} on {n} {chip} ({place}), {widths}, B = {B} with {S} tokens of context each: "
RANK = "{layout} is number {rank} of {count}, of which {fitting} fit. "
SAME = "As good as the first, within 1 %: {equal}. "
SAY = {
    ("train", True): TRAIN + RANK + SAME + "A step is estimated to take {mid}, {ratio} times the best, probably from {low} to {high}; "
    "the floor is {math}. MFU {mfu}, {rate}. What takes longest, kernels apart: {bound}. A device holds {memory} of {hbm}.{note}",
    ("train", False): TRAIN + RANK + "It lacks {missing}: a device would need {memory} and has {hbm}.",
    ("serve", True): SERVE + RANK + "A token takes {seconds}, each chip makes {per_chip}. It takes longest for {bound}. "
    "A chip holds {held} of {hbm}, and up to B = {most} fit.",
    ("serve", False): SERVE + RANK + "It lacks {missing}: a chip would need {held} and has {hbm}.",
}  # fmt: skip
MANY = "{chip} ends at {last} chips here: take {last} or fewer, or another chip."
SHORT = "A step of {tokens} tokens has no whole sequence of {T}: take {T} tokens or more, or shorter sequences."
FEW = "No way to cut {n} chips leaves each group whole sequences: take more tokens a step, or fewer chips."
HEADS = "{n} chips cannot share N = {N} heads evenly: take {last} or fewer."
UNEVEN = "N = {N} query heads cannot share K = {K} KV heads evenly: make N a multiple of K."
SPLIT = "A token cannot go to k = {k} of E = {E} experts: k is at most E."
SHALLOW = "L = {L} layers are too few for {model}, whose first {dense} have no experts: take {dense} + 1 or more."
LAYOUT, CUT = "{layout}, keeping {policy}", "heads over {Y}, sequences over {Z}"
LACKS = "{memory}, {missing} too much"
PAGE = {
    "train": "Layouts {first} to {last} of {count}; times are estimates, memory is counted",
    "serve": "Layouts {first} to {last} of {count}; times are floors, memory is counted",
}
BORROWED = " No measured step is of {chip}: it has the shares of peak of {lender}, and a wider interval."
NAMED = {
    "row": "yours: {layout}, keeping {policy}",
    "elsewhere": "{name} has no price on this page: leave it out, or ask python -m helpers.plan train.",
    "unknown": "A layout is names and values such as tp=8,fsdp=64, with names of {names}, and not “{part}”.",
    "twice": "{name} stands there twice: give it once.",
    "policy": "policy is one of {kept}, and not “{value}”.",
    "zero": "zero is 0, 1, 2 or 3, and not “{value}”.",
    "whole": "{name} is a whole number from 1, and not “{value}”.",
    "more": "These axes take {took} of {n} chips: give the others to an axis, such as fsdp={fsdp}.",
    "other": "These axes take {took} chips and there are {n}: make their product {n}.",
    "lies": "These axes do not lie along {place} chips in whole rows: let tp, cp, ep, fsdp, dp, pp, in this order, end where its sides do.",
    "suits": "{axis}={value} does not divide the sizes of {who}: take one of {fit}.",
    "stages": "pp={pp} stages are more than L = {L} layers: take {L} or fewer.",
    "cp": "cp={cp} does not divide T = {T} tokens of a sequence: take a divisor.",
    "batch": "{sequences} sequences do not divide over dp · fsdp · ep = {shards} times {microbatches} microbatches: "
    "take more tokens a step, or fewer of these.",
}
"""What is said of a layout that is typed."""
LONG = 120  # letters of it
OWN = "A layout of yours, such as tp=8,fsdp=8"
TYPE = "type a price"
CHANGED = "A model changed from {model}"
ANY = "the fastest"
HINT = "Choose a task, a model and chips; then pick any layout in the table."
RULES = {
    "train": "Training: the chips in powers of two as tp · cp · ep · pp times fsdp or dp (not both), "
    f"cp up to {MOST_CP}; each line has the ZeRO stage, the microbatches and what is kept that suit it best; yours has what you type. "
    "Ranked by the estimate; of those within a percent of the best the simplest first, with the fewest axes. bf16, "
    "Adam's moments in float32, 1F1B.",
    "serve": "Serving: one decode step, arithmetic in bf16, without prefill. Y chips share heads and Z the sequences; "
    "weights stay where they are. A link's rate is that of one direction; blocks do not overlap. "
    "Chips without a torus end at one domain.",
    "all": "Nothing is kept free for programs. Prices are the reader's. Bars of seconds are shares of their sum, "
    "bars of memory shares of the device.",
}
