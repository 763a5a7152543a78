"""A deployment that keeps what users are promised and serves most of them, or the nearest that can be had.

Seconds are estimates with the two ends between which three of four measured loads lie (`costs.inference.serving_estimate`).
"""

import json

from helpers import show
from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_disaggregated import Disaggregated, best_disaggregated
from helpers.costs.inference.serving_operations import FOUR, Deployment
from helpers.costs.inference.serving_plan import Answer, Plan, Target, plan
from helpers.costs.transformers.config import Config

from .ask import asked, of_chips

KINDS = {
    "first": "estimate, in seconds, three of four measured ones lie between low and high",
    "gap": "estimate, in seconds, three of four measured ones lie between low and high",
    "speed": "estimate, tokens/s of each user",
    "users": "count",
    "rate": "estimate, requests/s, each user asks again when answered",
    "throughput": "estimate, tokens/s of answers",
    "memory": "count, in bytes of a chip",
    "disaggregated": "estimate, prefill and decode on servers of their own, on as many chips",
    "price": "estimate, for a million tokens of prompts and of answers, without idle hours",
}
"""What kind each number of a record is."""
WORDS = {
    "products": "products with weights",
    "experts": "experts",
    "attention": "attention to caches",
    "others": "other kernels",
    "links": "collectives",
    "host": "scheduling and sampling",
    "prompts": "prompts of others",
}
MISSED = {
    "speed": "{speed:.0f} tokens/s for each user",
    "first": "a first token after {first}",
    "users": "{users:,.0f} users at once",
    "rate": "{rate:.1f} requests/s",
}
LISTED = 8  # plans of the frontier


def serve(options) -> str:
    """What is printed for a target."""
    (c, name), (of, chips) = asked(options), of_chips(options.chips)
    if min(options.prompt, options.answer) < 1:
        raise ValueError("--in and --out are 1 or more")
    target = Target(options.speed, options.first, options.users, options.rate)
    lengths, engine, like = (options.prompt, options.answer), ENGINES[options.engine], types(c, options)
    found = plan(c, of, chips, *lengths, target, engine, like)
    beside = best_disaggregated(c, of, int(found.best.at.chips), *lengths, target, engine, like) if found.kept else None
    if options.json:
        record = {"kinds": KINDS, "kept": found.kept, "missed": target.missed(found.best)}
        record |= {"plan": of_plan(found.best, options.price)}
        record |= {"frontier": [of_plan(p, options.price) for p in found.frontier]}
        record |= {"disaggregated": beside and of_disaggregated(beside)}
        return json.dumps(record, indent=1)
    how_many = f"{chips:,} {of.name}" if chips else f"as few {of.name} as needed"
    asks = f"{options.prompt:,} tokens in and {options.answer:,} out"
    head = f"{name} on {how_many}, {asks}, weights in {options.weights}, engine {options.engine}.\n"
    return head + account(found, target, options.price) + "\n" + said_disaggregated(beside, found) + table(found)


def types(c: Config, options) -> Deployment:
    """Types as they are asked for: what four bits are not used for is in bf16."""
    weights = "nvfp4" if options.weights == "fp4" else options.weights
    rest = "bf16" if weights in FOUR else weights
    return Deployment(weights=weights, rest=rest, cache=options.cache)


def of_plan(p: Plan, price: float | None) -> dict:
    """What --json prints of a plan: seconds, tokens, bytes, and its price if a chip-hour has one."""
    between = lambda e: {"low": e.low, "mid": e.mid, "high": e.high}  # noqa: E731
    names = ("tp", "dp", "ep", "pp", "replicas")
    return {
        "layout": {n: int(getattr(p.at, n)) for n in names if getattr(p.at, n) != 1},
        "chips": int(p.at.chips),
        "batch": int(p.load.batch),
        "users": int(p.users),
        "first": between(p.load.first),
        "gap": between(p.load.gap) | {"parts": p.load.gap.parts, "bound": p.bound},
        "speed": p.speed,
        "rate": p.rate,
        "throughput": p.throughput,
        "memory": p.memory,
        "price": None if price is None else dict(zip(("in", "out"), p.price(price))),
    }


def of_disaggregated(a: Disaggregated) -> dict:
    """What --json prints of disaggregated serving."""
    names = ("tp", "dp", "ep", "pp")
    layouts = [{n: int(getattr(s.at, n)) for n in names if getattr(s.at, n) != 1} for s in (a.prefill, a.decode)]
    seconds = {n: {"low": e.low, "mid": e.mid, "high": e.high} for n, e in (("first", a.first), ("gap", a.gap))}
    return {
        "prefill": {"servers": a.servers[0], "layout": layouts[0]},
        "decode": {"servers": a.servers[1], "layout": layouts[1], "batch": a.batch},
        "chips": a.chips,
        **seconds,
        "speed": a.speed,
        "rate": a.rate,
        "throughput": a.throughput,
        "sent": a.sent,
    }


def said_disaggregated(a: Disaggregated | None, found: Answer) -> str:
    """The best that disaggregated serving gives, beside the plan."""
    if a is None:
        return ""
    return (
        f"  disaggregated: {a.servers[0]} x [{a.prefill.at}] read prompts for {a.servers[1]} x [{a.decode.at}] of {a.batch:,} requests: "
        f"{a.throughput / found.best.throughput:.2f} times as many tokens/s,\n"
        f"  {a.speed:.0f} for each user, first after {show.seconds(a.first.mid)}, {show.bytes(a.sent)} over the network for each prompt\n"
    )


def account(found: Answer, target: Target, price: float | None) -> str:
    """The plan, what it keeps and what not, its seconds with what they are, memory and price."""
    p = found.best
    gap, first, parts = p.load.gap, p.load.first, p.load.gap.parts
    most = sorted(parts, key=lambda part: -parts[part])[:3]
    between = lambda e: f"[{show.seconds(e.low)}, {show.seconds(e.high)}]"  # noqa: E731
    lines = [
        f"{p.at}: {p.at.chips:,} chips, {p.load.batch:,.0f} requests at once in each of {p.at.replicas:,} replicas"
    ]
    if not found.kept:
        has = {"speed": p.speed, "first": show.seconds(first.mid), "users": p.users, "rate": p.rate}
        missed = ", ".join(MISSED[n].format(**has) for n in target.missed(p))
        lines.insert(0, f"No deployment keeps the target; the nearest gives {missed}:")
    lines += [
        f"  {'estimate':9}{show.seconds(gap.mid):>9} between tokens, {between(gap)}: {p.speed:.0f} tokens/s for each user",
        f"  {'estimate':9}{show.seconds(first.mid):>9} to the first token, {between(first)}",
        f"  {'':9}{'':9} of a gap " + ", ".join(f"{show.seconds(parts[m])} {WORDS[m]}" for m in most),
        f"  {'estimate':9}{p.rate:9.2f} requests/s of {p.users:,.0f} users, {p.throughput:,.0f} tokens/s of answers",
        f"  {'count':9}{show.bytes(sum(p.memory.values())):>9} a chip: "
        + ", ".join(f"{show.bytes(x)} {role}" for role, x in p.memory.items()),
    ]
    copied = p.at.tp > p.server.config.K and not p.server.config.mla and not p.at.spread
    if copied:
        lines.append(f"  {'':9}{'':9} K={p.server.config.K} KV heads are fewer than tp={p.at.tp}: each is copied")
    if price is not None:
        lines.append("  {:9}{:9.2f} for a million tokens in, {:.2f} out".format("estimate", *p.price(price)))
    return "\n".join(lines)


def table(found: Answer) -> str:
    """Some plans of the frontier: the fastest for each user, the one that serves most, and those between."""
    every = found.frontier
    some = [every[round(i * (len(every) - 1) / (LISTED - 1))] for i in range(LISTED)] if len(every) > LISTED else every
    lines = [
        f"\n{'':3}{'a user':>9}{'all':>12}{'first':>10}{'batch':>7}  on as many chips, none serves more at that speed"
    ]
    for p in some:
        mark = "*" if p == found.best else ""
        lines.append(
            f"{mark:3}{p.speed:7.0f}/s{p.throughput:10,.0f}/s{show.seconds(p.load.first.mid):>10}{p.load.batch:7,.0f}  {p.at}"
        )
    return "\n".join(lines)
