"""`make bench-hardware`: what the accelerator here takes for the course's own operations, beside what `helpers.costs` predicts.

Products of 1 to 4,096 rows, memory, products with weights of 8 bits, a decode step, attention, and what it costs to start a
program: eight minutes at most. `book/results/hardware_<card>.json` has a row for each, and is written after each. Without an
accelerator nothing is measured.

It needs JAX and tqdm only, so a bare machine with a clone will do. On an NVIDIA GPU (cuda12, if the driver is older than 580):

    python3 -m pip install 'jax[cuda13]' tqdm
    python3 -m tools.bench_hardware

and 'jax[tpu]' on a TPU. Each operation runs many times in one program, on what it made the time before, so launches of the host
do not count; its inputs are larger than a card's cache, or those of a real step.
"""

import argparse
import datetime
import faulthandler
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from tqdm import tqdm

from helpers import show
from helpers.costs.rooflines.hardware import Chip
from tests.scratch import ROOT
from tools.accelerator import accelerator, clocks, machine, named, refusal, versions
from tools.hardware_cases import PARTS, Case, Program, Sizes

STORE = ROOT / "book/results"
COMMAND = "python -m tools.bench_hardware"
SECONDS = 480  # of the whole run; what is still at work then, be it a compiler, is ended
SHARES = {"launch": 15, "memory": 30, "matmul": 130, "quantised": 75, "decode": 90, "attention": 70}
"""Seconds of each part, 70 less than `SECONDS` together: a part's last case may begin just before they are over."""
PROGRAM = 0.05  # seconds of a program at least, a thousand launches: it repeats its operation
ROUNDS = 0.3  # seconds of timed runs, five at least
LATE = "not measured: the time of this part was over"
NONE = (
    "There is no accelerator here that JAX can use, so nothing is measured and nothing stored; "
    "on an NVIDIA GPU: pip install 'jax[cuda13]' tqdm."
)
HEAD = " " * 44 + "".join(f"{name:>10}" for name in ("floor", "estimate", "measured", "/ floor", "/ est."))


def repeated(step: Callable, times: int) -> Callable:
    """(state, constants) -> the state after so many steps, as one program."""
    import jax

    def again(_, both):
        # Without the barrier XLA takes what does not change out of the loop: a cast of weights, which is what a step is about.
        state, constants = jax.lax.optimization_barrier(both)
        return step(state, constants), constants

    return jax.jit(lambda *both: jax.lax.fori_loop(0, times, again, both)[0])


def seconds(program: Program) -> dict:
    """The median of some runs for one operation, how far it is above the fastest, and operations in a run."""
    from helpers.kernels.machine import runs

    step, operands, times = repeated(program.step, 1), (program.state, program.constants), 1
    if program.longest > 1:
        once, _ = runs(lambda: step(*operands), 0.0, 1)
        times = min(max(int(PROGRAM / once), 1), program.longest)
        step = repeated(program.step, times)
    fastest, spread = runs(lambda: step(*operands), ROUNDS, 5)
    count = times * program.operations
    return {"measured_s": fastest * spread / count, "spread": spread, "operations": count}


def row(case: Case, chip: Chip | None, late: bool) -> dict:
    """What is stored; of what does not run, why not, and the others go on."""
    predicted = case.predicted(chip)
    if late:
        return predicted | {"error": LATE}
    try:
        return predicted | seconds(case.program())
    except Exception as error:  # a compiler, a driver or a full memory may refuse, each in a way of its own
        return predicted | {"error": refusal(error)}


def cases(part: Callable, sizes: Sizes, chip: Chip | None) -> list[Case]:
    """Those of a part, or one that refuses as the part does: this JAX may lack what it imports."""
    try:
        return list(part(sizes, chip))
    except Exception as error:
        refused = error

        def refuse():
            raise refused

        return [Case(part.__name__, {}, refuse)]


def measure(device, chip: Chip | None, store: Path, sizes: Sizes, shares: dict[str, float]) -> dict:
    """The record of all parts, in `store` after each case; what a part leaves of its seconds is the next one's."""
    begin, until, card = perf_counter(), 0.0, chip.name if chip else device.device_kind
    path = store / ("hardware_" + re.sub(r"\W+", "-", card) + ".json")
    record = {
        "command": COMMAND,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "card": device.device_kind,
        "chip": chip and chip.name,
        "versions": versions(),
        "clocks": {},  # right after each part, while the card is still at work's clocks
        "rows": [],
    }

    def save():
        new = path.with_suffix(".part")  # the old file stays whole until the new one is
        new.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        new.replace(path)

    for part in PARTS:
        until += shares[part.__name__]
        for case in tqdm(cases(part, sizes, chip), desc=part.__name__, leave=False):
            record["rows"].append(row(case, chip, perf_counter() - begin > until))
            save()
        record["clocks"][part.__name__] = clocks()
        save()
    return record


def line(row: dict) -> str:
    """A row in a line, with how much longer than predicted it took."""
    shown = [f"{name}={n}" for name, n in row["sizes"].items() if name in ("B", "S", "T", "elements", "weights")]
    predicted, took = (row["floor_s"], row["estimate_s"]), row["measured_s"]
    cells = [show.seconds(s) if s else "–" for s in (*predicted, took)]
    cells += [f"{took / s:.2f}" if took and s else "–" for s in predicted]
    text = f"{' '.join((row['what'], *shown)):44}" + "".join(f"{cell:>10}" for cell in cells)
    return f"{text}  {row['error']}" if "error" in row else text


def main(argv: list[str] | None = None, sizes: Sizes | None = None) -> int:
    argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n")[0]).parse_args(argv)
    # A thread outside of Python counts: it ends a compiler, too, which a signal to Python would not.
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    try:
        device = accelerator()
        if device is None:
            print(NONE)
            return 0
        chip = named(device.device_kind)
        if chip is None:
            print(f"The course has no row for {device.device_kind}, so nothing is predicted, and all is measured.")
        record = measure(device, chip, STORE, sizes or Sizes(), SHARES)
        print(record["card"], HEAD, *map(line, record["rows"]), sep="\n")
        return 0
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    sys.exit(main())
