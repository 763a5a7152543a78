"""What this computer does: its FLOPs/s, its bytes/s, and what one launch costs (chapter 1).

Everything here is measured, so it differs from run to run; each figure is the best of several runs, because other
programs can only make a run slower. JAX returns before the work is done: only `block_until_ready` stops the clock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

import jax
import jax.numpy as jnp
from tqdm import tqdm

from helpers.costs.rooflines.roofline import Work, matmul

CHAINS = 8  # independent multiply-add chains of `poly`: enough to hide the latency of one
DTYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}


@dataclass(frozen=True)
class Machine:
    """One computer, measured on one of its JAX devices.

    flops         FLOPs/s of the fastest matmul found: the roof of matmuls
    bandwidth     bytes/s of memory, reads and writes together, of an elementwise kernel that works in place
    dispatch      seconds from Python to a finished program that does next to nothing
    elementwise   f32 FLOPs/s of elementwise work in cache: the lower roof of everything that is not a matmul
    dtype         the type of the fastest matmul, "f32" or "bf16"
    device        what JAX calls the device
    """

    flops: float
    bandwidth: float
    dispatch: float
    elementwise: float | None = None
    dtype: str = "f32"
    device: str = "unknown"

    @property
    def ridge(self) -> float:
        """FLOPs per byte at the knee of this machine's roofline for matmuls."""
        return self.flops / self.bandwidth


@dataclass(frozen=True)
class Timing:
    """One measured program: the parameter that was swept, what it does by the formula, the seconds of its best run."""

    at: int
    work: Work
    seconds: float

    @property
    def rate(self) -> float:
        """FLOPs/s reached."""
        return self.work.flops / self.seconds


def best(run: Callable[[], object], budget: float = 0.3, least: int = 3) -> float:
    """Seconds of the fastest of several runs, after one that compiles: at least `least`, and more until `budget` s have passed."""
    jax.block_until_ready(run())
    fastest, end, n = float("inf"), perf_counter() + budget, 0
    while n < least or perf_counter() < end:
        start = perf_counter()
        jax.block_until_ready(run())
        fastest, n = min(fastest, perf_counter() - start), n + 1
    return fastest


def poly(k: int, chains: int = CHAINS) -> Callable[[jax.Array], jax.Array]:
    """A jitted elementwise f32 kernel whose arithmetic intensity is yours to choose: 2k + 2 FLOPs per byte.

    k       multiply-adds in each chain
    chains  independent chains; with 1 instead of 8 the intensity is an eighth of that: (k + 1) / 4

    It gives its argument away (donation), so the result is written over it. Without that, every run would get fresh
    pages from the operating system, and half of the "bandwidth" would be page faults.
    """

    def kernel(x):
        values = [x + 0.1 * (i + 1) for i in range(chains)]
        for _ in range(k):
            values = [v * 0.999 + 0.001 for v in values]
        total = values[0]
        for v in values[1:]:
            total = total + v
        return total * 0.1  # below 1/8, so that repeated runs settle at a finite value

    return jax.jit(kernel, donate_argnums=0)


def poly_work(k: int, n: int, chains: int = CHAINS) -> Work:
    """What poly(k, chains) does to n elements of 4 bytes, each read and written once.

    An addition into each chain, 2k FLOPs along it, additions that join the chains (one fewer than chains), a product.

    >>> w = poly_work(1, 1000)
    >>> w.flops, w.bytes, w.intensity
    (32000.0, 8000.0, 4.0)
    """
    return Work(2.0 * chains * (k + 1) * n, 8.0 * n, dtype="f32")


def matmul_work(B: int, D: int, F: int, dtype: str = "f32") -> Work:
    """What x[B, D] @ w[D, F] does with all three of one type: 2BDF FLOPs; x and w read, the result written.

    >>> matmul_work(8, 512, 1024, "bf16")
    Work(flops=8388608, bytes=1073152, moves=(), dtype='bf16')
    """
    each = jnp.dtype(DTYPES[dtype]).itemsize
    return matmul(B, D, F, each, each, each, dtype)


def sweep_poly(ks: Iterable[int] = (0, 1, 2, 4, 8, 16, 32), n: int | None = None, chains: int = CHAINS) -> list[Timing]:
    """Time poly(k, chains) over n f32 elements for each k; by default n is too large for most caches.

    With 8 chains even k = 0 does 16 operations an element, which a fast memory outruns; `chains=1` reaches lower.
    """
    n = n or _large()
    out = []
    for k in tqdm(list(ks), desc="elementwise sweep", leave=False, delay=5):
        out.append(Timing(k, poly_work(k, n, chains), _time_poly(k, n, chains)))
    return out


def sweep_matmuls(Bs: Iterable[int], D: int, F: int, dtype: str = "f32") -> list[Timing]:
    """Time x[B, D] @ w[D, F] for each B."""
    w = _random((D, F), dtype)
    out = []
    for B in tqdm(list(Bs), desc="matmul sweep", leave=False, delay=5):
        x = _random((B, D), dtype)
        out.append(Timing(B, matmul_work(B, D, F, dtype), best(lambda x=x: _matmul(x, w))))
    return out


def measure() -> Machine:
    """Measure the first JAX device of this computer: its matmul rate, its memory bandwidth, its dispatch time.

    About three seconds on two idle cores.
    """
    with tqdm(total=5, desc="measuring this machine", leave=False, delay=5) as bar:
        rates = {}
        for dtype in DTYPES:
            rates[dtype] = _matmul_rate(dtype)
            bar.update()
        n = _large()
        bandwidth = poly_work(0, n, 1).bytes / _time_poly(0, n, 1, budget=0.6)  # two FLOPs an element: all memory
        bar.update()
        elementwise = poly_work(64, 2**20).flops / _time_poly(64, 2**20)
        bar.update()
        x, tiny = jnp.float32(1), jax.jit(lambda x: x + 1)
        dispatch = best(lambda: tiny(x), budget=0.2, least=100)
        bar.update()
    dtype = max(rates, key=rates.get)
    return Machine(rates[dtype], bandwidth, dispatch, elementwise, dtype, jax.devices()[0].device_kind)


@jax.jit
def _matmul(x, w):
    return x @ w


def _matmul_rate(dtype: str) -> float:
    """The best FLOPs/s over growing square matmuls, until one takes 10 ms: by then the launch no longer counts."""
    rate, N = 0.0, 1024
    while N <= 16384:
        x = _random((N, N), dtype)
        seconds = best(lambda x=x: _matmul(x, x), budget=0.3)
        rate = max(rate, matmul_work(N, N, N, dtype).flops / seconds)
        if seconds > 1e-2:
            break
        N *= 2
    return rate


def _time_poly(k: int, n: int, chains: int = CHAINS, budget: float = 0.3) -> float:
    kernel, state = poly(k, chains), [jnp.ones(n, jnp.float32)]

    def run():
        state[0] = kernel(state[0])  # the old array is gone: the next run works on the new one
        return state[0]

    return best(run, budget)


def _large() -> int:
    """f32 elements that hardly any cache holds: 128 MiB of them on a CPU, 1 GiB on an accelerator."""
    return 2**25 if jax.default_backend() == "cpu" else 2**28


def _random(shape: tuple[int, ...], dtype: str) -> jax.Array:
    return jax.random.normal(jax.random.key(0), shape, jnp.float32).astype(DTYPES[dtype])
