"""`python -m tools.bench_layouts`: layouts of a training step that are priced in a second, by as many processes as cores.

Two figures: `training.step` alone on arrays of layouts, and a whole search, with rules, memory and the choice of the best.
Seconds are a core's own (CPU), so that other programs on the machine do not count.
"""

import argparse
import datetime
import importlib.metadata
import json
import multiprocessing
import os
import platform
import sys
import time

from tests.scratch import ROOT
from tools.accelerator import machine

STORE = ROOT / "book/results/layouts.json"
MODEL, TOKENS, T, CHIP, SHAPE = "llama-2-13b", 2**22, 1024, "v5p", (16, 16, 16)


def priced(rounds: int) -> tuple[int, int, float]:
    """Layouts of 4096 chips, those of them that the search tries, and the least CPU seconds in which a core prices all."""
    import numpy as np

    from helpers.costs.rooflines.chips import chip
    from helpers.costs.rooflines.hardware import Slice
    from helpers.costs.training import layout_search
    from helpers.costs.training.training_step import step
    from helpers.costs.transformers.public_models import model

    c, s, taken = model(MODEL), Slice(chip(CHIP), SHAPE), []
    grids = list(layout_search.grids(c, TOKENS, T, s))
    for _ in range(rounds):
        begin, n = time.process_time(), 0
        for grid in grids:
            at = step(c, grid, TOKENS, T, s)
            n += np.broadcast(at.hidden, at.time.lower, at.time.upper, at.missing).size
        taken.append(time.process_time() - begin)
    kept = 0
    for grid in grids:
        shape = np.broadcast_shapes(*(np.shape(x) for x in vars(grid).values()))
        kept += int(np.broadcast_to(layout_search.keeps(c, grid, TOKENS, T, s), shape).sum())
    return n, kept, min(taken)


def searched(rounds: int) -> tuple[int, float]:
    """Layouts that a search tries under three policies, and the least CPU seconds that it takes."""
    from helpers.costs.rooflines.chips import chip
    from helpers.costs.rooflines.hardware import Slice
    from helpers.costs.training import layout_search
    from helpers.costs.transformers.public_models import model

    c, s, taken = model(MODEL), Slice(chip(CHIP), SHAPE), []
    for _ in range(rounds):
        begin = time.process_time()
        found = layout_search.search(c, TOKENS, T, s)
        taken.append(time.process_time() - begin)
    return found.tried, min(taken)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_layouts", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="the fastest of these counts")
    parser.add_argument("--store", action="store_true", help=f"write {STORE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        step = pool.map(priced, [options.rounds] * cores, 1)
        search = pool.map(searched, [options.rounds] * cores, 1)
    (n, kept, _), (tried, _) = step[0], search[0]
    cases = {
        "training.step": {"layouts": n, "in the set": kept, "a second": sum(n / t for *_, t in step)},
        "layouts.search": {"layouts": tried, "a second": sum(tried / t for _, t in search)},
    }
    for name, got in cases.items():
        print(f"{name:15} {got['layouts']:8,} layouts, {got['a second'] / 1e6:.2f} million a second on {cores} cores")
    if options.store:
        head = {
            "command": "python -m tools.bench_layouts --store",
            "date": datetime.date.today().isoformat(),
            "machine": machine(),
            "versions": {"python": platform.python_version(), "numpy": importlib.metadata.version("numpy")},
        }
        what = {"model": MODEL, "tokens": TOKENS, "T": T, "slice": [CHIP, *SHAPE], "cores": cores, "seconds": "CPU"}
        STORE.write_text(json.dumps(head | what | {"cases": cases}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
