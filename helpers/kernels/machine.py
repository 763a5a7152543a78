"""What this computer does: its FLOPs/s, its bytes/s, and what one launch costs (chapter 1).

Everything here is measured, so it differs from run to run; each figure is the best of several runs, because other
programs can only make a run slower. JAX returns before the work is done: only `block_until_ready` stops the clock.
Two signs say whether other programs were busy: runs of one program lie apart (`spread`), or a thread that never rests
gets less than a core (`share`), which also shows a load that slows all runs alike. `noise` puts them in words.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, thread_time

import jax
import jax.numpy as jnp

from helpers.costs.rooflines.roofline import Work, matmul, time

CHAINS = 8  # independent multiply-add chains of `poly`: enough to hide the latency of one
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
QUIET = 1.25
"""Median over best run, up to which a machine counts as quiet: a choice. On an idle one it is 1.0 to 1.1."""
WHOLE = 0.9
"""Share of a core, from which on a thread counts as undisturbed: a choice. On an idle machine it is 0.99 and more."""


@dataclass(frozen=True)
class Machine:
    """One computer, measured on one of its JAX devices.

    flops         FLOPs/s of the fastest matmul found: the roof of matmuls
    bandwidth     bytes/s of memory, reads and writes together, of an elementwise kernel that works in place
    dispatch      seconds from Python to a finished program that does next to nothing
    elementwise   f32 FLOPs/s of elementwise work in cache: the lower roof of everything that is not a matmul
    dtype         the type of the fastest matmul, "f32" or "bf16"
    device        what JAX calls the device
    spread        median over best run, of the program where this is largest (launches left out, which jitter anyway)
    share         of a core that a busy thread got before and after, the smaller one
    """

    flops: float
    bandwidth: float
    dispatch: float
    elementwise: float | None = None
    dtype: str = "f32"
    device: str = "unknown"
    spread: float = 1.0
    share: float = 1.0

    @property
    def ridge(self) -> float:
        """FLOPs per byte at the knee of this machine's roofline for matmuls."""
        return self.flops / self.bandwidth


@dataclass(frozen=True)
class Timing:
    """One measured program: the parameter that was swept, what it does by the formula, the seconds of its best run.

    spread  the median of its runs over the best one; far above 1, something else was using the machine
    """

    at: int
    work: Work
    seconds: float
    spread: float = 1.0

    @property
    def rate(self) -> float:
        """FLOPs/s reached."""
        return self.work.flops / self.seconds


def runs(run: Callable[[], object], budget: float = 0.3, min_runs: int = 3) -> tuple[float, float]:
    """(seconds of the fastest of several runs, the median of them over it), after one run that compiles.

    At least `min_runs` runs, and more until `budget` s have passed.
    """
    jax.block_until_ready(run())
    took, end = [], perf_counter() + budget
    while len(took) < min_runs or perf_counter() < end:
        start = perf_counter()
        jax.block_until_ready(run())
        took.append(perf_counter() - start)
    return min(took), median(took) / min(took)


def share(budget: float = 0.2) -> float:
    """Share of a core that a thread gets which never rests: its own CPU seconds over the clock's, at most 1.

    With as many busy programs as cores it is about a half, whatever the spread of runs says; a container that may use
    only part of a core shows as well.
    """
    start, used = perf_counter(), thread_time()
    while (passed := perf_counter() - start) < budget:
        pass
    return min(1.0, (thread_time() - used) / passed)


def noise(spread: float, share: float) -> str:
    """What a spread (median over best run) and a `share` say of the machine.

    >>> noise(1.04, 0.99)
    'quiet: the median run takes 1.04 times the best, and a busy thread gets 99% of a core'
    >>> print(noise(1.04, 0.45))
    NOISY: the median run takes 1.04 times the best, and a busy thread gets 45% of a core;
    other programs are at work here, so draw no conclusion, and measure again
    """
    signs = f"the median run takes {spread:.2f} times the best, and a busy thread gets {share:.0%} of a core"
    if spread <= QUIET and share >= WHOLE:
        return f"quiet: {signs}"
    return f"NOISY: {signs};\nother programs are at work here, so draw no conclusion, and measure again"


def ceilings(timings: Iterable[Timing]) -> tuple[float, float]:
    """(C, W) of a sweep: the most FLOPs/s and the most bytes/s that any of its runs reached.

    With these, no run is below its lower bound, max(FLOPs/C, bytes/W), since none has better rates; it may be above
    its upper one.

    >>> ceilings([Timing(0, Work(1.0, 8.0), 2.0), Timing(1, Work(9.0, 8.0), 4.0)])
    (2.25, 4.0)
    """
    timings = list(timings)
    return max(t.rate for t in timings), max(t.work.bytes / t.seconds for t in timings)


def against_bounds(timings: Iterable[Timing], C: float, W: float) -> str:
    """How many of the times lie between the bounds of eq-bounds at the rates C and W, how many below, how many above.

    >>> against_bounds([Timing(0, Work(1.0, 1.0), s) for s in (0.5, 1.0, 2.0, 3.0)], 1.0, 1.0)
    '2 of 4 measured times lie between the lower and the upper bound, 1 below, 1 above'
    """
    timings = list(timings)
    bounds = [time(t.work, C, W) for t in timings]
    # A billionth more or less is rounding: the best run of a sweep equals its own lower bound.
    below = sum(t.seconds < b.lower * (1 - 1e-9) for t, b in zip(timings, bounds))
    above = sum(t.seconds > b.upper * (1 + 1e-9) for t, b in zip(timings, bounds))
    return (
        f"{len(timings) - below - above} of {len(timings)} measured times lie between the lower and the upper bound, "
        f"{below} below, {above} above"
    )


def poly(steps: int, chains: int = CHAINS) -> Callable[[jax.Array], jax.Array]:
    """A jitted elementwise f32 kernel whose arithmetic intensity is yours to choose: 2k + 2 FLOPs per byte.

    steps   multiply-adds in each chain
    chains  independent chains; with 1 instead of 8 the intensity is an eighth of that: (steps + 1) / 4

    It gives its argument away (donation), so the result is written over it. Without that, every run would get fresh
    pages from the operating system, and half of the "bandwidth" would be page faults.
    """

    def kernel(x):
        values = [x + 0.1 * (i + 1) for i in range(chains)]
        for _ in range(steps):
            values = [v * 0.999 + 0.001 for v in values]
        total = values[0]
        for v in values[1:]:
            total = total + v
        return total * 0.1  # below 1/8, so that repeated runs settle at a finite value

    return jax.jit(kernel, donate_argnums=0)


def poly_work(steps: int, n: int, chains: int = CHAINS) -> Work:
    """What poly(steps, chains) does to n elements of 4 bytes, each read and written once.

    An addition into each chain, 2k FLOPs along it, additions that join the chains (one fewer than chains), a product.

    >>> w = poly_work(1, 1000)
    >>> w.flops, w.bytes, w.intensity
    (32000.0, 8000.0, 4.0)
    """
    return Work(2.0 * chains * (steps + 1) * n, 8.0 * n, dtype="f32")


def matmul_work(B: int, D: int, F: int, dtype: str = "f32") -> Work:
    """What x[B, D] @ w[D, F] does with all three of one type: 2BDF FLOPs; x and w read, the result written.

    >>> matmul_work(8, 512, 1024, "bf16")
    Work(flops=8388608, bytes=1073152, moves=(), dtype='bf16')
    """
    each = jnp.dtype(DTYPES[dtype]).itemsize
    return matmul(B, D, F, each, each, each, dtype)


def bar(items: Iterable, title: str) -> Iterable:
    """The items; where tqdm is installed, with a bar of progress once they take five seconds."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(list(items), desc=title, leave=False, delay=5)


def sweep_poly(ks: Iterable[int] = (0, 1, 2, 4, 8, 16, 32), n: int | None = None, chains: int = CHAINS) -> list[Timing]:
    """Time poly(k, chains) over n f32 elements for each k; by default n is too large for most caches.

    With 8 chains even k = 0 does 16 operations an element, which a fast memory outruns; `chains=1` reaches lower.
    """
    n, ks = n or _large(), bar(ks, "elementwise sweep")
    return [Timing(k, poly_work(k, n, chains), *_time_poly(k, n, chains)) for k in ks]


def sweep_matmuls(Bs: Iterable[int], D: int, F: int, dtype: str = "f32") -> list[Timing]:
    """Time x[B, D] @ w[D, F] for each B."""
    w = _random((D, F), dtype)
    out = []
    for B in bar(Bs, "matmul sweep"):
        x = _random((B, D), dtype)
        out.append(Timing(B, matmul_work(B, D, F, dtype), *runs(lambda x=x: _matmul(x, w))))
    return out


def measure() -> Machine:
    """Measure the first JAX device of this computer: its matmul rate, its memory bandwidth, its dispatch time.

    About three seconds on two idle cores.
    """
    rates, spreads, shares = {}, [], [share()]
    for dtype in DTYPES:
        rates[dtype], spread = _matmul_rate(dtype)
        spreads.append(spread)
    n = _large()
    seconds, spread = _time_poly(0, n, 1, budget=0.6)  # two FLOPs an element: all memory
    bandwidth = poly_work(0, n, 1).bytes / seconds
    elementwise = poly_work(64, 2**20).flops / _time_poly(64, 2**20)[0]
    x, tiny = jnp.float32(1), jax.jit(lambda x: x + 1)
    dispatch = runs(lambda: tiny(x), budget=0.2, min_runs=100)[0]
    dtype, shares = max(rates, key=rates.get), [*shares, share()]
    kind = jax.devices()[0].device_kind
    return Machine(rates[dtype], bandwidth, dispatch, elementwise, dtype, kind, max(*spreads, spread), min(shares))


_matmul = jax.jit(jnp.matmul)


def _matmul_rate(dtype: str) -> tuple[float, float]:
    """The best FLOPs/s over growing square matmuls, until one takes 10 ms: by then the launch no longer counts; its spread."""
    found, N = (0.0, 1.0), 1024
    while N <= 16384:
        x = _random((N, N), dtype)
        seconds, spread = runs(lambda x=x: _matmul(x, x), budget=0.3)
        found = max(found, (matmul_work(N, N, N, dtype).flops / seconds, spread))
        if seconds > 1e-2:
            break
        N *= 2
    return found


def _time_poly(steps: int, n: int, chains: int = CHAINS, budget: float = 0.3) -> tuple[float, float]:
    kernel, state = poly(steps, chains), [jnp.ones(n, jnp.float32)]

    def run():
        state[0] = kernel(state[0])  # the old array is gone: the next run works on the new one
        return state[0]

    return runs(run, budget)


def _large() -> int:
    """f32 elements that hardly any cache holds: 128 MiB of them on a CPU, 1 GiB on an accelerator."""
    return 2**25 if jax.default_backend() == "cpu" else 2**28


def _random(shape: tuple[int, ...], dtype: str) -> jax.Array:
    return jax.random.normal(jax.random.key(0), shape, jnp.float32).astype(DTYPES[dtype])
