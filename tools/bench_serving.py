"""`python -m tools.bench_serving`: the estimate of serving against published measurements, by source.

Each source, engine, chip and model is left out of the fit and predicted; --fit fits the constants to all rows and prints them.
"""

import argparse
import datetime
import importlib.metadata
import json
import math
import platform
import statistics
import sys
from dataclasses import asdict, dataclass, replace

from helpers.arguments import unchecked
from helpers.costs.inference.serving_constants import CONSTANTS, ENGINES, GRAPHS, LOOP_GUESS, Constants, Engine, unknown
from helpers.costs.inference.serving_estimate import Server, loaded, tokens_per_second
from helpers.costs.inference.serving_operations import Batch, Deployment
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.public_models import MODELS, model
from tests.scratch import ROOT
from tools.accelerator import machine
from tools.bench_estimate import config, percentile

DATA, STORE = ROOT / "book/data/serving.json", ROOT / "book/results/serving.json"
FREE = {  # constant: log of how far from the guess counts as one standard deviation; of an engine's below
    "memory": 0.03, "torus": 0.03, "cached": 0.1, "bf16": 0.08, "gain": 0.2, "product": 0.3, "quantise": 0.5, "experts": 0.3,
    "grouped": 0.3, "attention": 0.25, "indexer": 0.5, "keys": 0.3, "prompt": 0.15, "others": 0.4, "sums": 0.3,
    "exchange": 0.5, "link": 0.1, "power": 0.2, "group": 0.3,
}  # fmt: skip
KERNELS = {  # what kernels measured alone reach: the guess
    "memory": 0.85, "torus": 0.93, "cached": 0.8, "bf16": 0.75, "gain": 0.6, "product": 5e-6, "quantise": 2e-6, "experts": 6e-6,
    "grouped": 0.2, "attention": 1.2e-5, "indexer": 6e-5, "keys": 0.4, "prompt": 0.6, "others": 8e-6, "sums": 8e-6,
    "exchange": 1.5e-5, "link": 0.6, "power": 0.9, "group": 2.0,
}  # fmt: skip
ADDS = {"host": 1.0, "sequence": 1.0, "launch": 0.25, "moe": 0.25, "seen": 0.2, "first": 0.7, "queue": 0.7}
LOOP = ("seen", "first", "queue")  # what only a closed loop shows
COMPILED = {"launch": 0.7, "moe": 0.7, "links": 0.7}  # an engine without launches may be far from the guess
GUESS = Engine(5e-4, 1.5e-5, 1.0, 1.0, **LOOP_GUESS)
OWN = {
    "trtllm": replace(GUESS, admits=1.0, of_rest=1.0, whole=1.0),  # defaults that are documented, and not fitted
    "jax": Engine(1e-4, 1e-6, 0.1, 3.0, 0.7),
    "tensorrt": replace(GUESS, admits=1.0, of_rest=1.0, whole=1.0),
    "fastertransformer": replace(GUESS, launch=2.5),
    "sglang": replace(GUESS, prompts_first=True),
}
WAYS = "tp", "dp", "ep", "pp", "replicas", "waits"
ERROR = {"first": 0.45}  # log errors: one standard deviation; of all others 0.12
LARGE = 1.5  # standard deviations from which on errors count in proportion and not squared
ENOUGH = 25  # rows of one engine, chip and model from which on they weigh no more


@dataclass(frozen=True)
class Row:
    """One measured load: what the estimate is told, and what was measured (`what`, in seconds or tokens/s)."""

    name: str
    source: str
    model: str
    server: Server
    engine: str
    kind: str
    prompt: float
    answer: float
    users: float
    what: dict
    missing: tuple[str, ...] = ()
    alike: bool = False

    @property
    def mixture(self) -> bool:
        return self.server.config.moe is not None


def _config(name: str, models: dict) -> Config:
    return model(name) if name in MODELS else config(name, models[name])


def rows() -> list[Row]:
    """All measured loads."""
    data, out = json.loads(DATA.read_text(encoding="utf-8")), []
    for r in data["rows"]:
        s = Server(_config(r["model"], data["models"]), chip(r["chip"]), Deployment(**r["at"]), ENGINES[r["engine"]])
        kind = "loop" if "gap" in r["measured"] else next(iter(r["measured"]))
        users = 1e6 if r["users"] is None else r["users"]
        numbers = float(r["prompt"]), float(r["answer"]), float(users)
        more = r["measured"], tuple(r.get("missing", ())), r.get("alike", False)
        out.append(Row(r["id"], r["source"], r["model"], s, r["engine"], kind, *numbers, *more))
    return out


def predicted(s: Server, kind: str, prompt, answer, users, alike: bool = False) -> dict:
    """What a server is estimated to do of what was measured."""
    if kind in ("loop", "throughput"):
        at = loaded(s, prompt, answer, users, alike)
        if kind == "throughput":
            return {kind: tokens_per_second(s, prompt, answer, users)}
        return {"first": at.first.mid, "gap": at.gap.mid}
    if kind == "prefilled":  # pieces of 8,192 tokens, of which 56.3 % are in caches
        share, piece = 1 - 0.563, 8192
        b = Batch(0.0, 0.0, piece, piece / (share * prompt), (1 - share) * prompt)
        return {"prefilled": 8 * piece / sum(s.seconds(b).values())}
    group = users / s.deployment.dp
    prefill = sum(s.seconds(Batch(0.0, 0.0, group * prompt, group)).values())
    if kind == "prefill":
        return {kind: prefill}
    if kind == "step":
        return {kind: sum(s.seconds(Batch(group, prompt)).values())}
    turns = sum(s.seconds(Batch(group, prompt + answer / 2)).values())  # of one of pp parts of the batch at a time
    return {kind: prefill + (answer - 1) * turns}


def stacked(rows: list[Row]) -> list[tuple[list[int], Row, tuple]]:
    """Rows that differ in numbers alone: where they stand, one of them with all their deployments, and the numbers as arrays."""
    import numpy as np

    groups: dict = {}
    for i, r in enumerate(rows):
        d = r.server.deployment
        key = (
            r.kind,
            r.alike,
            r.engine,
            r.server.config,
            r.server.chip.name,
            replace(d, **dict.fromkeys(WAYS, 1)),
            d.dp > 1,
            d.pp > 1,
        )
        groups.setdefault(key, []).append(i)

    def column(records, name):
        return np.array([float(getattr(x, name)) for x in records])

    out = []
    for places in groups.values():
        some = [rows[i] for i in places]
        ways = {n: column([r.server.deployment for r in some], n) for n in WAYS}
        server = replace(some[0].server, deployment=replace(some[0].server.deployment, **ways))
        numbers = tuple(column(some, n) for n in ("prompt", "answer", "users"))
        out.append((places, replace(some[0], server=server), numbers))
    return out


def free(rows: list[Row]) -> list[tuple[str, str, float, float]]:
    """(engine or "", constant, guess, standard deviation of its log) of all that some row shows."""
    out = [("", n, KERNELS[n], sd) for n, sd in FREE.items()]
    for engine in dict.fromkeys(r.engine for r in rows if r.engine != "unknown"):
        its = [r for r in rows if r.engine == engine]
        some = ADDS | (COMPILED if engine == "jax" else {})
        loop, moe = any(r.kind == "loop" for r in its), any(r.mixture for r in its)
        keep = [n for n in some if (loop or n not in LOOP) and (moe or n != "moe")]
        out += [(engine, n, getattr(OWN.get(engine, GUESS), n), some[n]) for n in keep]
    return out


def constants(names: list[tuple], x) -> tuple[Constants, dict[str, Engine]]:
    """Constants of so many standard deviations from their guesses: numbers, or columns of several sets at once."""
    value = {(e, n): guess * math.e ** (sd * v) for (e, n, guess, sd), v in zip(names, x)}
    k = replace(CONSTANTS, **{n: v for (e, n), v in value.items() if not e})
    engines = {e: OWN.get(e, GUESS) for e in ENGINES if e != "unknown"}
    engines = {e: replace(one, **{n: v for (of, n), v in value.items() if of == e}) for e, one in engines.items()}
    return k, engines


def stand(names: list[tuple]) -> list[float]:
    """Where the course's constants stand, in standard deviations from their guesses."""
    has = lambda e, n: getattr(ENGINES[e] if e else CONSTANTS, n)  # noqa: E731
    return [math.log(has(e, n) / guess) / sd for e, n, guess, sd in names]


def fit(rows: list[Row], gain: float = 2e-4) -> tuple[Constants, dict[str, Engine]]:
    """Least squares of log errors, with priors; engines, chips and models weigh alike, and large errors count in proportion.

    The search begins at the course's constants, and ends where a step gains less than a part of `gain`.
    """
    import numpy as np
    from scipy.optimize import least_squares

    rows = [r for r in rows if r.engine != "unknown" and r.kind != "throughput"]
    names, groups, alike = free(rows), stacked(rows), {}
    for r in rows:
        key = r.engine, r.server.chip.name, r.model
        alike[key] = alike.get(key, 0) + 1
    cells = [(i, what) for i, r in enumerate(rows) for what in r.what]
    place = {cell: n for n, cell in enumerate(cells)}
    measured = np.log([rows[i].what[what] for i, what in cells])
    many = [alike[rows[i].engine, rows[i].server.chip.name, rows[i].model] for i, _ in cells]
    weight = np.minimum(1, ENOUGH / np.array(many)) ** 0.5 / [ERROR.get(what, 0.12) for _, what in cells]

    def off(u):  # of one set of constants, or of several at once: one below the other
        several = np.atleast_2d(u)
        k, engines = constants(names, several.T[:, :, None])
        e = np.zeros((len(several), len(cells)))
        with unchecked():  # tables of our own, thousands of times
            for group, r, numbers in groups:
                s = replace(r.server, engine=engines[r.engine], constants=k)
                for what, y in predicted(s, r.kind, *numbers, r.alike).items():
                    e[:, [place[i, what] for i in group]] = np.log(y)
        e = weight * (e - measured)
        soft = np.sign(e) * LARGE * np.sqrt(2 * (np.sqrt(1 + (e / LARGE) ** 2) - 1))
        return np.hstack([soft, several]).reshape(*np.shape(u)[:-1], -1)

    def slopes(u, by=1e-2):
        return (off(u + by * np.eye(len(u))) - off(u)).T / by

    got = least_squares(off, np.clip(stand(names), -7, 7), slopes, bounds=(-8, 8), ftol=gain, xtol=1e-4, max_nfev=12).x
    k, engines = constants(names, got)

    def short(constants):
        kept = "measured", "budget", "prompts_first"
        return replace(constants, **{n: x if n in kept else float(f"{x:.3g}") for n, x in vars(constants).items()})

    return short(k), {e: short(one) for e, one in engines.items()} | {"unknown": unknown(engines)}


def apart(rows: list[Row]) -> dict[str, tuple[list[Row], list[Row]]]:
    """What is left out in turn: its rows, and those that the constants are then fitted to."""
    out = {}
    for what, key in (
        ("source", lambda r: r.source if r.source != "aiconfigurator" else ""),
        ("engine", lambda r: r.engine if r.engine in GRAPHS else ""),
        ("chip", lambda r: r.server.chip.name if r.kind == "loop" else ""),
        ("model", lambda r: r.model if r.kind == "loop" else ""),
    ):
        for name in dict.fromkeys(map(key, rows)):
            if name:
                out[f"{what} {name}"] = [r for r in rows if key(r) == name], [r for r in rows if key(r) != name]
    return out


def errors(rows: list[Row], k: Constants, engines: dict[str, Engine], known: bool = True) -> list[dict]:
    """Of each row and what was measured of it: predicted over measured, and whether it lies in the interval."""
    out = []
    for r in rows:
        engine = engines[r.engine] if known and r.engine in engines else engines["unknown"]
        s = replace(r.server, engine=engine, constants=k)
        said = predicted(s, r.kind, r.prompt, r.answer, r.users, r.alike)
        for what, measured in r.what.items():
            wide = s.within({"": 1.0}, "first" if what == "first" else "gap").high
            ratio = said[what] / measured
            out.append({"row": r, "what": what, "ratio": ratio, "inside": 1 / wide <= ratio <= wide, "width": wide**2})
    return out


def score(errors: list[dict]) -> dict[str, float]:
    """Absolute errors in percent, their median and 90th percentile, and the median with its sign; the interval's coverage and width."""
    size = [100 * abs(e["ratio"] - 1) for e in errors]
    return {
        "rows": len(errors),
        "median": statistics.median(size),
        "p90": percentile(size, 0.9),
        "bias": 100 * (statistics.median(e["ratio"] for e in errors) - 1),
        "inside": statistics.mean(e["inside"] for e in errors),
        "width": statistics.median(e["width"] for e in errors),
    }


def grouped(errors: list[dict]) -> dict[str, dict]:
    """Scores by source and what was measured; of loops dense models and mixtures apart."""
    groups: dict[str, list] = {}
    for e in errors:
        kind = ", mixtures" if e["row"].mixture else ""
        groups.setdefault(f"{e['row'].source}: {e['what']}{kind}", []).append(e)
    return {name: score(es) for name, es in groups.items()}


def choices(errors: list[dict]) -> dict[str, float]:
    """Loads of which several deployments were measured on as many chips: how often the quickest was picked, or one within 5 %."""
    alike: dict = {}
    for e in errors:
        r = e["row"]
        if e["what"] == "gap":
            key = r.engine, r.model, r.server.chip.name, r.server.deployment.weights, r.prompt, r.answer, r.users
            alike.setdefault(key, {})[r.server.deployment] = (e["ratio"] * r.what["gap"], r.what["gap"])
    several = [list(x.values()) for x in alike.values() if len(x) > 1]
    lost = [min(x)[1] / min(took for _, took in x) for x in several]
    return {"loads": len(several), "right": statistics.mean(x <= 1.05 for x in lost), "worst": 100 * (max(lost) - 1)}


def table(title: str, scores: dict[str, dict]) -> str:
    lines = [f"\n{title}", f"{'':56}{'median':>8}{'p90':>8}{'bias':>8}{'inside':>8}{'width':>8}"]
    for name, s in scores.items():
        numbers = "".join(f"{s[x]:8.1f}" for x in ("median", "p90", "bias"))
        lines.append(f"{name + ' (' + str(s['rows']) + ')':56}{numbers}{s['inside']:8.0%}{s['width']:8.2f}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_serving", description=__doc__.split("\n")[0])
    parser.add_argument("--fit", action="store_true", help="fit to all rows and print the constants")
    parser.add_argument("--store", action="store_true", help=f"write {STORE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    found = rows()
    if options.fit:
        k, engines = fit(found)
        print(k, *(f"{e}: {one}" for e, one in engines.items()), sep="\n")
        return 0
    inside, cases = errors(found, CONSTANTS, ENGINES), {}
    for name, (out, kept) in apart(found).items():
        what = name.split()[0]
        some = errors(out, *fit(kept, 2e-3), known=what != "engine")
        print(table(name, grouped(some)), flush=True)
        cases.setdefault(f"{what} left out", []).extend(some)
    tables = {name: grouped(some) for name, some in ({"in sample": inside} | cases).items()}
    for name, scores in tables.items():
        print(table(name, scores))
    picked = choices(inside)
    print(
        f"{picked['loads']} loads with several deployments: {picked['right']:.0%} picked right, {picked['worst']:.0f} % lost at worst"
    )
    if options.store:
        store(found, inside, cases, {"cases": tables, "choices": picked})
    return 0


def store(rows: list[Row], inside: list[dict], cases: dict[str, list[dict]], body: dict) -> None:
    """All scores, and predicted over measured of each row."""
    each: dict[str, dict] = {r.name: {} for r in rows}
    for case, some in ({"in sample": inside} | cases).items():
        for e in some:
            each[e["row"].name].setdefault(e["what"], {})[case] = float(f"{e['ratio']:.4g}")
    head = {"command": "python -m tools.bench_serving --store", "date": datetime.date.today().isoformat()}
    versions = {"python": platform.python_version(), "scipy": importlib.metadata.version("scipy")}
    head |= {"machine": machine(), "versions": versions}
    head |= {"constants": asdict(CONSTANTS), "engines": {e: asdict(x) for e, x in ENGINES.items()}}
    text = json.dumps(head | body, indent=1)[:-2]
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in each.items())
    STORE.write_text(f'{text},\n "rows": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
