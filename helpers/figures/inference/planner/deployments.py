"""What a deployment takes, traced for the planner's page: `serving_estimate.loaded` of numbers alone.

A type of weights is what its products make of it, an engine its constants and a chip its speeds, so one function serves all that have
one structure of model and one kind of chip. `planner.js` calls it for every deployment and batch.
"""

from dataclasses import dataclass, fields
from functools import cache
from itertools import islice

from helpers.costs.inference.serving_constants import CONSTANTS, ENGINES, Engine
from helpers.costs.inference.serving_estimate import PARTS, ROWS, Server, Stored, loaded
from helpers.costs.inference.serving_operations import BITS, Batch, Deployment, operations
from helpers.costs.inference.serving_plan import Plan
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import model
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build
from helpers.live.stages import renamed, staged

GAP = (*PARTS, "prompts")
FIRST = ("own", "others", "no room", "host")
SOON = ("gap", "first", "request", "most")  # what a ranking looks at
NAMES = (
    *SOON, *(f"g{n}" for n in range(len(GAP))), *(f"f{n}" for n in range(len(FIRST))),
    "floor", "m_weights", "m_caches", "m_reserve", "kv", "hours_in", "hours_out",
)  # fmt: skip
KNOWN = tuple(f.name for f in fields(Engine) if f.name != "measured")
WIDE = ("experts", "shared", "mlp")  # roles that are stored in four bits, too


def floor(s: Server, B, S):
    """Seconds of a step at the data sheet's bytes/s: weights that its tokens meet and caches are read, and nothing else takes time.

    >>> s = Server(model("llama-3-8b"), chip("H100"), Deployment(), ENGINES["vllm"])
    >>> f"{1e3 * floor(s, 1, 4096):.1f} ms"
    '4.6 ms'
    """
    b = Batch(B / (s.deployment.dp * s.deployment.pp), S)
    ops = operations(s.config, s.deployment, b, b.decode)
    products = [(n.count, p) for n in ops.layers for p in n.products] + [(1, ops.head)]
    weights = sum(count * p.weights * s.stored(p.role).bits / 8 for count, p in products)
    caches = sum(n.count * (n.reading.cached * s.cached + 8 * n.reading.state) for n in ops.layers)
    return (weights + caches) / s.chip.hbm_bandwidth


def row(s: Server, prompt, answer, B) -> dict:
    """All numbers of a replica with B requests at once."""
    at = loaded(s, prompt, answer, B * s.deployment.replicas)
    return of(Plan(s, prompt, answer, at))


def of(p: Plan) -> dict:
    """The same of a plan."""
    s, at, S = p.server, p.load, p.prompt + p.answer
    into, out = p.price(1.0)
    return {
        "gap": at.gap.mid, "first": at.first.mid, "request": at.request, "most": s.most(S),
        **{f"g{n}": at.gap.parts[part] for n, part in enumerate(GAP)},
        **{f"f{n}": at.first.parts[part] for n, part in enumerate(FIRST)},
        "floor": floor(s, at.batch, p.prompt + p.answer / 2),
        "m_weights": s.held, "m_caches": p.memory["caches"], "m_reserve": s.reserve, "kv": s.cache(S),
        "hours_in": into, "hours_out": out,
    }  # fmt: skip


@dataclass(frozen=True)
class Typed(Server):
    """A server whose types are numbers.

    wide, rest  how weights of WIDE are stored, and all others but the unembedding's
    each        bytes of a cached number
    """

    wide: Stored | None = None
    rest: Stored | None = None
    each: float = 2.0

    def stored(self, role: str) -> Stored:
        if role == "unembedding":
            return Stored(BITS["bf16"], 1.0, ROWS["bf16"], 0, 0)
        return self.wide if role in WIDE else self.rest

    @property
    def cached(self):
        return self.each


@dataclass(frozen=True)
class Hopping(Chip):
    """A chip whose hop is a number that JAX traces."""

    step: float = 0.0

    @property
    def hop(self):
        return self.step


def speeds(chip: Chip) -> tuple[float, ...]:
    """What a deployment knows of a chip."""
    rates = chip.rate(), chip.hbm_bandwidth, chip.hbm_bytes, chip.link_bandwidth, chip.dcn_bandwidth
    return (*rates, chip.hop, chip.axes, chip.pod[0], chip.neighbours, chip.attains, chip.streams)


def engine(e: Engine) -> tuple[float, ...]:
    """The numbers of KNOWN."""
    return tuple(getattr(e, name) for name in KNOWN)


def stored(chip: Chip, weights: str) -> tuple[float, ...]:
    """What a chip makes of weights of a type, as numbers.

    >>> stored(chip("B200"), "int4")
    (4.125, 1.0, 2, 0, 7)
    """
    s = Server(model("llama-3-8b"), chip, Deployment(weights=weights), ENGINES["unknown"])
    return tuple(vars(s.stored("mlp")).values())


WEIGHTS = len(fields(Stored))
COUNTS = len(SIZES), len(speeds(chip("H100"))), len(KNOWN), WEIGHTS, WEIGHTS, 1, 2, 5, 1
"""Numbers that `_row` takes: sizes; speeds; an engine; weights of WIDE, the others; a cached number; prompt, answer; `Deployment`s; B."""


def _row(structure: Config, torus: bool, *x) -> tuple:
    """`row` of numbers, in the order of NAMES."""
    x = iter(x)
    sizes, known, of_engine, wide, rest, (each,), (prompt, answer), cuts, (B,) = (list(islice(x, n)) for n in COUNTS)
    C, through, hbm, W, dcn, hop, axes, domain, neighbours, attains, streams = known
    on = Hopping(**vars(chip("v5p" if torus else "H100")) | {
        "flops": {"bf16": C}, "hbm_bandwidth": through, "hbm_bytes": hbm, "link_bandwidth": W, "dcn_bandwidth": dcn,
        "axes": axes, "pod": (domain,), "neighbours": neighbours, "step": hop,
        "attains": attains, "streams": streams,
    })  # fmt: skip
    deployment, served_by = Deployment(*cuts[:4], overlap=cuts[4]), Engine(**dict(zip(KNOWN, of_engine)))
    s = Typed(build(structure, *sizes), on, deployment, served_by, CONSTANTS, Stored(*wide), Stored(*rest), each)
    found = row(s, prompt, answer, B)
    return tuple(found[name] for name in NAMES)


@cache
def functions(structures: tuple[Config, ...]) -> tuple[list[str], list]:
    """Every text of JavaScript once, and for each structure its places in them: the two stages on a torus, and on other chips."""
    texts, at = [], []
    for like in structures:
        rows = [[8.0] * sum(COUNTS[:-2]), *([8.0] * n for n in COUNTS[-2:])]
        pairs = [staged(lambda *x: _row(like, t, *x), *rows, brief=len(SOON)) for t in (True, False)]  # noqa: B023
        texts += dict.fromkeys(text for pair in pairs for text in pair if text not in texts)
        at.append([[texts.index(text) for text in pair] for pair in pairs])
    return renamed(texts), at
