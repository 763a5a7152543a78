"""A model on chips, from a shell: python -m helpers.plan train llama-3-70b --chips 512xH100 --tokens 4194304 --length 8192

Prints the layouts of a training step with the fewest estimated seconds, of all that fit; with --layout what one of them takes.
Seconds are estimates with the two ends between which three of four measured steps lie (`costs.training.step_estimate`); the floor
is what the step's products take at published rates. Needs NumPy and nothing else.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations_with_replacement
from math import inf, prod
from pathlib import Path

from helpers import show
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import Layout, divisors, shared
from helpers.costs.training.layout_search import EQUAL
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model

EXAMPLE = "512xH100"
COMMAND = f"python -m helpers.plan train llama-3-70b --chips {EXAMPLE} --tokens 4194304 --length 8192"
MOST = 131072  # chips
COUNTED = 100  # layouts as good as the first, at most
SET = {f.name: type(f.default) for f in fields(Layout) if f.name != "stored"}
KINDS = {
    "seconds.low": "estimate, three of four measured steps take longer than low and less than high",
    "seconds.mid": "estimate, of tuned software with fused attention",
    "seconds.high": "estimate",
    "seconds.floor": "floor, products at published rates",
    "mfu": "count of FLOPs over the estimate",
    "hfu": "count of FLOPs over the estimate",
    "memory": "count, in bytes, without a master copy of the weights",
    "tokens_per_second": "estimate",
    "days": "estimate, without failures and restarts",
    "price": "estimate, without failures and restarts",
}
"""What kind each number of a record is."""


def room(text: str) -> tuple[Slice, int]:
    """The slice and the number of pods, or of domains, that so many chips are: a shape is taken as it is written.

    >>> at, pods = room("512xH100")
    >>> at.shape, pods, room("64xv5p")[0].shape, room("6144xv5p")[0].shape
    ((8,), 64, (4, 4, 4), (16, 16, 24))
    >>> [(s.shape, pods) for s, pods in map(room, ("576xGB200", "512xGB200", "8192xv5p", "4x8xv5e"))]
    [((72,), 8), ((64,), 8), ((16, 16, 16), 2), ((4, 8), 1)]
    """
    found = re.fullmatch(r"(\d[\d,_]*(?:x\d+)*) *x? *([a-z].*)", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"--chips is how many of which, such as {EXAMPLE}, and not {text!r}")
    shape, of = tuple(int(n) for n in re.sub("[,_]", "", found[1]).lower().split("x")), chip(found[2])
    if len(shape) > 1 and of.axes:
        return Slice(of, shape), 1
    n = prod(shape)
    if not 1 <= n <= MOST:
        raise ValueError(f"--chips is from 1 to {MOST:,} of them, and not {n:,}")
    if there := next(_rooms(of, n), None):
        return there
    near = [next(m for m in way if next(_rooms(of, m), None)) for way in (range(n, 0, -1), range(n, 2 * MOST))]
    of_what = "slice, nor several slices alike" if of.axes else f"whole number of domains of {of.pod[0]}"
    raise ValueError(f"{n} {of.name} are no {of_what}: take {near[0]} or {near[1]}")


def _rooms(of: Chip, n: int) -> Iterator[tuple[Slice, int]]:
    """Ways to have so many chips: as one slice, or as several alike, the largest first."""
    if not of.axes:
        domain = of.pod[0]
        trays = of.chips_per_host if domain % of.chips_per_host == 0 else domain  # a rack may be used in part
        some = range(domain, domain // 2 - 1, -trays) if n > domain else (n,)
        yield from ((Slice(of, (m,)), n // m) for m in some if n % m == 0)
        return
    for pods in divisors(n):
        if pods == 1 or n // pods >= of.chips_per_host:
            if shapes := _shapes(of, n // pods):
                yield Slice(of, min(shapes, key=sum)), pods


def _shapes(of: Chip, n: int) -> list[tuple[int, ...]]:
    """Slices of n chips: those that the vendor doubles, and of cubes of 4x4x4 every whole number."""
    doubled = [s.shape for s in layout_search.slices(of) if s.chips == n]
    if of.axes < 3 or doubled:
        return doubled
    most = of.sides[::-1]
    sides = (d for d in divisors(n) if d % 4 == 0 and d <= most[-1])
    some = combinations_with_replacement(sides, of.axes)
    return [s for s in some if prod(s) == n and all(a <= b for a, b in zip(s, most))]


def where(s: Slice, pods: int) -> str:
    """What these chips are, in words.

    >>> [where(*room(text)) for text in ("512xH100", "4xH100", "8192xv5p", "64xv5e")]
    ['64 domains of 8', 'in one domain', '2 slices of 16x16x16', 'a slice of 8x8']
    """
    if s.chip.axes:
        shape = "x".join(map(str, s.shape))
        return f"{pods} slices of {shape}" if pods > 1 else f"a slice of {shape}"
    return f"{pods} domains of {s.chips}" if pods > 1 else "in one domain"


def layout(text: str, pods: int, chips: int = 0) -> Layout:
    """A layout as it is typed: tp=8,pp=16,fsdp=4.

    chips  of a slice, or of all domains: if its axes take fewer, what is left over could go to fsdp, and the error says so

    >>> str(layout("tp=8,fsdp=4,policy=matmuls,sequence_parallel=False", 1))
    'fsdp=4 tp=8 policy=matmuls sequence_parallel=False'
    >>> layout("tp=8,pp=16", 32, 256)
    Traceback (most recent call last):
    ValueError: tp=8,pp=16 takes 128 of 256 chips: give the others to an axis, such as tp=8,pp=16,fsdp=2
    """
    given = {}
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, _, value = part.partition("=")
        if name not in SET or not value:
            raise ValueError(
                f"--layout is names and values such as tp=8,fsdp=64, with names of {', '.join(SET)}, and not {part!r}"
            )
        if name in given:
            raise ValueError(f"--layout names {name} twice: give it once")
        of = SET[name]
        if of is bool and value not in ("True", "False"):
            raise ValueError(f"{name} is True or False, not {value!r}")
        if of is int and not value.isdigit():
            raise ValueError(f"{name} is a whole number, not {value!r}")
        given[name] = value == "True" if of is bool else of(value)
    if given.setdefault("pods", pods) != pods:
        raise ValueError(f"pods={given['pods']}, and these chips are {pods}: leave it out")
    took = Layout(**given)
    if took.chips < chips and chips % took.chips == 0:
        wide = {k: x for k, x in given.items() if k != "pods"}
        wide["fsdp"] = wide.get("fsdp", 1) * (chips // took.chips)
        better = ",".join(f"{k}={x}" for k, x in wide.items())
        raise ValueError(f"{text} takes {took.chips} of {chips} chips: give the others to an axis, such as {better}")
    return took


def record(at: Step, budget: float, price: float | None) -> dict:
    """What --json prints of a step; seconds, bytes, tokens, days of the run, and its price if a chip-hour has one."""
    e, memory = at.estimate, vars(at.memory)
    mfu, hfu = utilisation(at.config, at.slice.chip, at.layout, at.tokens / at.T, at.T, e.mid)
    hours = at.chip_hours(budget, e.mid)
    return {
        "layout": {
            f.name: x for f in fields(Layout) if f.name in SET and (x := getattr(at.layout, f.name)) != f.default
        },
        "seconds": {"low": e.low, "mid": e.mid, "high": e.high, "floor": at.math},
        "mfu": mfu,
        "hfu": hfu,
        "memory": memory,
        "fits": not at.missing,
        "tokens_per_second": at.tokens / e.mid,
        "days": at.days(budget, e.mid),
        "price": None if price is None else hours * price,
        "parts": e.parts,
        "borrows": e.borrows,
    }


def named(at: Step) -> str:
    """A layout with its policy, which nobody need know by heart; of GPUs without the number of domains, over which its axes lie."""
    said = str(shared(at.layout, at.slice.chip))
    return said if "policy=" in said else f"{said} policy={at.layout.policy}"


def equals(found: layout_search.Found) -> int:
    """How many of the best are as good as the first, by what ranks them."""
    ranks = [at.estimate.mid * layout_search.careful(at) for at in found.best]
    return sum(rank <= EQUAL * min(ranks) for rank in ranks)


def table(found: layout_search.Found, top: int) -> str:
    """The ranking, a line for each layout."""
    same = equals(found)
    lines = [
        f"{found.tried:,} layouts keep the rules and {found.fitting:,} of them fit; "
        f"{same}{' or more' * (same == COUNTED)} {'is' if same == 1 else 'are'} as good as the first, within {EQUAL - 1:.0%}.",
        f"{'':3}{'estimate':>9}  {'3 of 4 lie in':18}{'floor':>9}{'MFU':>6}{'memory':>9}  layout",
    ]
    for n, at in enumerate(found.best[:top], 1):
        e = at.estimate
        between = f"[{show.seconds(e.low)}, {show.seconds(e.high)}]"
        lines.append(
            f"{n:2} {show.seconds(e.mid):>9}  {between:18}{show.seconds(at.math):>9}{at.mfu(e.mid):6.0%}"
            f"{show.bytes(at.memory.total):>9}  {named(at)}"
        )
    return "\n".join(lines)


def account(at: Step, one: dict, options) -> str:
    """One step: its seconds by what takes them, its bytes by role, and what the whole run takes."""
    s, e, of = one["seconds"], at.estimate, at.slice.chip
    each = sum(vars(replace(at.layout.stored, activation=0)).values())
    lines = [
        named(at),
        f"  estimate {show.seconds(s['mid'])} a step in tuned software, three of four lie in [{show.seconds(s['low'])}, "
        f"{show.seconds(s['high'])}]; {one['tokens_per_second']:,.0f} tokens/s, MFU {one['mfu']:.1%}, HFU {one['hfu']:.1%}",
        "           "
        + ", ".join(f"{name} {show.seconds(x)}" for name, x in sorted(e.parts.items(), key=lambda p: -p[1]) if x > 0),
        f"  floor    {show.seconds(s['floor'])}: its products at published rates",
        f"  count    {show.bytes(at.memory.total)} of {show.bytes(of.hbm_bytes)} on the fullest device, with {each:g} bytes a parameter: "
        + ", ".join(
            f"{role} {show.bytes(x)}" for role, x in sorted(one["memory"].items(), key=lambda p: -p[1]) if x > 0
        ),
        f"  estimate {one['days']:,.3g} days for {show.sci(options.budget)} tokens if nothing fails or restarts"
        + (f", {one['price']:,.0f} at {options.price:g} a chip-hour" if options.price is not None else ""),
    ]
    if e.borrows:
        lines.append(
            f"  No measured step is of {of.name}: it has the shares of peak of {e.borrows}, and a wider interval."
        )
    if of.neighbours:
        lines.append(f"  {unswitched(of)}")
    if at.missing:
        lines.append(f"  It does not fit: a device lacks {show.bytes(at.missing)}.")
    return "\n".join(lines)


def unswitched(of: Chip) -> str:
    """What an estimate leaves out of chips whose domain has no switch."""
    return (
        f"Fewer than the {of.pod[0]} of a domain reach only some of the links of each {of.name}, "
        "which the estimate leaves out: it makes small groups too fast."
    )


def beside(at: Step, found: layout_search.Found) -> str:
    """How a layout that was named compares with the best that fits."""
    if not found.best:
        return "Of all layouts none fits."
    best = found.best[0]
    ratio = at.estimate.mid / best.estimate.mid
    return f"{ratio:.2f} times the best that fits, which takes {show.seconds(best.estimate.mid)}: {named(best)}"


def asked(options) -> tuple[Config, str]:
    """The model and what it is called."""
    if bool(options.model) == bool(options.config):
        raise ValueError(f"give a public model or --config with the path of a config.json, one of the two: {COMMAND}")
    if options.model:
        return model(options.model), options.model
    try:
        return Config.from_hf(options.config), Path(options.config).name
    except OSError as e:
        raise ValueError(f"{options.config} cannot be read ({e.strerror}): give the path of a config.json") from None


def train(options) -> str:
    """What is printed for a training step."""
    (c, name), (s, pods) = asked(options), room(options.chips)
    T = options.length
    if min(options.sequences or 1, T, options.top) < 1 or (options.tokens is not None and options.tokens < 1):
        raise ValueError("--tokens, --sequences, --length and --top are 1 or more")
    tokens = options.tokens or options.sequences * T
    if short := tokens % T:
        raise ValueError(f"{tokens} tokens are no whole number of sequences of {T}: the next is {tokens - short + T}")
    case = c, tokens, T, s
    whole = s.chips if s.chip.axes else s.chips * pods
    one = step(c, layout(options.layout, pods, whole), *case[1:], count="causal") if options.layout else None
    like = Layout(pods=pods)
    if one:  # it is compared with what has its types
        like = replace(like, products=one.layout.products, optimizer=one.layout.optimizer)
    found = layout_search.search(*case, like, top=1 if one else max(options.top, COUNTED))
    if not one and not found.best:
        raise ValueError(nothing(c, tokens, T, s, pods, found))
    some = (one,) if one else found.best[: options.top]
    records = [record(at, options.budget, options.price) for at in some]
    if options.json:
        more = {} if one else {"tried": found.tried, "fitting": found.fitting, "as_good": equals(found)}
        return json.dumps({"kinds": KINDS, **more, "layouts": records}, indent=1)
    head = (
        f"{name} on {s.chips * pods:,} {s.chip.name} ({where(s, pods)}), {tokens:,} tokens a step "
        f"in {tokens // T:,} {'sequences' if tokens > T else 'sequence'} of {T:,}.\n"
    )
    if one:
        return head + account(one, records[0], options) + "\n  " + beside(one, found)
    return head + table(found, options.top) + "\n\n" + account(some[0], records[0], options)


def nothing(c: Config, tokens, T, s: Slice, pods: int, found: layout_search.Found) -> str:
    """Why no layout fits, and how many chips would do."""
    n, of = s.chips * pods, s.chip
    if not found.tried:
        sequences = tokens // T
        better = (
            f"give a multiple of {pods} sequences"
            if of.axes and sequences % pods
            else "give more tokens a step, or fewer chips"
        )
        return f"no way to cut {n} {of.name} ({where(s, pods)}) leaves each group whole ones of {sequences} sequences: {better}"
    more = (r for r in layout_search.rooms(of) if r[0].chips * r[1] > n)
    fit = next((r for r in more if layout_search.search(c, tokens, T, r[0], Layout(pods=r[1]), top=1).fitting), None)
    would = f"{fit[0].chips * fit[1]} hold it" if fit else "no number of these chips up to 8192 holds it"
    return f"nothing fits on {n} {of.name}: the best lacks {show.bytes(found.least - of.hbm_bytes)} a chip for the step; {would}"


class Parser(argparse.ArgumentParser):
    """One that says what is wrong in one sentence, with a command that would be right."""

    def error(self, message):
        raise ValueError(f"{message}: {COMMAND}")


def number(text: str) -> int:
    """A whole number, perhaps with commas between its thousands."""
    digits = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    if not re.fullmatch(r"-?\d+", digits):
        raise argparse.ArgumentTypeError(f"a whole number such as 8192, and not {text!r}")
    return int(digits)


def amount(text: str) -> float:
    """A number above 0."""
    try:
        if 0 < (x := float(text)) < inf:
            return x
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"a number above 0, such as 2.5 or 1e12, and not {text!r}")


def main(words: list[str] | None = None) -> int:
    parser = Parser(prog="python -m helpers.plan", description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["train"])
    parser.add_argument("model", nargs="?", help="a public model, such as llama-3-70b")
    parser.add_argument("--config", help="a model's config.json, instead of a public model")
    parser.add_argument("--chips", required=True, help=f"how many of which, such as {EXAMPLE}, up to {MOST}")
    batch = parser.add_mutually_exclusive_group(required=True)
    batch.add_argument("--tokens", type=number, help="of a step, all sequences together")
    batch.add_argument("--sequences", type=number, help="of a step, instead of its tokens")
    parser.add_argument("--length", type=number, required=True, help="tokens of a sequence")
    parser.add_argument("--layout", default="", help="one layout instead of a search: tp=8,pp=16,fsdp=4")
    parser.add_argument("--top", type=number, default=10, help="layouts that are listed")
    parser.add_argument("--budget", type=amount, default=1e12, help="tokens of the whole run, for days and price")
    parser.add_argument("--price", type=amount, help="of a chip-hour")
    parser.add_argument("--json", action="store_true", help="the same as data")
    try:
        print(train(parser.parse_args(words)))
    except ValueError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
