"""What a deployment takes, traced for the planner's page: `serving_estimate.loaded` of numbers alone.

A type of weights is what its products make of it, an engine its constants and a chip its speeds, so one function serves all that have
one structure of model and one kind of chip. `planner.js` calls it for every deployment and batch.
"""

from dataclasses import replace
from functools import cache

from helpers.costs.inference.serving_constants import CONSTANTS, Engine
from helpers.costs.inference.serving_estimate import PARTS, Server, Stored, loaded
from helpers.costs.inference.serving_operations import Batch, Deployment, operations
from helpers.costs.inference.serving_plan import Plan
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.step_estimate_constants import GENERATIONS
from helpers.costs.transformers.config import Config
from helpers.figures.training.layout_search.candidates import Traced
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, build
from helpers.live.renaming import renamed
from helpers.live.stages import staged

GAP = (*PARTS, "prompts")
FIRST = ("own", "others", "no room", "host")
SOON = ("gap", "first", "request", "most")  # what a ranking looks at
NAMES = (
    *SOON, *(f"g{n}" for n in range(len(GAP))), *(f"f{n}" for n in range(len(FIRST))),
    "floor", "m_weights", "m_caches", "kv", "hours_in", "hours_out",
)  # fmt: skip
KNOWN = ("host", "each", "launch", "moe", "links", "seen", "first", "queue", "budget")  # of an engine
WIDE = ("experts", "shared", "mlp")  # roles that are stored in four bits, too


def floor(s: Server, B, S):
    """Seconds of a step at the data sheet's bytes/s: weights that its tokens meet and caches are read, and nothing else takes time.

    >>> from helpers.costs.transformers.public_models import model
    >>> from helpers.costs.inference.serving_constants import ENGINES
    >>> s = Server(model("llama-3-8b"), chip("H100"), Deployment(), ENGINES["vllm"])
    >>> f"{1e3 * floor(s, 1, 4096):.1f} ms"
    '4.6 ms'
    """
    b = Batch(B / (s.at.dp * s.at.pp), S)
    ops = operations(s.config, s.at, b, b.decode)
    products = [(n.count, p) for n in ops.layers for p in n.products] + [(1, ops.head)]
    weights = sum(count * p.weights * s.stored(p.role).bits / 8 for count, p in products)
    caches = sum(n.count * (n.reading.cached * s.cached + 8 * n.reading.state) for n in ops.layers)
    return (weights + caches) / s.chip.hbm_bandwidth


def row(s: Server, prompt, answer, B) -> dict:
    """All numbers of a replica with B requests at once."""
    at = loaded(s, prompt, answer, B * s.at.replicas)
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
        "m_weights": s.held, "m_caches": p.memory["caches"], "kv": s.cache(S), "hours_in": into, "hours_out": out,
    }  # fmt: skip


class Typed(Server):
    """A server whose types are numbers: a `Stored` of WIDE, one of all others, and the bytes of a cached number."""

    types: tuple[Stored, Stored, float]

    def stored(self, role: str) -> Stored:
        if role == "unembedding":
            return Stored(16, 1.0, 2, 0)
        return self.types[0 if role in WIDE else 1]

    @property
    def cached(self):
        return self.types[2]


def numbers(s: Server) -> list[float]:
    """What `_row` knows of a server besides the sizes of its model: its chip, its engine, its types."""
    return [*speeds(s.chip), *engine(s.engine), *stored(s, "mlp"), *stored(s, "projections"), s.cached]


def speeds(of: Chip) -> list[float]:
    """What a deployment knows of a chip; the seconds of a layer's experts are among it."""
    k = CONSTANTS
    own = k.blackwell if GENERATIONS.get(of.name) == "blackwell" else k.experts
    return [
        of.rate(),
        of.hbm_bandwidth,
        of.hbm_bytes,
        of.link_bandwidth,
        of.dcn_bandwidth,
        of.hop,
        of.axes,
        of.pod[0],
        own,
    ]


def engine(e: Engine) -> list[float]:
    return [getattr(e, name) for name in KNOWN]


def stored(s: Server, role: str) -> list[float]:
    return [float(x) for x in vars(s.stored(role)).values()]


COUNTS = len(SIZES), 9, len(KNOWN), 4, 4, 1, 2


def _row(like: Config, torus: bool, *x) -> tuple:
    """`row` of numbers: sizes; chip; engine; types; prompt, answer; then tp, dp, ep, pp; then B."""
    x, some = list(x), []
    for n in (*COUNTS, 4):
        some.append(x[:n])
        x = x[n:]
    sizes, known, of_engine, wide, rest, (cached,), (prompt, answer), (tp, dp, ep, pp) = some
    C, through, hbm, W, dcn, hop, axes, domain, own = known
    base = chip("v5p" if torus else "H100")
    on = Hopping(**vars(base) | {
        "flops": {"bf16": C}, "hbm_bandwidth": through, "hbm_bytes": hbm, "link_bandwidth": W, "dcn_bandwidth": dcn,
        "axes": axes, "pod": (domain,), "name": "",
    })  # fmt: skip
    object.__setattr__(on, "step", hop)
    k = replace(CONSTANTS, experts=own, blackwell=own)
    s = Typed(build(like, *sizes), on, Deployment(tp, dp, ep, pp), Engine(**dict(zip(KNOWN, of_engine))), k)
    object.__setattr__(s, "types", (Stored(*wide), Stored(*rest), cached))
    found = row(s, prompt, answer, x[0])
    return tuple(found[name] for name in NAMES)


class Hopping(Traced):
    """A chip whose hop is traced by JAX, too."""

    @property
    def hop(self):
        return self.step


@cache
def functions(structures: tuple[Config, ...]) -> tuple[list[str], list]:
    """Every text of JavaScript once, and for each structure its places in them: the two stages on a torus, and on other chips."""
    texts, at = [], []
    for like in structures:
        rows = [[8.0] * sum(COUNTS), [8.0] * 4, [8.0]]
        pairs = [staged(lambda *x: _row(like, t, *x), *rows, brief=len(SOON)) for t in (True, False)]  # noqa: B023
        texts += [text for pair in pairs for text in pair if text not in texts]
        at.append([[texts.index(text) for text in pair] for pair in pairs])
    return renamed(texts), at
