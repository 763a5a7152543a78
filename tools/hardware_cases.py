"""The operations that `bench_hardware` times, each as a program and as `helpers.costs` prices it.

An operation runs many times in one program, each time on what it made before, so launches by the host do not count. Inputs are
larger than a card's cache, or those of a real step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.rooflines import roofline
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import Time, Work, on_chip
from helpers.costs.training.operation_seconds import Pace
from helpers.costs.training.step_operations import Attention
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.layer_products import Product
from helpers.costs.transformers.public_models import model
from tools import bench_attention

LONGEST = 4096  # steps of a program at most


@dataclass(frozen=True)
class Sizes:
    """How large the operations are; only tests take others.

    B, D        rows of a product, both sides of its weights; `narrow`: rows where weights have 8 bits
    matrices    that follow one another: no cache holds all of them
    elements    of an array in memory
    config      a decoder with layers of llama-3-8b, and a vocabulary that is as large a part of all weights as there
    steps       (sequences, keys that each sees) of a decode step
    lengths, H  tokens of a sequence, width of a head in attention
    """

    B: tuple[int, ...] = tuple(2**n for n in range(13))
    D: int = 8192
    narrow: tuple[int, ...] = (1, 16, 256)
    matrices: int = 8
    elements: tuple[int, ...] = (2**26, 2**28)
    config: Config = replace(model("llama-3-8b"), L=8, V=2**15)
    steps: tuple[tuple[int, int], ...] = ((1, 1024), (16, 1024), (64, 1024))
    lengths: tuple[int, ...] = (4096, 16384)
    H: int = 128


class Program(NamedTuple):
    """step(state, constants) -> state is so many operations in a row; at most `longest` steps are repeated in one program."""

    step: Callable
    state: Any
    constants: Any = ()
    operations: int = 1
    longest: int = LONGEST


@dataclass(frozen=True)
class Case:
    """An operation as a program, and as `costs` has it on a chip: its floor, and seconds to expect."""

    what: str
    sizes: dict
    program: Callable[[], Program]
    floor: Callable[[Chip], Time] | None = None
    estimate: Callable[[Chip], float] | None = None

    def predicted(self, chip: Chip | None) -> dict:
        """The row before anything is measured."""
        time = self.floor(chip) if chip and self.floor else None
        estimate = self.estimate(chip) if chip and self.estimate else None
        floor = {"floor_s": time and time.lower, "bound": time and time.bound}
        return {"what": self.what, "sizes": self.sizes} | floor | {"estimate_s": estimate, "measured_s": None}


def normal(*shape: int):
    """Random bfloat16, as zeros would cost a card less power; over the root of the first side, so that products keep their size."""
    import jax
    import jax.numpy as jnp

    return jax.random.normal(jax.random.key(0), shape, jnp.bfloat16) * shape[0] ** -0.5


def product(name: str, B: int, D: int, matrices: Callable, apply: Callable, kind: str = "bf16") -> Case:
    """x[B, D] times one square matrix after the other."""

    def step(x, weights):
        for w in weights:
            x = apply(x, w)
        return x

    def estimate(chip: Chip) -> float:
        # Both types are priced as int8, with rows and arithmetic in bf16: engines' fp8, which multiplies as fp8, is not this kernel.
        stored = Deployment(weights="bf16" if kind == "bf16" else "int8")
        return Server(model("llama-3-8b"), chip, stored, ENGINES["jax"]).product(Product("mlp", m=B, n=D, k=D))

    return Case(
        name,
        {"B": B, "D": D, "F": D, "weights": kind},
        lambda: Program(step, normal(B, D), matrices(), len(matrices())),
        lambda chip: on_chip(roofline.matmul(B, D, D, w=2 if kind == "bf16" else 1), chip),
        estimate,
    )


def launch(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """From Python to a program that does next to nothing, and back; and one small operation of many inside a program."""
    import jax.numpy as jnp

    yield Case("dispatch", {}, lambda: Program(lambda x, _: x + 1, jnp.float32(0), longest=1))
    small = product("kernel", 1, 128, lambda: [normal(128, 128)] * 8, lambda x, w: x @ w)
    yield replace(small, estimate=lambda chip: Pace(chip).launch or None)  # costs has none for a TPU


def memory(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """Float32 numbers: read and written in place, as chapter 1 does it, or read and added up."""
    import jax.numpy as jnp

    from helpers.kernels.machine import poly, poly_work

    def case(name: str, n: int, moved: float, program: Callable[[], Program]) -> Case:
        reached = lambda chip: moved / Pace(chip).memory  # noqa: E731
        return Case(name, {"elements": n}, program, lambda chip: on_chip(Work(bytes=moved), chip), reached)

    for n in sizes.elements:
        both = lambda n=n: Program(lambda x, _: poly(0, 1)(x), jnp.ones(n))  # noqa: E731
        # An absolute value: a sum of differences is the difference of sums, which a compiler may know.
        read = lambda n=n: Program(lambda total, x: jnp.abs(x - total).sum(), jnp.float32(0), jnp.ones(n))  # noqa: E731
        yield case("memory, read and written", n, poly_work(0, n, 1).bytes, both)
        yield case("memory, read", n, 4.0 * n, read)


def matmul(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """The roofline of chapter 1, from one row to more than any chip's critical batch."""
    matrices = cache(lambda: [normal(sizes.D, sizes.D) for _ in range(sizes.matrices)])
    for B in sizes.B:
        yield product("matmul", B, sizes.D, matrices, lambda x, w: x @ w)


def quantised(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """The course's product with int8 weights, and with fp8 where the chip has it or nobody knows."""
    import jax

    from helpers.kernels.transformers import quantisation

    for kind in ("int8", "fp8"):
        if kind == "int8" or chip is None or kind in chip.flops:
            made = jax.jit(lambda w, kind=kind: quantisation.quantise(w, 0, kind))
            matrices = cache(lambda made=made: [made(normal(sizes.D, sizes.D)) for _ in range(sizes.matrices)])
            for B in sizes.narrow:
                yield product("quantised matmul", B, sizes.D, matrices, quantisation.matmul, kind)


def decode(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """The next token of every sequence by the course's decoder, whose cache is full."""
    import jax
    import jax.numpy as jnp

    from helpers.kernels.inference import kv_cache, tiny_language_model
    from helpers.kernels.transformers import decoder

    config, params = sizes.config, cache(lambda: decoder.init(sizes.config, jax.random.key(0), jnp.bfloat16))

    def case(B: int, S: int) -> Case:
        def step(state, params):
            token, held = state
            logits, held = kv_cache.extend(params, held, token[:, None], jnp.full(B, S - 1), config)
            return tiny_language_model.greedy(logits[:, 0]), held

        state = lambda: (jnp.zeros(B, jnp.int32), kv_cache.empty(config, B, S, jnp.bfloat16))  # noqa: E731
        return Case(
            "decode step",
            {"B": B, "S": S, "L": config.L, "D": config.D, "V": config.V},
            lambda: Program(step, state(), params()),
            lambda chip: Replica(config, chip).decode(B, S).time,
            lambda chip: Server(config, chip, Deployment(), ENGINES["jax"]).decode(B, S).mid,
        )

    yield from (case(B, S) for B, S in sizes.steps)


def attention(sizes: Sizes, chip: Chip | None) -> Iterator[Case]:
    """Flash as the course writes it, beside what JAX has; `bench_attention` tries its blocks, and more lengths."""
    import jax

    platform = jax.devices()[0].platform

    def ours(*x):
        from helpers.kernels.attention import (
            masks,
            pallas_flash_attention_gpu as gpu,
            pallas_flash_attention_tpu as tpu,
        )

        return (tpu if platform == "tpu" else gpu).flash(*x, masks.CAUSAL)

    forms = {"Flash, the course's": ours}
    for name in ("xla", "cudnn") if platform == "gpu" else ("xla",):
        forms[f"attention, {name}"] = lambda *x, n=name: jax.nn.dot_product_attention(
            *x, is_causal=True, implementation=n
        )

    def case(T: int, name: str, form: Callable) -> Case:
        size = bench_attention.Case(T, sizes.H, True)
        operation = Attention(size.B * T, size.N, keys=(T + 1) / 2, every=T, width=sizes.H)
        qkv = lambda: [normal(size.B, T, size.N, size.H)] * 3  # noqa: E731
        return Case(
            name,
            {"B": size.B, "T": T, "N": size.N, "H": size.H},
            lambda: Program(lambda q, kv: form(q, *kv), qkv()[0], qkv()[1:]),
            lambda chip: bench_attention.floor(size, chip),
            lambda chip: Pace(chip).attention(operation)[0],
        )

    yield from (case(T, what, form) for T in sizes.lengths for what, form in forms.items())


PARTS = (launch, memory, matmul, quantised, decode, attention)
