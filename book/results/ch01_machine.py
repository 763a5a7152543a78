"""A machine with a name, measured as chapter 1 measures the reader's: writes ch01_machine.json beside this file.

    python book/results/ch01_machine.py [--minutes 5]

Every program is timed again and again until the minutes are over, and its best time counts, because other programs can
only make a run slower. `share` is what a busy thread got of a core in the quietest pass; `again` says how much longer the
best time of another pass was: close to 1, the best was no accident.
"""

import json
import os
import platform
import re
from argparse import ArgumentParser
from datetime import date
from importlib.metadata import version
from pathlib import Path
from time import monotonic

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from helpers.kernels import machine  # noqa: E402

KS = (0, 1, 2, 3, 4, 8, 16, 32, 64)
BS = (1, 4, 16, 64, 256)
D = F = 4096
LARGE = 2**25


def cpu() -> str:
    """Cores and model of the processor."""
    try:
        found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    except OSError:
        found = None
    return f"{os.cpu_count()} cores, {found[1].strip() if found else platform.machine()}"


def once() -> dict[str, float]:
    """One pass: what `measure` finds, and the seconds of each program of the two sweeps."""
    m = machine.measure()
    found = {"flops": m.flops, "bandwidth": m.bandwidth, "dispatch": m.dispatch, "share": m.share}
    for k in KS:
        (t,) = machine.sweep_poly((k,), size(k))
        found[f"poly {k}"] = t.seconds
    return found | {f"matmul {t.at}": t.seconds for t in machine.sweep_matmuls(BS, D, F)}


def size(k: int) -> int:
    """Elements of poly(k): fewer when each costs more, as on the page."""
    return LARGE // max(1, (k + 1) // 4)


def the_best(passes: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Of each figure the best of all passes, and how much worse the next one is, as a ratio of 1 or more.

    >>> the_best([{"poly 0": 2.0, "flops": 1.0}, {"poly 0": 3.0, "flops": 4.0}])
    {'poly 0': {'best': 2.0, 'again': 1.5}, 'flops': {'best': 4.0, 'again': 4.0}}
    """
    out = {}
    for name in passes[0]:
        rate = name in ("flops", "bandwidth", "share")
        first, second = sorted((p[name] for p in passes), reverse=rate)[:2]
        out[name] = {"best": first, "again": first / second if rate else second / first}
    return out


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5)
    asked = parser.parse_args()
    end, passes = monotonic() + 60 * asked.minutes, []
    while len(passes) < 2 or monotonic() < end:
        passes.append(once())
        best = the_best(passes) if len(passes) > 1 else {}
        print(len(passes), {name: round(v["again"], 3) for name, v in best.items()}, flush=True)
        if best:
            store(best, len(passes), asked.minutes)


def store(best: dict, passes: int, minutes: float) -> None:
    """Write the results, after how, when and on what they were made."""
    sweeps = {
        "elementwise": {str(k): {"elements": size(k), **best[f"poly {k}"]} for k in KS},
        "matmul": {str(B): best[f"matmul {B}"] for B in BS},
    }
    made_by = {
        "command": f"python book/results/ch01_machine.py --minutes {minutes:g}",
        "date": date.today().isoformat(),
        "machine": cpu(),
        "versions": {p: version(p) for p in ("jax", "jaxlib")},
        "passes": passes,
        "D": D,
        "F": F,
        **{name: best[name] for name in ("flops", "bandwidth", "dispatch", "share")},
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(made_by | sweeps, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
