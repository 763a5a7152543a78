"""What the planner says of deployments: whether they keep what is asked, where they lie, and what else there is to know."""

from collections.abc import Mapping

from helpers.costs.inference.serving_constants import Engine
from helpers.costs.inference.serving_estimate import MEASURED, arithmetic
from helpers.costs.inference.serving_operations import BITS, FOUR, Deployment
from helpers.costs.inference.serving_plan import MOST, Target
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config
from helpers.live.words import reading

from .deployments import FIRST, GAP
from .serving import Asked, Found, Ranked, least
from .words import FIRSTS, GAPS, SERVING

FIELDS = {"speed": "speed", "first": "wait", "users": "users", "rate": "asks"}  # of a target, by the name of its field


def asked(numbers: Mapping[str, float]) -> Asked:
    """What the fields say; what is empty is not a number."""
    given = {name: numbers[field] for name, field in FIELDS.items() if numbers[field] == numbers[field]}
    chips = int(numbers["chips"]) if numbers["chips"] == numbers["chips"] else None
    return Asked(int(numbers["prompt"]), int(numbers["answer"]), chips, Target(**given))


def refused(chip: Chip, words: Mapping[str, str]) -> str:
    """Why caches cannot be of the type that is asked; "" if they can."""
    cache = words["cache"]
    if cache in ("bf16", "int8") or arithmetic(chip, cache) != "bf16":
        return ""
    return SERVING["arithmetic"].format(**words)


def no_room(c: Config, chip: Chip, ask: Asked, engine: Engine, deployment: Deployment, words: Mapping[str, str]) -> str:
    """Why nothing fits, and what would."""
    n, enough = ask.chips or MOST, least(c, chip.name, ask, engine, deployment)
    narrower = next((w for w in ("fp8", *FOUR) if BITS[w] < BITS[deployment.weights]), None)
    end = "more" if enough else "narrower" if narrower else "larger"
    by = {"S": f"{ask.prompt + ask.answer:,}", "n": f"{n:,}", "least": f"{enough or 0:,}", "narrower": narrower}
    return (SERVING["room"] + SERVING[end]).format(**words | by)


def said(search: Found, picked: int, ask: Asked, words: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str]:
    """What the sentence says of the picked deployment, beside its numbers."""
    row, best, n = search.rows[picked], search.rows[0], search.chips
    used = row.plan.deployment.chips
    on = "on" if used < n else "fewest" if ask.chips is None and best.fits else "all"
    keeping = sum(r.fits for r in search.rows)
    refused = "picked" if picked or best.fits else "nowhere" if ask.chips is None else "nearest"
    free = not any(x is not None for x in vars(ask.target).values())
    by = (
        words
        | shown
        | {"n": f"{n:,}", "used": f"{used:,}", "keeping": f"{keeping:,}", "count": f"{len(search.rows):,}"}
    )
    numbers = row.plan.load
    return {
        "on": SERVING[on].format(**by),
        "kept": SERVING["free" if free else "kept"].format(**by),
        "refused": SERVING[refused],
        "lacks": lacks(row, words, shown),
        "bound": GAPS[max(GAP, key=numbers.gap.parts.__getitem__)],
        "bound_first": FIRSTS[max(FIRST, key=numbers.first.parts.__getitem__)],
    }


def would(fewest: Found | None, words: Mapping[str, str]) -> str:
    """What is said of other numbers of chips, where those at hand keep too little."""
    if fewest is None or not fewest.rows[0].fits:
        return SERVING["never"]
    return SERVING["would"].format(**words | {"least": f"{fewest.chips:,}"})


def lacks(row: Ranked, words: Mapping[str, str], shown: Mapping[str, str]) -> str:
    """What is not kept, each with what is asked."""
    return "; ".join(
        SERVING[n].format(have=shown[n].removesuffix(" tokens/s"), want=words[FIELDS[n]].strip()) for n in row.missed
    )


def note(chip: Chip, label: str) -> str:
    """What is said of a chip of which no load was measured."""
    return "" if chip.name in MEASURED else SERVING["unmeasured"].format(chip=label)


def rates(row: Ranked) -> dict[str, str]:
    """Tokens/s between which a user's should lie."""
    gap = row.plan.load.gap
    return {"slow": reading(1 / gap.high), "fast": reading(1 / gap.low, "tokens/s")}
