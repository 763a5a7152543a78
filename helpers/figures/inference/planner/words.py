"""What the planner says and shows: its rows, its fields, its sentences."""

import math
import re
from dataclasses import dataclass

from helpers.costs.inference.serving_estimate import RESERVE
from helpers.costs.inference.serving_plan import LARGEST, MOST as MOST_CHIPS
from helpers.figures.training.layout_search.candidates import HELD, PARTS, ROLES, TAKES
from helpers.figures.transformers.decoder_sizes.decoder import SIZES
from helpers.live.tables import Result
from helpers.live.words import ungrouped
from helpers.plan import train

from .deployments import FIRST, GAP

NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,6})?|\.[0-9]{1,6}")
WHOLE = re.compile(r"[0-9]{1,9}")
TASKS = ("train", "serve")
CACHES = ("bf16", "fp8", "int8", "nvfp4")
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
        return f"{what} from {self.low:,} to {self.high:,.0f}" + (", or nothing" if self.empty else "")


WRONG = "{label}: {kind}, and not “{typed}”."
FIELDS = (
    Field("budget", "Tokens of the whole run, in billions", "1000", 1, 1e6, whole=False, task="train"),
    Field("over", "Oversubscription of spine switches", "1", 1, 64, whole=False, task="train"),
    Field("prompt", "Tokens of a prompt", "4000", 1, 2**20, task="serve"),
    Field("answer", "Tokens of an answer", "1000", 1, 2**20, task="serve"),
    Field("chips", "Chips at hand; empty: as few as needed", "", 1, MOST_CHIPS, empty=True, task="serve"),
    Field("speed", "Tokens/s for each user, at least", "50", 0.1, 1e6, whole=False, empty=True, task="serve"),
    Field("wait", "Seconds to the first token, at most", "2", 0.001, 1e6, whole=False, empty=True, task="serve"),
    Field("users", "Requests at once, at least", "64", 1, 1e6, empty=True, task="serve"),
    Field("asks", "Requests/s, at least", "", 0.001, 1e6, whole=False, empty=True, task="serve"),
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
        Result("memory", "peak memory per device", "B"),
        Result("days", "the whole run takes", "days"),
        Result("hours", "the whole run takes", "chip-hours"),
        Result("run", "the whole run costs, at your price"),
        Result("million", "a million tokens, at your price"),
    ),
    "serve": (
        Result("speed", "a user gets", "tokens/s"),
        Result("gap", "from token to token", "s"),
        Result("gap_low", "three of four measured gaps lie from", "s"),
        Result("gap_high", "to", "s"),
        Result("floor", "the same at published bytes/s: weights and caches are read", "s"),
        Result("first", "the first token takes", "s"),
        Result("first_low", "three of four measured ones lie from", "s"),
        Result("first_high", "to", "s"),
        Result("request", "a whole request takes", "s"),
        Result("users", "requests at once"),
        Result("rate", "requests/s, all users"),
        Result("throughput", "answers of all users", "tokens/s"),
        Result("each", "one chip", "tokens/s"),
        Result("memory", "a chip holds, reserve included", "B"),
        Result("kv", "KV cache of one request, on a chip", "B"),
        Result("most", "requests whose caches fit at once"),
        Result("hours_in", "a million tokens of prompts", "chip-hours"),
        Result("hours_out", "a million tokens of answers", "chip-hours"),
        Result("cost_in", "a million tokens of prompts, at your price"),
        Result("cost_out", "a million tokens of answers, at your price"),
    ),
}
RUN = "estimate, if nothing fails or restarts"
BUSY = "estimate, of chips that are busy all the time"
KINDS = {
    "train": {
        "mid": "estimate, of tuned software with fused attention", "low": "estimate", "high": "estimate", "math": "floor",
        "mfu": "FLOPs counted, over the estimate", "hfu": "FLOPs counted, over the estimate", "rate": "estimate", "each": "estimate",
        "memory": "count, as many bytes a parameter as chosen", "days": RUN, "hours": RUN, "run": RUN, "million": RUN,
    },
    "serve": {
        "speed": "estimate, while its answer comes", "gap": "estimate, prompts of others included",
        "gap_low": "estimate", "gap_high": "estimate", "floor": "floor: no engine is as fast",
        "first": "estimate, its wait for others' prompts included", "first_low": "estimate",
        "first_high": "estimate", "request": "estimate", "users": "count", "rate": "estimate, each user asks again when answered",
        "throughput": "estimate", "each": "estimate", "memory": f"count, {100 * RESERVE:.0f} % kept back", "kv": "count",
        "most": "count", "hours_in": BUSY, "hours_out": BUSY, "cost_in": BUSY, "cost_out": BUSY,
    },
}  # fmt: skip
"""What kind each of these numbers is, and what it leaves out."""
WHOLES = ("users", "most")  # of these results, without a unit
PAID = ("run", "million", "cost_in", "cost_out")
GAPS = {
    "products": "products with weights", "experts": "products of experts", "attention": "attention and its caches",
    "others": "norms and other kernels", "links": "links between chips", "host": "the engine's own work", "prompts": "prompts of others",
}  # fmt: skip
FIRSTS = {
    "own": "its own prompt",
    "others": "prompts that came before",
    "no room": "room for its cache",
    "host": "the engine's own work",
}
BARS = {
    "memory": {
        "train": {f"m{n}": HELD[role] for n, role in enumerate(ROLES)},
        "serve": {"m_weights": "weights", "m_caches": "KV caches", "m_reserve": "reserve of the engine"},
    },
    "time": {
        "train": {f"t{n}": TAKES[part] for n, part in enumerate(PARTS)},
        "serve": {f"g{n}": GAPS[part] for n, part in enumerate(GAP)},
    },
    "first": {"serve": {f"f{n}": FIRSTS[part] for n, part in enumerate(FIRST)}},
}
TIERS = {"domain": "{links} domain", "slice": "slice", "others": ("leaf switches", "spine switches")}
"""What has the links of each tier."""
TABLE = {
    "title": "What a chip sends in a step, over which links",
    "what": "what is sent",
    "busy": "the links are busy for",
    "kind": "floor, at published rates",
}
LINKS = " The links of the {tier} are busy longest: {busy} at published rates."
HSDP = f" {train.HSDP}"
DRAWN = {
    "memory": "Peak memory per device, by role",
    "time": "Seconds, by what takes them",
    "first": "Seconds to the first token, by what takes them",
}

TRAIN = "{who} on {n} {chip} ({place}), {tokens} tokens a step in sequences of {T}: "
RANK = "{layout} is number {rank} of {count}, of which {fitting} fit. "
SAME = "As good as the first, within 1 %: {equal}. "
SERVE = "{who}, weights in {weights} and caches in {cache}, by {engine}, on {on}; prompts of {prompt} tokens, answers of {answer}: "
GETS = (
    "Each user gets {speed}, probably {slow} to {fast}, and the first token after {first}, probably {first_low} to {first_high}. "
    "That is for {users} requests at once, {rate} requests/s and {throughput} in all. From token to token most time goes to {bound}; "
    "before the first, to {bound_first}. A chip holds {memory} of {hbm}, reserve included.{paid}{note}"
)
SAY = {
    ("train", True): TRAIN + RANK + SAME + "A step is estimated to take {mid}, {ratio} times the best, probably from {low} to {high}; "
    "the floor is {math}. MFU {mfu}, {rate}. What takes longest, kernels apart: {bound}. A device holds {memory} of {hbm}.{links}{note}",
    ("train", False): TRAIN + RANK + "It lacks {missing}: a device would need {memory} and has {hbm}.",
    ("serve", True): SERVE + "{layout}. {kept} " + GETS,
    ("serve", False): SERVE + "{refused} {layout}. It has {lacks}.{would} " + GETS,
}  # fmt: skip
MANY = "{chip} ends at {last} chips here: take {last} or fewer, or another chip."
SHORT = "A step of {tokens} tokens has no whole sequence of {T}: take {T} tokens or more, or shorter sequences."
STRANGE = "A training step has no price for {part}, and {model} has it: choose another model, or serve this one."
FEW = "No layout over {n} chips leaves each group whole sequences: take more tokens a step, or fewer chips."
UNEVEN = "N = {N} query heads cannot share K = {K} KV heads evenly: make N a multiple of K."
SPLIT = "A token cannot go to k = {k} of E = {E} experts: k is at most E."
SHALLOW = "L = {L} layers are too few for {model}, whose first {dense} have no experts: take {dense} + 1 or more."
LAYOUT, ALSO = "{layout}, keeping {policy}", train.ALSO
LACKS = "{memory}, {missing} too much"
PAGE = {
    "train": "Layouts {first} to {last} of {count}; times are estimates, memory is counted",
    "serve": "Deployments {first} to {last} of {count}, each with the batch that suits it; all is estimated",
}
BORROWED = " No measured step is of {chip}: it has the shares of peak of {lender}, and a wider interval."
NAMED = {
    "row": "yours: {layout}, keeping {policy}",
    "elsewhere": "{name} has no price on this page: leave it out, or ask python -m helpers.plan train.",
    "unknown": "A layout is names and values such as tp=8,fsdp=64, with names of {names}, and not “{part}”.",
    "twice": "{name} stands there twice: give it once.",
    "value": "{name} is {range}, and not “{value}”.",
    "more": "These axes take {took} of {n} chips: give the others to an axis, such as fsdp={fsdp}.",
    "other": "These axes take {took} chips and there are {n}: make their product {n}.",
    "lies": "These axes do not lie along {place} chips in whole rows: let tp, cp, ep, fsdp, dp, pp, in this order, end where its sides do.",
    "suits": "{axis}={value} does not divide the sizes of {who}: take one of {fit}.",
    "stages": "pp · v = {pp} · {v} stages are more than L = {L} layers and the two tables of the vocabulary: take fewer.",
    "pieces": "v={v} stages on each device are of a pipeline: give pp.",
    "interleaved": "With v={v} the microbatches are a multiple of pp={pp}, and not {microbatches}.",
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
SERVING = {
    "replicas": "{replicas} replicas of {shape}, each with {batch} requests at once",
    "one": "{shape}, with {batch} requests at once",
    "row": "{replicas} × {shape}, batch {batch}",
    "on": "{used} of {n} {chip}",
    "all": "{n} {chip}",
    "fewest": "{n} {chip}, the fewest that will do",
    "kept": "Of {count} deployments {keeping} will do, this one among them.",
    "free": "Nothing is asked of it; deployments that fit: {count}.",
    "nearest": "Nothing there keeps all that is asked, and this is the nearest:",
    "nowhere": "No number of chips keeps all that is asked, and this is the nearest:",
    "would": " {least} {chip} would keep all of it.",
    "never": " More of these chips would not help.",
    "picked": "This one does not keep all that is asked:",
    "speed": "{have} tokens/s for each user, where {want} are asked",
    "first": "{have} to the first token, where {want} s are asked",
    "users": "{have} requests at once, where {want} are asked",
    "rate": "{have} requests/s, where {want} are asked",
    "paid": " At your price a million tokens of prompts cost {cost_in}, of answers {cost_out}.",
    "unmeasured": " No measured load is of {chip}: the interval is wider.",
    "room": "{who} in {weights} with one cache of {S} tokens does not fit on {n} {chip}: ",
    "more": "{least} would do.",
    "larger": "take chips with more memory, or shorter requests.",
    "narrower": "take chips with more memory, weights in {narrower}, or shorter requests.",
    "arithmetic": "{chip} has no arithmetic in {cache}: keep caches in bf16, or in int8.",
}
"""What is said of deployments."""
MISSES = {"speed": "too slow", "first": "starts late", "users": "too few at once", "rate": "too few a second"}
COLUMNS = {
    "train": ("layout", "time", "a device holds"),
    "serve": ("layout", "tokens/s each", "first token", "requests/s"),
}
FRONTIER = {
    "title": "Tokens/s of all users against those of each; filled: keeps what is asked; bar: interval",
    "axis": "tokens/s of each user",
    "point": "{speed} for each user, {throughput} in all: {words}",
    "from": "{n} points, from {first}, to {last}",
}
MOVE = "Along the frontier: from many users to fast answers"
HINT = "Choose a task, a model and chips, and say what is promised; then pick any line of the table."
RULES = {
    "train": "Training: the chips in powers of two as tp · cp · ep · fsdp · dp · pp; "
    "each line has the ZeRO stage, the microbatches and what is kept that suit it best; yours has what you type, and the rest is found. "
    "Splits of dp · fsdp that take within 2 % of a better one stand in its line, by their fsdp. "
    "Ranked by the estimate; of those within a percent of the best the simplest first, with the fewest axes. bf16, "
    "Adam's moments in float32, 1F1B with v stages on each device.",
    "serve": "Serving: every way to divide the chips into replicas, each of a power of two of chips, up to "
    f"{LARGEST} or a domain: tp inside a domain, pp beyond it; of models with experts dp groups of tp chips, the experts over all of them. "
    "Batches of 1, 2, 3, 4, 6, 8, 12 and so on. Of what keeps all that is asked the deployment with the most tokens/s comes first. "
    f"As few as needed: 2ⁿ or 3·2ⁿ chips, up to {MOST_CHIPS:,}. Of weights in four bits a model with experts has "
    "only the experts and MLPs; the others are bf16.",
    "all": "Prices are the reader's. Bars of seconds are shares of their sum, bars of memory shares of the device.",
}
