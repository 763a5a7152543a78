"""A deployment that keeps what users are promised and serves most of them, or the nearest that can be had.

Seconds are estimates with the two ends between which three of four measured loads lie (`costs.inference.serving_estimate`).
"""

import json
from dataclasses import replace
from pathlib import Path

from helpers import show
from helpers.costs.inference.disaggregated_plan import Disaggregated, best_disaggregated
from helpers.costs.inference.request_loads import in_session
from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import arithmetic
from helpers.costs.inference.serving_operations import FOUR, Deployment
from helpers.costs.inference.serving_plan import Answer, Plan, Target, at_users, completed, deployments, plan
from helpers.costs.inference.speculative_decoding import tokens_of_a_pass
from helpers.costs.inference.stored_types import stored_types
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.step_estimate import Estimate

from .ask import model_of, of_chips, remarks
from .flags import flags_words, of_serving, read_flags

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
    """What is printed for a target, or of a layout that is typed."""
    (c, name), (chip, chips) = model_of(options), of_chips(options.chips)
    if min(options.prompt, options.answer, options.turns) < 1:
        raise ValueError("--in and --out are 1 or more, and so is --turns")
    if options.hits == 1:
        raise ValueError("--hits is below 1: one token of a prompt at least is new")
    target = Target(options.speed, options.first, options.users, options.rate)
    types, types_said = types_of(options, chip)
    prompt, hits = in_session(options.prompt, options.answer, options.turns, options.hits)
    types = replace(types, hits=hits, drafts=options.drafts)
    asked = c, chip, chips, round(prompt), options.answer, target, ENGINES[options.engine], types
    text, unread = read_flags(options.layout, chips or 0)
    ways = completed(c, chips, text, types) if text else ()
    answer, apart, best = plan(*asked, ways), None, None
    if text:
        answer, best = beside(answer, ways, *asked)
    elif answer.kept:  # compared at one speed for users
        same = replace(target, speed=target.speed or answer.best.speed)
        apart = best_disaggregated(c, chip, int(answer.best.deployment.chips), *asked[3:5], same, *asked[6:])
    if options.json:
        record = {"kinds": KINDS, "kept": answer.kept, "missed": target.missed(answer.best)}
        record |= {"plan": of_plan(answer.best, options.price)}
        record |= {"frontier": [of_plan(p, options.price) for p in answer.frontier]}
        record |= {"disaggregated": apart and of_disaggregated(apart), "best": best and of_plan(best, options.price)}
        return json.dumps(record, indent=1)
    how_many = f"{chips:,} {chip.name}" if chips else f"as few {chip.name} as needed"
    lengths_said = f"{round(prompt):,} tokens in and {options.answer:,} out"
    if hits:
        turns = f" (the mean of {options.turns} turns)" if options.turns > 1 else ""
        lengths_said = f"{round(prompt):,} tokens in{turns}, {hits:.0%} of them in caches, and {options.answer:,} out"
    if options.drafts:
        types_said += f", {tokens_of_a_pass(options.drafts):.2f} tokens a step with {len(options.drafts)} drafted"
    head = f"{name} on {how_many}, {lengths_said}, {types_said}, engine {options.engine}.\n{remarks(c, False, bool(options.config))}"
    more = disaggregated_words(apart, answer) if apart else compared(answer.best, best) if best else ""
    told = [account(answer, target, options.price, not text), *(f"  {line}" for line in unread)]
    if options.flags:
        told.append(flags_words(options.flags, of_serving(options.flags, axes(answer.best.deployment))))
    return head + "\n".join(told) + f"\n{more}{table(answer)}"


def types_of(options, chip: Chip) -> tuple[Deployment, str]:
    """Types that are typed, or else those that the checkpoint itself says, or bf16; and what is said of them."""
    own = checkpoint_types(Path(options.config)) if options.config else None
    types, cache = own or Deployment(), options.cache
    if own and not cache and own.cache not in ("bf16", "int8") and arithmetic(chip, own.cache) == "bf16":
        cache = "bf16"  # the chip has no arithmetic in what the checkpoint suggests
    if options.weights:
        types = types.in_type("nvfp4" if options.weights == "fp4" else options.weights)
    types = replace(types, cache=cache or types.cache)
    words = [f"weights in {types.weights}"]
    if types.rest != types.weights and types.weights in FOUR:
        words.append(f"attention of mixtures in {types.rest}")
    if types.cache != "bf16":
        words.append(f"caches in {types.cache}")
    return types, ", ".join(words) + (
        " as the checkpoint says" if own and not (options.weights or options.cache) else ""
    )


def checkpoint_types(path: Path) -> Deployment | None:
    """What a config.json, and a hf_quant_config.json beside it, say of types."""
    beside = path.with_name("hf_quant_config.json")
    hf, other = (json.loads(p.read_text(encoding="utf-8")) if p.exists() else None for p in (path, beside))
    return stored_types(hf, other)


def beside(
    typed_answer: Answer, candidates, config, chip, chips, prompt, answer, target: Target, engine, types
) -> tuple[Answer, Plan]:
    """A typed layout with as many users as are asked, if any are, and the best of all layouts on its chips for the same."""
    n, users = chips or int(typed_answer.best.deployment.chips), target.users
    if users is None:
        return typed_answer, plan(config, chip, n, prompt, answer, target, engine, types).best
    every = (candidates, [*candidates, *deployments(config, chip, n, types)])
    mine, best = (
        min(at_users(config, chip, n, prompt, answer, users, engine, some), key=target.rank) for some in every
    )
    return replace(typed_answer, best=mine, kept=target.kept(mine)), best


def of_plan(plan: Plan, price: float | None) -> dict:
    """What --json prints of a plan: seconds, tokens, bytes, and its price if a chip-hour has one."""
    return {
        "layout": axes(plan.deployment, "replicas"),
        "chips": int(plan.deployment.chips),
        "batch": int(plan.load.batch),
        "users": int(plan.users),
        "first": ends(plan.load.first),
        "gap": ends(plan.load.gap) | {"parts": plan.load.gap.parts, "bound": plan.bound},
        **{name: getattr(plan, name) for name in ("speed", "rate", "throughput", "memory")},
        "price": None if price is None else dict(zip(("in", "out"), plan.price(price))),
    }


def axes(deployment: Deployment, *more: str) -> dict[str, int]:
    """Those of more than one chip, or of more than one of what else is named; and overlap where it is so."""
    names = "tp", "dp", "ep", "pp", *more
    many = {name: int(n) for name in names if (n := getattr(deployment, name)) != 1}
    return many | ({"overlap": True} if deployment.overlap else {})


def ends(estimate: Estimate) -> dict[str, float]:
    """An estimate with the ends of its interval."""
    return {"low": estimate.low, "mid": estimate.mid, "high": estimate.high}


def of_disaggregated(answer: Disaggregated) -> dict:
    """What --json prints of disaggregated serving."""
    return {
        "prefill": {
            "servers": answer.servers[0],
            "layout": axes(answer.prefill.deployment),
            "prompts": answer.at_once,
            "read": answer.read,
        },
        "decode": {"servers": answer.servers[1], "layout": axes(answer.decode.deployment), "batch": answer.batch},
        "chips": answer.chips,
        "first": ends(answer.first),
        "gap": ends(answer.gap),
        **{name: getattr(answer, name) for name in ("speed", "rate", "throughput", "sent")},
    }


def disaggregated_words(apart: Disaggregated, answer: Answer) -> str:
    """The best that disaggregated serving gives, beside the plan."""
    prefill, decode = apart.servers
    return (
        f"  disaggregated: prompts on {prefill} x [{apart.prefill.deployment}] which read {apart.at_once:,} at a time, {apart.read:,.0f} "
        f"tokens/s a chip,\n  for {decode} x [{apart.decode.deployment}] of {apart.batch:,} requests: "
        f"{apart.throughput / answer.best.throughput:.2f} times as many tokens/s, {apart.speed:.0f} for each user,\n"
        f"  first after {show.seconds(apart.first.mid)}, {show.bytes(apart.sent)} over the network for each prompt\n"
    )


def compared(typed_plan: Plan, best_plan: Plan) -> str:
    """A typed layout beside the best one: by how much, and which parts of a gap make most of it."""
    mine, its = typed_plan.load.gap.parts, best_plan.load.gap.parts
    if typed_plan.throughput >= best_plan.throughput:
        return "  No layout here serves more.\n"
    most = sorted(mine, key=lambda part: -abs(mine[part] - its[part]))[:2]
    parts = ", ".join(f"{WORDS[m]} {show.seconds(its[m])} for {show.seconds(mine[m])}" for m in most)
    return (
        f"  best: {best_plan.deployment} with {best_plan.load.batch:,.0f} requests at once serves "
        f"{best_plan.throughput / typed_plan.throughput:.2f} times as many tokens/s, "
        f"{best_plan.speed:.0f} for each user,\n  because of a gap's {parts}\n"
    )


def account(answer: Answer, target: Target, price: float | None, was_searched: bool = True) -> str:
    """The plan, what it keeps and what not, its seconds with what they are, memory and price."""
    p = answer.best
    gap, first, parts = p.load.gap, p.load.first, p.load.gap.parts
    most = sorted(parts, key=lambda part: -parts[part])[:3]
    replicas = f" in each of {p.deployment.replicas:,} replicas" if p.deployment.replicas > 1 else ""
    lines = [
        f"{p.deployment}: {p.deployment.chips:,} chip{'s' * (p.deployment.chips > 1)}, {p.load.batch:,.0f} requests at once{replicas}"
    ]
    if not answer.kept:
        has = {"speed": p.speed, "first": show.seconds(first.mid), "users": p.users, "rate": p.rate}
        missed = ", ".join(MISSED[n].format(**has) for n in target.missed(p))
        lines.insert(
            0, f"No deployment keeps the target; the nearest gives {missed}:" if was_searched else f"It gives {missed}:"
        )
    between = [f"[{show.seconds(e.low)}, {show.seconds(e.high)}]" for e in (gap, first)]
    lines += [
        f"  {'estimate':9}{show.seconds(gap.mid):>9} between tokens, {between[0]}: {p.speed:.0f} tokens/s for each user",
        f"  {'estimate':9}{show.seconds(first.mid):>9} to the first token, {between[1]}",
        f"  {'':9}{'':9} of a gap " + ", ".join(f"{show.seconds(parts[m])} {WORDS[m]}" for m in most),
        f"  {'estimate':9}{p.rate:9.2f} requests/s of {p.users:,.0f} users, {p.throughput:,.0f} tokens/s of answers",
        f"  {'count':9}{show.bytes(sum(p.memory.values())):>9} a chip: "
        + ", ".join(f"{show.bytes(x)} {role}" for role, x in p.memory.items()),
    ]
    if p.deployment.tp > p.server.config.K and not p.server.config.mla and not p.deployment.spread:
        lines.append(
            f"  {'':9}{'':9} K={p.server.config.K} KV heads are fewer than tp={p.deployment.tp}: each is copied"
        )
    if price is not None:
        lines.append("  {:9}{:9.2f} for a million tokens in, {:.2f} out".format("estimate", *p.price(price)))
    return "\n".join(lines)


def table(answer: Answer) -> str:
    """Some plans of the frontier: the fastest for each user, the one that serves most, and those between."""
    plans, last = answer.frontier, len(answer.frontier) - 1
    shown = [plans[round(i * last / (LISTED - 1))] for i in range(LISTED)] if last >= LISTED else plans
    lines = [
        f"\n{'':3}{'a user':>9}{'all':>12}{'first':>10}{'batch':>7}  on as many chips, none serves more at that speed"
    ]
    for p in shown:
        mark = "*" if p == answer.best else ""
        lines.append(
            f"{mark:3}{p.speed:7.0f}/s{p.throughput:10,.0f}/s{show.seconds(p.load.first.mid):>10}{p.load.batch:7,.0f}  {p.deployment}"
        )
    return "\n".join(lines)
