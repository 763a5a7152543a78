"""The layouts of a training step with the fewest estimated seconds, of all that fit; or what one that is named takes.

Seconds are estimates with the two ends between which three of four measured steps lie (`costs.training.step_estimate`); the floor
is what the step's products take at published rates.
"""

import json
import re
from dataclasses import fields, replace

from helpers import show
from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.step_by_tier import cluster_of
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import Layout, shared
from helpers.costs.training.layout_search import EQUAL
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.training.training_step import Step, step
from helpers.costs.transformers.config import Config

from . import tiers
from .ask import asked, room, where

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
    **tiers.KINDS,
}
"""What kind each number of a record is."""


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


def record(at: Step, on: Cluster, budget: float, price: float | None) -> dict:
    """What --json prints of a step; seconds, bytes, tokens, days of the run, its price if a chip-hour has one, what tiers carry."""
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
        "tiers": tiers.record(at, on),
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


def account(at: Step, on: Cluster, one: dict, options) -> str:
    """One step: its seconds by what takes them, its bytes by role, what the whole run takes, and what goes over which links."""
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
        *tiers.account(at, on),
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


def train(options) -> str:
    """What is printed for a training step."""
    (c, name), (s, pods) = asked(options), room(options.chips)
    T = options.length
    if min(options.sequences or 1, T, options.top) < 1 or (options.tokens is not None and options.tokens < 1):
        raise ValueError("--tokens, --sequences, --length and --top are 1 or more")
    tokens = options.tokens or options.sequences * T
    if short := tokens % T:
        raise ValueError(f"{tokens} tokens are no whole number of sequences of {T}: the next is {tokens - short + T}")
    case, on = (c, tokens, T, s), cluster_of(s, pods, options.group, options.oversubscription)
    whole = s.chips if s.chip.axes else s.chips * pods
    one = step(c, layout(options.layout, pods, whole), *case[1:], count="causal") if options.layout else None
    like = Layout(pods=pods)
    if one:  # it is compared with what has its types
        like = replace(like, products=one.layout.products, optimizer=one.layout.optimizer)
    found = layout_search.search(*case, like, top=1 if one else max(options.top, COUNTED))
    if not one and not found.best:
        raise ValueError(nothing(c, tokens, T, s, pods, found))
    some = (one,) if one else found.best[: options.top]
    records = [record(at, on, options.budget, options.price) for at in some]
    if options.json:
        more = {} if one else {"tried": found.tried, "fitting": found.fitting, "as_good": equals(found)}
        return json.dumps({"kinds": KINDS, **more, "layouts": records}, indent=1)
    head = (
        f"{name} on {s.chips * pods:,} {s.chip.name} ({where(s, pods)}), {tokens:,} tokens a step "
        f"in {tokens // T:,} {'sequences' if tokens > T else 'sequence'} of {T:,}.\n"
    )
    if one:
        return head + account(one, on, records[0], options) + "\n  " + beside(one, found)
    return head + table(found, options.top) + "\n\n" + account(some[0], on, records[0], options)


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
