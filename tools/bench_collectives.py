"""`python -m tools.bench_collectives`: bus bandwidths that `helpers.costs.racks` predicts, against published ones, by source.

Each source is left out of the fit and predicted; --fit fits the constants to all rows and prints them.
"""

import argparse
import datetime
import importlib.metadata
import json
import math
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict, fields, replace

from helpers.costs.racks.measured_collectives import REACHED, Reached, bus_bandwidth, exchange
from helpers.costs.rooflines.chips import chip
from tests.scratch import ROOT
from tools.accelerator import machine

DATA, STORE = ROOT / "book/data/collectives.json", ROOT / "book/results/collectives.json"
SHARES = [f.name for f in fields(Reached) if 1e-3 < f.default < 1 and f.name != "own"]
GUESS = Reached(  # 80 % of links and 48 of 50 GB/s of a card are what NCCL's maintainers name; orders of magnitude of the rest
    **dict.fromkeys(SHARES, 0.8) | {"network": 0.96},
    launch=1e-5,
    waits=1e-5,
    deepep=1e-5,
    latency=1e-6,
    latency_dcn=1e-5,
    piece=1e-7,
    round_dcn=1e-4,
    own=0.5,
    block=2**21,
)
SPREAD = {"network": 0.1}  # logs: one standard deviation of a guess; of other shares 0.2, of seconds 1
ERROR = 0.08  # log error of a row: one standard deviation
LARGE = 1.5  # standard deviations from which on errors count nearly in proportion and not squared
SIZES = 2**20  # bytes below which launches decide, which differ from program to program: shown, and left out of the fit


def rows() -> list[dict]:
    """All measured collectives."""
    return json.loads(DATA.read_text(encoding="utf-8"))["rows"]


def expert(row: dict) -> bool:
    """Whether a row is of expert parallelism."""
    return row["kind"] in ("dispatch", "combine")


def predicted(row: dict, k: Reached = REACHED) -> float:
    """Bytes/s as the row's own tool prints them."""
    c = chip(row["chip"])
    if "card" in row:
        c = replace(c, dcn_bandwidth=1e9 * row["card"])
    if expert(row):
        low = row["algorithm"] == "low latency"
        seconds, sent = exchange(row["tokens"], row["D"], row["k"], c, row["domains"], row["kind"], low, reached=k)
        return sent / seconds
    at = row["kind"], row["size"], c, row["chips"], row["domains"], row["algorithm"], row["tool"]
    return bus_bandwidth(*at, k)


def measured(row: dict) -> float:
    """The same, measured."""
    return 1e9 * row["bandwidth" if expert(row) else "busbw"]


def large(row: dict) -> bool:
    """Whether bandwidth says something of a row."""
    return expert(row) or row["size"] >= SIZES


def fit(rows: list[dict]) -> Reached:
    """Constants that make log errors small, each source weighing alike, and none far from the guess; sought from the stored ones."""
    from scipy.optimize import least_squares

    names = list(asdict(GUESS))
    weigh = {s: 1 / sum(r["source"] == s for r in rows) for s in {r["source"] for r in rows}}
    mean = len(rows) / len(weigh)

    def at(x):
        return replace(GUESS, **{n: getattr(GUESS, n) * math.exp(v) for n, v in zip(names, x)})

    def errors(x):
        k = at(x)
        seen = [math.log(predicted(r, k) / measured(r)) / ERROR * (weigh[r["source"]] * mean) ** 0.5 for r in rows]
        return [*seen, *(v / SPREAD.get(n, 0.2 if n in SHARES else 1.0) for n, v in zip(names, x))]

    start = [math.log(getattr(REACHED, n) / getattr(GUESS, n)) for n in names]
    return at(least_squares(errors, start, loss="soft_l1", f_scale=LARGE, xtol=1e-5, ftol=1e-5).x)


def off(row: dict, k: Reached) -> float:
    """|predicted / measured - 1|."""
    return abs(predicted(row, k) / measured(row) - 1)


def table(sources: Iterable[str] = ()) -> tuple[dict[str, dict[str, float]], list[float]]:
    """By source, of all unless some are given: rows, and median errors of the constants as they are, and of those fitted without
    this source; and of each row of `large` size what the constants that have not seen its source predict over what was measured."""
    every, out, ratios = [r for r in rows() if large(r)], {}, []
    for source in sources or dict.fromkeys(r["source"] for r in every):
        mine, others = ([r for r in every if (r["source"] == source) is same] for same in (True, False))
        k = fit(others)
        ratios += [predicted(r, k) / measured(r) for r in mine]
        out[source] = {
            "rows": len(mine),
            "median": statistics.median(off(r, REACHED) for r in mine),
            "left out": statistics.median(off(r, k) for r in mine),
        }
    return out, ratios


def store(scores: dict[str, dict[str, float]], ratios: list[float]) -> None:
    """What the table shows, as data."""
    body = {
        "command": "python -m tools.bench_collectives --store",
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {"python": platform.python_version(), "scipy": importlib.metadata.version("scipy")},
        "constants": asdict(REACHED),
        "sources": {s: {n: v if n == "rows" else float(f"{v:.4g}") for n, v in x.items()} for s, x in scores.items()},
        "within 15 percent, sources left out": round(sum(abs(x - 1) <= 0.15 for x in ratios) / len(ratios), 3),
    }
    STORE.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Print the table, or the fitted constants."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--fit", action="store_true", help="fit the constants to all rows and print them")
    p.add_argument("--store", action="store_true", help=f"write {STORE.relative_to(ROOT)}")
    p.add_argument("--rows", action="store_true", help="print every row")
    args = p.parse_args()
    if args.fit:
        for name, value in asdict(fit([r for r in rows() if large(r)])).items():
            print(f"    {name}: float = {value:.3g}")
        return
    if args.rows:
        for r in rows():
            what = r.get("size", r.get("tokens"))
            print(
                f"{r['source']:15} {r['chip']:7} {r['chips']:4} {r['kind']:13} {r['algorithm']:12} {what:12} "
                f"{measured(r) / 1e9:7.1f} {predicted(r) / 1e9:7.1f} {predicted(r) / measured(r) - 1:+6.0%}"
            )
    print(f"{'source':16}{'rows':>5}{'median':>8}{'left out':>10}")
    found, ratios = table()
    for source, x in found.items():
        print(f"{source:16}{x['rows']:5}{x['median']:8.1%}{x['left out']:10.1%}")
    small = [off(r, REACHED) for r in rows() if not large(r)]
    print(f"{'median of these':16}{'':5}{statistics.median(x['median'] for x in found.values()):8.1%}", end="")
    print(f"{statistics.median(x['left out'] for x in found.values()):10.1%}")
    print(
        f"{sum(abs(x - 1) <= 0.15 for x in ratios) / len(ratios):.0%} of {len(ratios)} rows within 15 %, their source left out"
    )
    print(f"below 1 MiB, in no fit: {len(small)} rows, median {statistics.median(small):.1%}")
    if args.store:
        store(found, ratios)


if __name__ == "__main__":
    main()
