"""The layouts of a training step with the fewest estimated seconds, of all that fit; or what one that is named takes.

Seconds are estimates with the two ends between which three of four measured steps lie (`costs.training.step_estimate`); the floor
is what the step's products take at published rates. What a step sends is told by tiers of links: bytes of a chip, and for how
long the links are busy (`costs.racks.training_over_tiers`).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from helpers import show
from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.training_over_tiers import by_tier, is_hsdp
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.machines import LARGEST
from helpers.costs.training.layout import BF16, BY_BYTES, GRAMMAR, Layout, read, shared
from helpers.costs.training.layout_search import ALIKE, EQUAL, KEPT, Ranking, search, smallest
from helpers.costs.training.operation_seconds import KERNELS
from helpers.costs.training.partial_layout import PARTIAL, Completed, completed_layout, unfolded
from helpers.costs.training.step_estimate import utilisation
from helpers.costs.training.training_step import Step, step

from .ask import Question, question, remarks, where
from .flags import flags_words, of_training, read_flags

WRONG = {
    "unknown": "--layout is names and values such as tp=8,fsdp=64, with names of {names}, and not {part!r}",
    "twice": "--layout names {name} twice: give it once",
    "value": "{name} is {range}, not {value!r}",
}
"""What is said of a layout that cannot be read."""
KINDS = {
    "seconds.low": "estimate, three of four measured steps take longer than low and less than high",
    "seconds.mid": "estimate, of the software that is named",
    "seconds.high": "estimate",
    "seconds.floor": "floor, products at published rates",
    "mfu": "count of FLOPs over the estimate",
    "hfu": "count of FLOPs over the estimate",
    "memory": "count, in bytes",
    "tokens_per_second": "estimate",
    "days": "estimate, without failures and restarts",
    "price": "estimate, without failures and restarts",
    "tiers.bytes": "count, of one chip in a step",
    "tiers.seconds": "floor, bytes at published rates: how long the links of a tier are busy",
}
"""What kind each number of a record is."""
SENT = {
    "weights": "weights",
    "gradients": "gradients",
    "tensor": "activations of tp",
    "context": "keys and values of cp",
    "experts": "tokens of experts",
    "stages": "activations of pp",
}
"""What each of `training_over_tiers.KINDS` is called."""
ALSO = "; also fsdp={sizes}"
"""What stands behind a layout whose dp and fsdp may share the same chips otherwise."""
HSDP = "Weights are gathered inside a {inside}, and only gradients leave it: this is HSDP."
RINGS = (
    "The estimate is that of a network without oversubscription, because a ring visits all domains of a group before "
    "it crosses the spine switches; the floor above is with it."
)
ONE_GROUP = "All domains are under one set of leaf switches, where oversubscription changes nothing."


def train(options) -> str:
    """What is printed for a training step: the ranking and its first layout, or the layout that is named beside the best."""
    asked = question(options)
    c, tokens, T, s = asked.config, asked.tokens, asked.T, asked.machine.slice
    software = KERNELS[options.software]
    named, template = None, Layout(pods=asked.machine.pods, stored=BY_BYTES[options.bytes], products=options.products)
    text, unread = read_flags(options.layout, asked.machine.chips, tokens // T)
    if text:
        given = unfolded(typed(text, template.pods), s.chips if s.chip.axes else asked.machine.chips)
        done = completed_layout(c, given, tokens, T, s, template, software)
        named = step(c, done.layout, tokens, T, s, "causal", software=software)
        # The search keeps what the named layout's program can do, and looks for the rest.
        alike = "products", "optimizer", "overlaps_experts", "nodes", "fp8_swiglu", "schedule"
        template = replace(template, **{name: getattr(named.layout, name) for name in alike})
    policies = tuple(dict.fromkeys((*KEPT, named.layout.policy) if named else KEPT))
    ranking = search(c, tokens, T, s, template, policies, top=1 if named else options.top, software=software)
    if not named and not ranking.best:
        raise ValueError(nothing(asked, ranking))
    steps = (named,) if named else ranking.best
    records = [record(x, asked.cluster, options.budget, options.price) for x in steps]
    if options.json:
        records = records if named else [one | {"also": ranking.also(n)} for n, one in enumerate(records)]
        counts = {} if named else {"tried": ranking.tried, "fitting": ranking.fitting, "as_good": ranking.as_good}
        return json.dumps({"kinds": KINDS, **counts, "layouts": records}, indent=1)
    head = (
        f"{asked.name} on {asked.machine.chips:,} {s.chip.name} ({where(asked.machine)}), {tokens:,} tokens a step "
        f"in {tokens // T:,} {'sequences' if tokens > T else 'sequence'} of {T:,}.\n{remarks(c, True, bool(options.config))}"
    )
    told = account(steps[0], asked.cluster, records[0], options)
    if options.flags:
        told += "\n" + flags_words(options.flags, of_training(options.flags, steps[0].layout, tokens // T))
    if not named:
        return f"{head}{table(ranking)}\n\n{told}"
    lines = *unread, *reading(done, given, text), *compared(named, ranking)
    return f"{head}{told}\n" + "\n".join(f"  {line}" for line in lines)


def typed(text: str, pods: int) -> dict:
    """What a layout says that is typed, such as tp=8,pp=16,fsdp=4.

    >>> typed("tp=8,fsdp=4,policy=matmuls,sequence_parallel=False", 1)
    {'tp': 8, 'fsdp': 4, 'policy': 'matmuls', 'sequence_parallel': False, 'pods': 1}
    """
    given = read(text, WRONG, PARTIAL)
    if given.setdefault("pods", pods) != pods:
        raise ValueError(f"pods={given['pods']}, and these chips are {pods}: leave it out")
    return given


def reading(completed: Completed, fixed: Mapping, text: str) -> list[str]:
    """How a layout that was typed was read, what the search chose of it, and what would fit."""
    lines = []
    if fixed.get("ep", 1) != read(text, WRONG, PARTIAL).get("ep", 1):
        lines.append(
            f"Experts lie over the chips of tp and dp, as Megatron-LM counts: its ep is ep={fixed['ep']} here."
        )
    if completed.chosen:
        lines.append(f"Not typed, and chosen by search: {settings(completed.layout, completed.chosen)}.")
    if completed.nearest:
        names = [name for name in GRAMMAR if getattr(completed.nearest, name) != getattr(completed.layout, name)]
        lines.append(f"The nearest that fits has {settings(completed.nearest, names)}.")
    return lines


def settings(layout: Layout, names: Iterable[str]) -> str:
    """Some of a layout's names with what they are.

    >>> settings(Layout(tp=8, zero=1), ("tp", "zero"))
    'tp=8 zero=1'
    """
    unsaid, values = {"layers": "even", "offload": "nothing"}, ((name, getattr(layout, name)) for name in names)
    return " ".join(f"{name}={unsaid[name] if x == '' else x}" for name, x in values)


def nothing(question: Question, ranking: Ranking) -> str:
    """Why no layout fits, and how many chips would do."""
    machine, chip, sequences = question.machine, question.machine.slice.chip, question.tokens // question.T
    if not ranking.tried:
        uneven = chip.axes and sequences % machine.pods
        better = f"give a multiple of {machine.pods} sequences" if uneven else "give more tokens a step, or fewer chips"
        cut = f"no way to cut {machine.chips} {chip.name} ({where(machine)})"
        return f"{cut} leaves each group whole ones of {sequences} sequences: {better}"
    fit = smallest(
        question.config, question.tokens, question.T, chip, template=ranking.layouts, min_chips=machine.chips + 1
    )
    would = f"{fit.chips} hold it" if fit else f"no number of these chips up to {LARGEST} holds it"
    lacks = show.bytes(ranking.least - chip.hbm_bytes)
    return f"nothing fits on {machine.chips} {chip.name}: the best lacks {lacks} a chip for the step; {would}"


def record(step: Step, cluster: Cluster, budget: float, price: float | None) -> dict:
    """What --json prints of a step; seconds, bytes, tokens, days of the run, its price if a chip-hour has one, what tiers carry."""
    e, units = step.estimate, (cluster.domain.chips, cluster.domains // cluster.groups, cluster.groups)
    mfu, hfu = utilisation(step.config, step.slice.chip, step.layout, step.tokens / step.T, step.T, e.mid)
    named = ((name, getattr(step.layout, name), spelling.before) for name, spelling in GRAMMAR.items())
    return {
        "layout": {name: x for name, x, before in named if x != before},
        "seconds": {"low": e.low, "mid": e.mid, "high": e.high, "floor": step.math},
        "mfu": mfu,
        "hfu": hfu,
        "memory": vars(step.memory),
        "fits": not step.missing,
        "tight": step.tight,
        "tokens_per_second": step.tokens / e.mid,
        "days": step.days(budget, e.mid),
        "price": None if price is None else step.chip_hours(budget, e.mid) * price,
        "parts": e.parts,
        "borrows": e.borrows,
        "tiers": [
            {"name": over.name, "units": n, "bytes": over.bytes, "seconds": over.seconds}
            for over, n in zip(by_tier(step, cluster), units)
        ],
    }


def layout_words(step: Step) -> str:
    """A layout with its policy, which nobody need know by heart; of GPUs without the number of domains, over which its axes lie."""
    text = str(replace(shared(step.layout, step.slice.chip), stored=BF16))
    return text if "policy=" in text else f"{text} policy={step.layout.policy}"


def also(sizes: Iterable[int]) -> str:
    """What is said of splits of dp·fsdp that are no other design; "" if there is none."""
    return ALSO.format(sizes=", ".join(map(str, sizes))) if sizes else ""


def table(ranking: Ranking) -> str:
    """The ranking, a line for each layout."""
    same = ranking.as_good
    good = f"{same} {'design is' if same == 1 else 'designs are'} as good as the first, within {EQUAL - 1:.0%}"
    lines = [
        f"{ranking.tried:,} layouts keep the rules and {ranking.fitting:,} of them fit; {good}. "
        f"Splits of dp and fsdp within {ALIKE - 1:.0%} stand in one line.",
        f"{'':3}{'estimate':>9}  {'3 of 4 lie in':18}{'floor':>9}{'MFU':>6}{'memory':>9}  layout",
    ]
    for n, best in enumerate(ranking.best, 1):
        e = best.estimate
        between = f"[{show.seconds(e.low)}, {show.seconds(e.high)}]"
        lines.append(
            f"{n:2} {show.seconds(e.mid):>9}  {between:18}{show.seconds(best.math):>9}{best.mfu(e.mid):6.0%}"
            f"{show.bytes(best.memory.total):>9}  {layout_words(best)}{also(ranking.also(n - 1))}"
        )
    return "\n".join(lines)


def compared(typed_step: Step, ranking: Ranking) -> list[str]:
    """How a layout that was typed compares with the best that fits: in its settings, and in what takes time and bytes."""
    if not ranking.best:
        return ["Of all layouts none fits."]
    best = ranking.best[0]
    ratio, why = typed_step.estimate.mid / best.estimate.mid, ranking.rank_of(0).why(ranking.beside(typed_step))
    takes = f"which takes {show.seconds(best.estimate.mid)}: {layout_words(best)}"
    lines = [f"{ratio:.2f} times the best that {'is tight' if best.tight else 'fits'}, {takes}"]
    names = [name for name in GRAMMAR if getattr(best.layout, name) != getattr(typed_step.layout, name)]
    if names:
        more = {n: x - best.estimate.parts.get(n, 0.0) for n, x in typed_step.estimate.parts.items()}
        most = sorted((n for n in more if abs(more[n]) > 0.005 * best.estimate.mid), key=lambda n: -abs(more[n]))[:4]
        parts = ", ".join(f"{n} {'+' if more[n] > 0 else '-'}{show.seconds(abs(more[n]))}" for n in most)
        held = typed_step.memory.total - best.memory.total
        lines.append(f"It has {settings(typed_step.layout, names)} where that one has {settings(best.layout, names)}:")
        lines.append(
            f"{parts or 'no part differs by half a percent'}; {show.bytes(abs(held))} {'more' if held > 0 else 'less'} a device."
        )
    return [*lines, f"That one comes first because {why}."] if why else lines


def account(step: Step, cluster: Cluster, numbers: dict, options) -> str:
    """One step: its seconds by what takes them, its bytes by role, what the whole run takes, and what goes over which links.

    numbers  its `record`
    """
    s, chip, e = numbers["seconds"], step.slice.chip, step.estimate
    of_parameter = sum(vars(replace(step.layout.stored, activation=0)).values())
    price = "" if options.price is None else f", {numbers['price']:,.0f} at {options.price:g} a chip-hour"
    lines = [
        layout_words(step),
        f"  estimate {show.seconds(s['mid'])} a step in {options.software} software, three of four lie in [{show.seconds(s['low'])}, "
        f"{show.seconds(s['high'])}]; {numbers['tokens_per_second']:,.0f} tokens/s, "
        f"MFU {numbers['mfu']:.1%}, HFU {numbers['hfu']:.1%}",
        f"           {most_first(e.parts, show.seconds)}",
        f"  floor    {show.seconds(s['floor'])}: its products at published rates",
        f"  count    {show.bytes(step.memory.total)} of {show.bytes(chip.hbm_bytes)} on the fullest device, "
        f"with {of_parameter:g} bytes a parameter: {most_first(numbers['memory'], show.bytes)}",
        f"  estimate {numbers['days']:,.3g} days for {show.sci(options.budget)} tokens if nothing fails or restarts{price}",
        *over_tiers(step, cluster, numbers["tiers"]),
    ]
    if e.borrows:
        lines.append(
            f"  No measured step is of {chip.name}: it has the shares of peak of {e.borrows}, and a wider interval."
        )
    if chip.neighbours:
        lines.append(f"  {unswitched(chip)}")
    if step.tight:
        lines.append(
            f"  It is tight: a device lacks {show.bytes(step.missing)}, and counts and a sheet's GB are off by as much."
        )
    elif step.missing:
        lines.append(f"  It does not fit: a device lacks {show.bytes(step.missing)}.")
    return "\n".join(lines)


def most_first(numbers: Mapping[str, float], formatter: Callable[[float], str]) -> str:
    """Those above 0 with their names."""
    return ", ".join(
        f"{name} {formatter(x)}" for name, x in sorted(numbers.items(), key=lambda pair: -pair[1]) if x > 0
    )


def unswitched(chip: Chip) -> str:
    """What an estimate leaves out of chips whose domain has no switch."""
    return (
        f"Fewer than the {chip.pod[0]} of a domain reach only some of the links of each {chip.name}, "
        "which the estimate leaves out: it makes small groups too fast."
    )


def over_tiers(step: Step, cluster: Cluster, tiers: list[dict]) -> list[str]:
    """What goes over which links: a column for each tier of a record; none if nothing is sent."""
    called = tier_names(cluster)
    if not any(sum(tier["bytes"].values()) for tier in tiers):
        return []

    def line(kind: str, words: str, texts: Iterable[str]) -> str:
        return f"  {kind:9}{words:30}{''.join(f'{text:>17}' for text in texts)}"

    lines = [line("count", "a chip sends in a step, over", (called[tier["name"]] for tier in tiers))]
    for kind, words in SENT.items():
        if any(tier["bytes"][kind] for tier in tiers):
            lines.append(line("", words, (show.bytes(tier["bytes"][kind]) for tier in tiers)))
    lines.append(line("floor", "the links are busy for", (show.seconds(tier["seconds"]) for tier in tiers)))
    most = max(tiers, key=lambda tier: tier["seconds"])
    share = f"{most['seconds'] / step.estimate.mid:.0%} of the estimate"
    beside = f"{most['seconds'] / step.math:.0%} of what the products take at published rates"
    remarks = [f"The links of the {called[most['name']]} are busy longest: {share}, or {beside}."]
    if is_hsdp(step.layout, {kind: sum(tier["bytes"][kind] for tier in tiers[1:]) for kind in SENT}):
        remarks.append(HSDP.format(inside=called["domain"]))
    if cluster.oversubscription > 1:
        remarks.append(RINGS if cluster.groups > 1 else ONE_GROUP)
    return [*lines, *(f"{'':11}{sentence}" for sentence in remarks)]


def tier_names(cluster: Cluster) -> dict[str, str]:
    """What has the links of each tier.

    >>> from helpers.costs.racks.training_over_tiers import cluster_of
    >>> from .ask import room
    >>> machines = map(room, ("512xH100", "64xH100", "2048xv5e"))
    >>> [", ".join(tier_names(cluster_of(m.slice, m.pods)).values()) for m in machines]
    ['domain, leaf switches, spine switches', 'domain, network, spine switches', 'slice, network']
    """
    if cluster.chip.axes:
        return {"domain": "slice", "group": "network"}
    return {
        "domain": "domain",
        "group": "network" if cluster.groups == 1 else "leaf switches",
        "spine": "spine switches",
    }
