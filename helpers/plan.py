"""A model on chips, from a shell: python -m helpers.plan train llama-3-70b --chips 512xH100 --tokens 4194304 --length 8192

Prints the layouts of a training step with the fewest estimated seconds, of all that fit; with --layout what one of them takes.
Seconds are estimates with the two ends between which three of four measured steps lie (`costs.training.step_estimate`); the floor
is what the step's products take at published rates. Needs NumPy and nothing else.
"""

import argparse
import json
import re
import sys
from dataclasses import fields

from helpers import show
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import Layout
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.public_models import model

EXAMPLE = "512xH100"
SET = {f.name: type(f.default) for f in fields(Layout) if f.name != "stored"}


def room(text: str) -> tuple[Slice, int]:
    """The slice and the number of pods, or of domains, that so many chips are.

    >>> at, pods = room("512xH100")
    >>> at.shape, pods, room("64xv5p")[0].shape
    ((8,), 64, (4, 4, 4))
    """
    found = re.fullmatch(r"(\d+)x(.+)", text)
    if not found:
        raise ValueError(f"--chips is how many of which, such as {EXAMPLE}, and not {text!r}")
    n, of = int(found[1]), chip(found[2])
    some = list(layout_search.slices(of))
    for s in some:
        if s.chips == n:
            return s, 1
    largest = some[-1].chips
    if n > largest and n % largest == 0:
        return some[-1], n // largest
    near = max((s.chips for s in some if s.chips <= n), default=1) if n < largest else n // largest * largest
    raise ValueError(f"{n} {of.name} are no slice or whole number of {largest}: take {near}")


def layout(text: str, pods: int) -> Layout:
    """A layout as it is typed: tp=8,pp=16,fsdp=4.

    >>> str(layout("tp=8,fsdp=4,policy=matmuls,sequence_parallel=False", 1))
    'fsdp=4 tp=8 policy=matmuls sequence_parallel=False'
    """
    given = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name not in SET or not value:
            raise ValueError(
                f"--layout is names and values such as tp=8,fsdp=64, with names of {', '.join(SET)}, and not {part!r}"
            )
        of = SET[name]
        if of is bool and value not in ("True", "False"):
            raise ValueError(f"{name} is True or False, not {value!r}")
        if of is int and not value.isdigit():
            raise ValueError(f"{name} is a whole number, not {value!r}")
        given[name] = value == "True" if of is bool else of(value)
    return Layout(**{"pods": pods} | given)


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


def table(found: layout_search.Found, of: Slice) -> str:
    """The ranking, a line for each layout."""
    lines = [
        f"{found.tried:,} layouts keep the rules, {found.fitting:,} fit. Seconds of a step: estimate [three of four lie here], floor.",
        f"{'':3}{'estimate':>9}  {'interval':18}{'floor':>9}{'MFU':>6}{'memory':>9}  layout",
    ]
    for n, at in enumerate(found.best, 1):
        e = at.estimate
        between = f"[{show.seconds(e.low)}, {show.seconds(e.high)}]"
        lines.append(
            f"{n:2} {show.seconds(e.mid):>9}  {between:18}{show.seconds(at.math):>9}{at.mfu(e.mid):6.0%}"
            f"{show.bytes(at.memory.total):>9}  {at.layout}"
        )
    return "\n".join(lines)


def account(at: Step, one: dict) -> str:
    """One step: its seconds by what takes them, its bytes by role."""
    s, e = one["seconds"], at.estimate
    lines = [
        f"{at.layout}: estimate {show.seconds(s['mid'])} [{show.seconds(s['low'])}, {show.seconds(s['high'])}], "
        f"floor {show.seconds(s['floor'])}, MFU {one['mfu']:.1%}, HFU {one['hfu']:.1%}, {one['tokens_per_second']:,.0f} tokens/s",
        "  seconds  "
        + ", ".join(f"{name} {show.seconds(x)}" for name, x in sorted(e.parts.items(), key=lambda p: -p[1]) if x > 0),
        f"  memory   {show.bytes(at.memory.total)} of {show.bytes(at.slice.chip.hbm_bytes)}: "
        + ", ".join(
            f"{role} {show.bytes(x)}" for role, x in sorted(one["memory"].items(), key=lambda p: -p[1]) if x > 0
        ),
    ]
    if e.borrows:
        lines.append(
            f"  no step was measured on a {at.slice.chip.name}: it has the shares of a {e.borrows}, and a wider interval"
        )
    if at.missing:
        lines.append(f"  does not fit: a device lacks {show.bytes(at.missing)}")
    return "\n".join(lines)


def train(options) -> str:
    """What is printed for a training step."""
    c, (s, pods) = model(options.model), room(options.chips)
    if min(options.tokens, options.length, options.top) < 1:
        raise ValueError("--tokens, --length and --top are 1 or more")
    if short := options.tokens % options.length:
        least = options.tokens - short + options.length
        raise ValueError(
            f"{options.tokens} tokens are no whole number of sequences of {options.length}: the next is {least}"
        )
    case = c, options.tokens, options.length, s
    if options.layout:
        some = [step(c, layout(options.layout, pods), *case[1:], count="causal")]
    else:
        found = layout_search.search(*case, pods=pods, top=options.top)
        if not found.best:
            lacks = f": the best lacks {show.bytes(found.least - s.chip.hbm_bytes)} a chip" if found.tried else ""
            raise ValueError(f"nothing fits on {options.chips}{lacks}; {larger(c, options, s)}")
        some = found.best
    records = [record(at, options.budget, options.price) for at in some]
    if options.json:
        return json.dumps(records[0] if options.layout else records, indent=1)
    if options.layout:
        return account(some[0], records[0])
    return table(found, s) + "\n\n" + account(some[0], records[0])


def larger(c, options, s: Slice) -> str:
    """How many chips would do."""
    more = layout_search.smallest(c, options.tokens, options.length, s.chip)
    return (
        f"the fewest that hold the step are {more[0].chips * more[1]}"
        if more
        else "no number of these chips holds the step"
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers.plan", description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["train"])
    parser.add_argument("model", help="a public model, such as llama-3-70b")
    parser.add_argument("--chips", required=True, help=f"how many of which, such as {EXAMPLE}")
    parser.add_argument("--tokens", type=int, required=True, help="of a step, all sequences together")
    parser.add_argument("--length", type=int, required=True, help="tokens of a sequence")
    parser.add_argument("--layout", default="", help="one layout instead of a search: tp=8,pp=16,fsdp=4")
    parser.add_argument("--top", type=int, default=10, help="layouts that are listed")
    parser.add_argument("--budget", type=float, default=1e12, help="tokens of the whole run, for days and price")
    parser.add_argument("--price", type=float, help="of a chip-hour")
    parser.add_argument("--json", action="store_true", help="the same as data")
    try:
        print(train(parser.parse_args(words)))
    except ValueError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
