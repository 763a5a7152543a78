"""`python -m tools.bench_estimate`: the estimate of a training step against published measurements, beside two baselines.

Each source is left out of the fit and predicted; "in sample" has the constants that the course uses. --fit fits them and prints them;
--unseen scores them on steps that no fit may use, and no more.
"""

import argparse
import datetime
import importlib.metadata
import json
import math
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.training.layout import NUMBERS, Bytes, Layout, shared
from helpers.costs.training.operation_seconds import CONSTANTS, TUNED, Constants, Software, published
from helpers.costs.training.step_estimate import step_seconds
from helpers.costs.training.training_step import peak_memory
from helpers.costs.transformers.config import MLA, Config, MoE
from helpers.costs.transformers.parameters_and_flops import flops, parameters
from helpers.costs.transformers.public_models import model
from tests.scratch import ROOT
from tools.accelerator import machine

DATA, STORE = ROOT / "book/data/published.json", ROOT / "book/results/estimate.json"
UNSEEN = ROOT / "book/data/training_2026.json"  # no constant is fitted to these
FREE = {  # constant: (guess, least, most, how far from the guess counts as one standard deviation)
    "ampere": (0.75, 0.4, 1.0, 0.017),
    "hopper": (0.66, 0.3, 1.0, 0.017),
    "blackwell": (0.56, 0.2, 1.0, 0.017),
    "v5": (0.85, 0.4, 1.0, 0.017),
    "v6": (0.65, 0.3, 1.0, 0.017),
    "eight": (0.75, 0.1, 1.0, 0.033),
    "attention": (0.6, 0.2, 1.0, 0.017),
    "half": (1300.0, 100.0, 8000.0, 170.0),
    "memory": (0.65, 0.3, 1.0, 0.027),
    "latency": (5e-6, 0.0, 4e-5, 7e-7),
    "link": (0.7, 0.3, 1.0, 0.027),
    "tensor": (0.7, 0.0, 1.0, 0.05),
    "data": (0.1, 0.0, 1.0, 0.027),
    "usual": (1.1, 1.0, 1.6, 0.017),
    "experts": (0.006, 0.0, 0.03, 0.002),
}
ERROR, LARGE = 0.08, 0.15  # log errors: one standard deviation; from where on they count in proportion and not squared
ENOUGH = 6  # rows from which on a source weighs as much as any other


@dataclass(frozen=True)
class Row:
    """One measured step: what the estimate is told (`args`), and what it is not."""

    name: str
    source: str
    args: tuple  # Config, Chip, Layout, B, T, Software
    seconds: float
    missing: tuple[str, ...] = ()
    peak: float = 0.0  # bytes of a device, where the source gives them
    setting: str = ""  # a state of the machine that the source says not to compare with another


PEAKS = {"peak_alloc_per_chip", "max_memory_used_per_chip", "max_memory_per_chip", "max_memory_reserved_per_chip"}
UNITS = {"bytes": 1, "GB": 1e9, "GiB": 2**30}
WINDOWS = {"gpt-oss-120b": (128, 2), "gemma3-12b": (1024, 6)}  # keys that local layers see; every n-th is full


def config(name: str, m: dict) -> Config:
    sizes = {s: m[s] for s in ("D", "L", "N", "K", "H", "F", "V")}
    more, e, a = {}, m.get("moe"), m.get("mla")
    if e:
        more["moe"] = MoE(
            e["experts"], e["top_k"], e["F_expert"], e.get("shared", 0), e.get("dense_layers", 0), e.get("moe_every", 1)
        )
    if a:
        more["mla"] = MLA(a["q_lora"], a["kv_lora"], a["qk_nope"], a["qk_rope"], a["v"])
        sizes["H"] = None
    if name in WINDOWS:
        more["window"], more["full_every"] = WINDOWS[name]
    return Config(**sizes, gated=m["gated_mlp"], tied=m["tied_embeddings"], **more)


def seconds(row: dict, c: Config, chips: int) -> float:
    """The measured step, from whatever the source gives."""
    got, i = {m["metric"]: m["value"] for m in row["measured"]}, row["inputs"]
    if "step_time" in got:
        return got["step_time"]
    if "tokens_per_s_per_chip" in got:
        return i["B"] * i["T"] / (got["tokens_per_s_per_chip"] * chips)
    metric = "model_tflops_per_chip"
    causal = f"{metric}_causal" in got or row["source"] == "llama3_table4"
    f = flops(c, i["B"], i["T"], count="half" if causal else "all").train
    return f / (got.get(metric, got.get(f"{metric}_causal")) * 1e12 * chips)


def rows(path: Path | None = None) -> list[Row]:
    """All measured steps of a file: those that the constants are fitted to, if no other is named."""
    data, out = json.loads((path or DATA).read_text(encoding="utf-8")), []
    for m in data["measurements"]:
        i = m["inputs"]
        c, on = config(i["model"], data["models"][i["model"]]), chip(i["chip"])
        on = replace(on, **{n: i[n] for n in ("dcn_bandwidth", "hbm_bandwidth", "hbm_bytes") if n in i})
        on = replace(on, pod=tuple(i.get("pod", on.pod)))
        said = i["layout"] | ({"stored": Bytes(**i["layout"]["stored"])} if "stored" in i["layout"] else {})
        args = c, on, Layout(**said), i["B"], i["T"], Software(**i.get("software", {}))
        missing = tuple(m.get("missing_inputs", ()))
        peak = next((x["value"] * UNITS[x["unit"]] for x in m["measured"] if x["metric"] in PEAKS), 0.0)
        out.append(Row(m["id"], m["source"], args, seconds(m, c, m["chips"]), missing, peak, m.get("setting", "")))
    return out


def six_nd_seconds(c: Config, chip: Chip, layout: Layout, B, T, share=0.4):
    """A baseline: 6 FLOPs for each parameter that a token meets, and token, at 40 % of peak."""
    return 6.0 * parameters(c).active * B * T / (share * chip.rate("bf16") * layout.chips * layout.pods)


def half_of_peak_seconds(c: Config, chip: Chip, layout: Layout, B, T, software: Software = TUNED, share=0.5):
    """A baseline that is hard to beat: all FLOPs, those done again too, at half of peak, times the pipeline's bubble."""
    pods = shared(layout, chip).pods
    f = flops(c, B, T, count="all" if software.attention == "stored" else "half")
    again = {"everything": 0.0, "selective": 0.0, "matmuls": f.attention}.get(layout.policy, f.layers)
    bubble = (layout.pp - 1) / (layout.v * layout.microbatches)
    rate = published(chip, layout.products)
    return 1.0 * (f.train + again) / (share * rate * layout.chips * pods) * (1 + bubble)


def by_source(rows: list[Row]) -> dict[str, list[Row]]:
    return {s: [r for r in rows if r.source == s] for s in dict.fromkeys(r.source for r in rows)}


def stacked(rows: list[Row]) -> list[tuple[list[int], tuple]]:
    """Rows that differ in numbers alone, as one set of arguments whose numbers are arrays; and where they stood."""
    import numpy as np

    def words(r):
        c, chip, layout, _, _, software = r.args
        said = [getattr(layout, f.name) for f in fields(Layout) if f.name not in NUMBERS]
        return repr(
            (chip.name, chip.dcn_bandwidth, said, software, c.gated, c.tied, c.moe, c.mla, c.window, c.full_every)
        )

    def column(records, names):
        return {n: np.array([float(getattr(r, n)) for r in records]) for n in names}

    groups: dict[str, list[int]] = {}
    for at, r in enumerate(rows):
        groups.setdefault(words(r), []).append(at)
    out = []
    for group in groups.values():
        configs, chips, layouts, B, T, soft = zip(*(rows[i].args for i in group))
        c = replace(configs[0], **column(configs, "DLNKHFV"))
        layout = replace(layouts[0], **column(layouts, NUMBERS))
        out.append((group, (c, chips[0], layout, np.array(B, float), np.array(T, float), soft[0])))
    return out


def fit(rows: list[Row]) -> Constants:
    """Least squares of log errors, with priors; sources weigh alike, and large errors count in proportion."""
    import numpy as np
    from scipy.optimize import least_squares

    sizes = {s: len(rs) for s, rs in by_source(rows).items()}
    guess, least, most, scale = np.array(list(FREE.values())).T
    weight = np.array([(10 / max(sizes[r.source], ENOUGH)) ** 0.5 / ERROR for r in rows])
    measured, groups = np.log([r.seconds for r in rows]), stacked(rows)

    def off(u):  # of one set of constants, or of several at once: one below the other
        several = np.atleast_2d(u)
        x = replace(CONSTANTS, **{n: v[:, None] for n, v in zip(FREE, (guess + several * scale).T)})
        e = np.zeros((len(several), len(rows)))
        for places, args in groups:
            e[:, places] = np.log(step_seconds(*args, x).mid) - measured[places]
        soft = weight * np.sign(e) * LARGE * np.sqrt(2 * (np.sqrt(1 + (e / LARGE) ** 2) - 1))
        return np.hstack([soft, several]).reshape(*np.shape(u)[:-1], -1)

    def slopes(u, by=1e-3):
        return (off(u + by * np.eye(len(u))) - off(u)).T / by

    start = (np.array([getattr(CONSTANTS, n) for n in FREE]) - guess) / scale
    bounds = (least - guess) / scale - 1e-9, (most - guess) / scale + 1e-9
    got = least_squares(off, np.clip(start, *bounds), slopes, bounds=bounds, ftol=1e-6).x
    return replace(CONSTANTS, **{n: float(f"{v:.3g}") for n, v in zip(FREE, guess + got * scale)})


def left_out(rows: list[Row]) -> dict[str, tuple[Constants, list[Row]]]:
    """For each source: constants fitted to the others, and its rows."""
    return {s: (fit([r for r in rows if r.source != s]), rs) for s, rs in by_source(rows).items()}


def percentile(xs: list[float], q: float) -> float:
    xs = sorted(xs)
    i = q * (len(xs) - 1)
    low = int(i)
    return xs[low] + (i - low) * (xs[min(low + 1, len(xs) - 1)] - xs[low])


def score(predicted: list[float], measured: list[float]) -> dict[str, float]:
    """Errors in percent: absolute ones' median, 90th percentile and worst, and the median with its sign."""

    signed = [100 * (p / m - 1) for p, m in zip(predicted, measured)]
    size = [abs(e) for e in signed]
    return {
        "median": statistics.median(size),
        "p90": percentile(size, 0.9),
        "worst": max(size),
        "bias": statistics.median(signed),
        "log": 100 * statistics.median(abs(math.log(p / m)) for p, m in zip(predicted, measured)),
    }


def scores(rows: list[Row], k: Constants) -> dict[str, dict]:
    """Rows of one source: the estimate, and the baselines, on the same rows. inside: share of rows that lie in the
    interval; width: median ratio of its ends."""
    measured = [r.seconds for r in rows]
    estimates = [step_seconds(*r.args, k) for r in rows]
    inside = sum(e.low <= m <= e.high for e, m in zip(estimates, measured)) / len(rows)
    width = statistics.median(e.high / e.low for e in estimates)
    return {
        "rows": len(rows),
        "estimate": score([e.mid for e in estimates], measured) | {"inside": inside, "width": width},
        "half of peak": score([half_of_peak_seconds(*r.args) for r in rows], measured),
        "6ND at 40 %": score([six_nd_seconds(*r.args[:5]) for r in rows], measured),
    }


def pooled(sources: dict[str, tuple[Constants, list[Row]]], assumed: bool = True) -> dict[str, dict]:
    """All rows of all sources together, each under its source's constants; without those for which something is assumed."""
    some = [(k, r) for k, rs in sources.values() for r in rs if assumed or not r.missing]
    estimates, measured = [step_seconds(*r.args, k) for k, r in some], [r.seconds for _, r in some]
    inside = sum(e.low <= m <= e.high for e, m in zip(estimates, measured)) / len(some)
    width = statistics.median(e.high / e.low for e in estimates)
    return {
        "rows": len(some),
        "estimate": score([e.mid for e in estimates], measured) | {"inside": inside, "width": width},
        "half of peak": score([half_of_peak_seconds(*r.args) for _, r in some], measured),
        "6ND at 40 %": score([six_nd_seconds(*r.args[:5]) for _, r in some], measured),
    }


def predictions(r: Row, k: Constants) -> dict:
    """Seconds of one row: measured, estimated with the course's constants and with those of its source's fit, half of peak."""
    return {
        "source": r.source,
        "measured": r.seconds,
        "estimate": step_seconds(*r.args).mid,
        "left out": step_seconds(*r.args, k).mid,
        "half of peak": half_of_peak_seconds(*r.args),
    }


def anchored(rows: list[Row]) -> dict[str, dict]:
    """The estimate times one factor, that of one row of the source, and the error on the others: what one run of one's own is
    worth. Each row is the anchor once, and the median over anchors is given."""
    off = [step_seconds(*r.args).mid / r.seconds for r in rows]
    errors = [statistics.median(100 * abs(x / a - 1) for j, x in enumerate(off) if j != i) for i, a in enumerate(off)]
    return {"rows": len(rows), "estimate": {"median": statistics.median(errors), "worst": max(errors)}}


LAYOUTS = 6  # measured layouts of one model and batch on as many chips, from which on they can be ranked


def ranked(rows: list[Row], least: int = LAYOUTS) -> dict[str, dict]:
    """Layouts of one model, batch and number of chips: how the estimate's order goes with the measured one, and what its
    first choice costs over the best."""
    from scipy.stats import spearmanr

    alike: dict[tuple, list[Row]] = {}
    for r in rows:
        c, on, layout, B, T, _ = r.args
        alike.setdefault((r.source, r.setting, c, on.name, layout.chips * layout.pods, B, T), []).append(r)
    out = {}
    for (source, setting, c, on, chips, B, _), rs in alike.items():
        if len({r.args[2] for r in rs}) >= least:
            said, took = [step_seconds(*r.args).mid for r in rs], [r.seconds for r in rs]
            pick = took[said.index(min(said))]
            name = f"{source}: L={c.L} D={c.D} N={c.N} on {chips} {on}, {B} sequences{setting and ', '}{setting}"
            rank = spearmanr(said, took).statistic
            out[name] = {"rows": len(rs), "rank": rank, "regret": 100 * (pick / min(took) - 1)}
    return out


def memory(rows: list[Row]) -> dict[str, dict]:
    """Peak bytes of a device against what was measured, in percent: dense models and mixtures apart."""
    groups: dict[str, list[Row]] = {}
    for r in rows:
        if r.peak:
            groups.setdefault(f"{r.source}, {'mixtures' if r.args[0].moe else 'dense'}", []).append(r)
    return {
        name: {"rows": len(rs), "memory": score([peak_memory(*r.args).total for r in rs], [r.peak for r in rs])}
        for name, rs in groups.items()
    }


def unseen() -> dict:
    """Steps of 2024 to 2026 that nothing was fitted to: scores of each source, each row, and how four layouts of one mixture rank."""
    found = rows(UNSEEN)
    cases = {s: scores(rs, CONSTANTS) for s, rs in by_source(found).items()}
    print(table("sources that no fit has seen", cases | {"mean over sources": mean(cases)}))
    each = {r.name: {"source": r.source, "measured": r.seconds, "estimate": step_seconds(*r.args).mid} for r in found}
    for name, r in each.items():
        print(
            f"{name:44}{r['measured']:9.2f} s, estimated {r['estimate']:8.2f} s{100 * r['estimate'] / r['measured'] - 100:+8.1f} %"
        )
    return {"cases": cases, "rows": each} | memory_and_layouts(found, 4)


def memory_and_layouts(rows: list[Row], least: int = LAYOUTS) -> dict:
    held, layouts = memory(rows), ranked(rows, least)
    print(table("peak memory", held))
    for name, r in layouts.items():
        print(f"{name}: {r['rows']} layouts, rank correlation {r['rank']:.2f}, regret {r['regret']:.1f} %")
    return {"memory": held, "layouts": layouts}


def pace(n: int = 20000, rounds: int = 5) -> float:
    """Layouts of LLaMA-3-70B on H100s that one call prices a second, in NumPy, at best."""
    import numpy as np

    draw = np.random.default_rng(0)
    dp, tp, pp, micro = (2.0 ** draw.integers(0, most, n) for most in (6, 4, 4, 3))
    args = model("llama-3-70b"), chip("H100"), Layout(dp=dp, tp=tp, pp=pp, microbatches=micro), 2048, 4096
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        step_seconds(*args)
        taken.append(time.perf_counter() - start)
    return n / min(taken)


def mean(sources: dict[str, dict]) -> dict[str, dict]:
    """Mean over sources, whatever the number of their rows."""
    methods = [m for m in next(iter(sources.values())) if m != "rows"]
    keys = sources[next(iter(sources))]
    return {m: {x: statistics.mean(f[m][x] for f in sources.values()) for x in keys[m]} for m in methods}


def table(title: str, sources: dict[str, dict]) -> str:
    lines = [f"\n{title}", f"{'':44}{'median':>8}{'p90':>8}{'worst':>8}{'bias':>8}{'inside':>8}{'width':>8}"]
    for source, f in sources.items():
        for method in (m for m in f if m != "rows"):
            s = f[method]
            name = f"{source} ({f['rows']}), {method}" if "rows" in f else f"{source}, {method}"
            inside = f"{s['inside']:8.0%}{s['width']:8.2f}" if "inside" in s else ""
            shown = "".join(f"{s[x]:8.1f}" if x in s else f"{'':8}" for x in ("median", "p90", "worst", "bias"))
            lines.append(f"{name:44}{shown}{inside}")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_estimate", description=__doc__.split("\n")[0])
    parser.add_argument("--fit", action="store_true", help="fit to all rows and print the constants")
    parser.add_argument("--unseen", action="store_true", help="only the steps that no fit may use")
    parser.add_argument("--store", action="store_true", help=f"write {STORE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    found = rows()
    if options.fit:
        print(fit(found))
        return 0
    apart_from_fits = unseen()
    if options.unseen:
        return 0
    own, apart = by_source(found), left_out(found)
    cases = {
        "in sample": {s: scores(rs, CONSTANTS) for s, rs in own.items()},
        "each source left out of the fit": {s: scores(rs, k) for s, (k, rs) in apart.items()},
        "with one run as anchor": {s: anchored(rs) for s, rs in own.items() if len(rs) > 1},
    }
    for name, case in cases.items():
        print(table(name, case | {"mean over sources": mean(case)}))
    nothing_assumed = pooled(apart, assumed=False)
    together = {"left out, all rows": pooled(apart), "left out, rows with nothing assumed": nothing_assumed}
    speed = pace()
    each = {r.name: predictions(r, k) for k, rs in apart.values() for r in rs}
    print(table("all sources together", together))
    held = memory_and_layouts(found)
    print(f"{speed / 1e6:.2f} million layouts a second")
    if options.store:
        head = {"command": "python -m tools.bench_estimate --store", "date": datetime.date.today().isoformat()}
        versions = {"python": platform.python_version(), "scipy": importlib.metadata.version("scipy")}
        body = {
            "constants": asdict(CONSTANTS),
            "cases": cases,
            "together": together,
            **held,
            "layouts per second": speed,
            "rows": each,
            "unseen": apart_from_fits,
        }
        body = head | {"machine": machine(), "versions": versions} | body
        STORE.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
