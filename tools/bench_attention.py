"""`python -m tools.bench_attention`: attention forward on a GPU, ours beside XLA's and cuDNN's and the roofline, bfloat16.

All forms of a case take turns in one run, so that their ratios do not depend on the hour; the fastest of some rounds counts.
Ours is tried with a few shapes of block, as a library would, and the fastest is kept and named. Without a GPU nothing is measured.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from helpers.costs.attention import flops_and_bytes as costs
from helpers.costs.attention.flops_and_bytes import Attention
from helpers.costs.attention.time_and_intensity import Rates, seconds as priced
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import Time
from helpers.figures.attention.forms_side_by_side import exponentials
from tools.accelerator import accelerator, named, refusal

LENGTHS, HEADS = tuple(2**n for n in range(10, 16)), (64, 128)
TOKENS, WIDTH = 2**14, 2**11
"""Tokens of all texts of a case together, one text at least; sizes of all heads of a token together."""
FORMS = ("ours", "xla", "cudnn")
SHAPES = [(128, 64, 4, 2), (128, 64, 4, 3), (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3)]
"""Rows, columns, warps, stages that ours is tried with; a chip refuses those that need more than it has."""
PROMISED, FROM = 0.6, 4096
"""Least speed of ours beside cuDNN's, heads of 128, from that length on."""


class Case(NamedTuple):
    """B texts of T tokens in N heads of H, causal or not."""

    T: int
    H: int
    causal: bool

    @property
    def B(self) -> int:
        return max(TOKENS // self.T, 1)

    @property
    def N(self) -> int:
        return WIDTH // self.H


CASES = [Case(*c) for c in product(LENGTHS, HEADS, (False, True))]


def floor(case: Case, chip: Chip) -> Time:
    """Seconds that no kernel can beat: only what the mask leaves, everything read once, all at once."""
    a = Attention(case.T, N=case.N, H=case.H, B=case.B, causal=case.causal)
    least = replace(costs.flash(a, 128, rows=a.T), flops=costs.flops(a), exps=a.B * a.N * a.pairs, other=0.0)
    return priced(least, Rates(chip.rate("bf16"), chip.hbm_bandwidth, exponentials(chip)))


def roofline(case: Case, chip: Chip) -> tuple[float, str]:
    """(these seconds, what takes them)."""
    t = floor(case, chip)
    return t.lower, t.bound


def rows(cases: Iterable[Case], measure: Callable[[Case], dict], chip: Chip | None) -> list[dict]:
    """What the file has of each case: seconds of each form or why there are none, how fast ours is beside the others.

    measure   case -> {form: seconds, or a sentence; "shape": of ours; "off": of ours from the others}
    """
    out = []
    for case in cases:
        got = measure(case)
        bound, by = (None, None) if chip is None else roofline(case, chip)
        all_seconds = {form: got[form] for form in FORMS} | {"roofline": bound}
        ours = got["ours"]
        speed = {
            form: s / ours
            for form, s in all_seconds.items()
            if form != "ours" and isinstance(s, float) and isinstance(ours, float)
        }
        row = case._asdict() | {"B": case.B, "N": case.N, "seconds": all_seconds, "bound": by, "speed": speed}
        out.append(row | {"shape": got.get("shape"), "off": got.get("off")})
        print(line(out[-1]), flush=True)
    return out


def line(row: dict) -> str:
    """One case in a line: milliseconds, and how fast ours is beside the others."""
    ms = [f"{1e3 * s:9.3f}" if isinstance(s, float) else f"{'none':>9}" for s in row["seconds"].values()]
    beside = [f"{row['speed'][f]:9.2f}" if f in row["speed"] else f"{'none':>9}" for f in ("xla", "cudnn", "roofline")]
    return f"{row['T']:6} {row['H']:4} {'causal' if row['causal'] else 'full':6}" + "".join(ms + beside)


HEAD = f"{'T':>6} {'H':>4} {'mask':6}" + "".join(
    f"{name:>9}" for name in ("ours ms", "XLA", "cuDNN", "roofline", "/ XLA", "/ cuDNN", "/ roof")
)


def verdict(rows: list[dict]) -> str:
    """Whether the promised speed is reached, in one sentence."""
    beside = [r["speed"]["cudnn"] for r in rows if r["H"] == 128 and r["T"] >= FROM and "cudnn" in r["speed"]]
    if not beside:
        return "No case has both ours and cuDNN's, so nothing is said about their ratio."
    word = "at least" if min(beside) >= PROMISED else "short of"
    return f"Heads of 128, {FROM:,} tokens and more: {min(beside):.2f} of cuDNN's speed or more, {word} the {PROMISED} aimed at."


def seconds(f, args, least: float = 0.05) -> float:
    """Seconds of a call, of so many one after the other that they take `least` together."""
    import jax

    begin = time.perf_counter()
    jax.block_until_ready(f(*args))
    calls = max(1, int(least / (time.perf_counter() - begin)))
    begin = time.perf_counter()
    for _ in range(calls):
        out = f(*args)
    jax.block_until_ready(out)
    return (time.perf_counter() - begin) / calls


def tried(f, args):
    """Seconds of a first round after compilation, or one sentence that says why it does not run."""
    import jax

    try:
        jax.block_until_ready(f(*args))
        return seconds(f, args)
    except Exception as e:  # a chip, its memory or its library may refuse, each in a way of its own
        return refusal(e)


def measured(case: Case, rounds: int) -> dict:
    """What `rows` asks for, on the GPU that is here."""
    import jax
    import jax.numpy as jnp

    from helpers.kernels.attention import masks, pallas_flash_attention_gpu

    keys = jax.random.split(jax.random.key(0), 3)
    args = [jax.random.normal(key, (case.B, case.T, case.N, case.H), jnp.bfloat16) for key in keys]
    rule = masks.CAUSAL if case.causal else masks.FULL

    def ours(rows, columns, warps, stages):
        return jax.jit(
            lambda *x: pallas_flash_attention_gpu.flash(*x, rule, None, rows, columns, None, False, warps, stages)
        )

    def theirs(form):
        return jax.jit(lambda *x: jax.nn.dot_product_attention(*x, is_causal=case.causal, implementation=form))

    shapes = {shape: tried(ours(*shape), args) for shape in SHAPES}
    works = [shape for shape in shapes if isinstance(shapes[shape], float)]
    shape = min(works, key=shapes.get) if works else SHAPES[0]
    fs = {"ours": ours(*shape)} | {form: theirs(form) for form in FORMS[1:]}
    got = {form: tried(f, args) for form, f in fs.items()}
    running = [form for form in FORMS if isinstance(got[form], float)]
    for _ in range(rounds):
        for form in running:
            got[form] = min(got[form], seconds(fs[form], args))
    off = None
    if "ours" in running and len(running) > 1:  # cuDNN's where it runs
        a, b = (fs[form](*args).astype(jnp.float32) for form in ("ours", running[-1]))
        off = float(jnp.abs(a - b).max())
    return got | {"shape": dict(zip(("rows", "columns", "warps", "stages"), shape)), "off": off}


NONE = "There is no GPU here that JAX can use, so nothing is measured; on an NVIDIA GPU: pip install 'jax[cuda12]'."


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench_attention", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="the fastest of these counts")
    options = parser.parse_args(argv)
    here = accelerator("gpu")
    if here is None:
        print(NONE)
        return 0
    at = named(here.device_kind)
    print(here.device_kind if at else f"{here.device_kind}, of which no roofline is known", HEAD, sep="\n")
    found = rows(CASES, lambda case: measured(case, options.rounds), at)
    print(verdict(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
