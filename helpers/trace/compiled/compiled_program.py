"""What a compiler made of a program: its collectives, its matmuls and its memory, on one device of a mesh.

`made(f, *args)` compiles for the devices of its arguments. `trace.compiled.aot_compile_tpu` has TPUs that are not here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import jax

from helpers import show
from helpers.trace.jaxpr.walk import walk

from .hlo_text import Made, Text, read, where


@dataclass(frozen=True)
class Memory:
    """Bytes on one device, as the compiler planned them.

    On a CPU `peak` leaves out what is temporary: read `temporary` there. On a TPU read `peak`.
    """

    arguments: int
    results: int
    temporary: int
    peak: int


@dataclass(frozen=True)
class Refused:
    """A compiler's answer that a program does not fit: bytes that it needs on one device, and those that there are."""

    needed: float
    available: float

    def __str__(self) -> str:
        need, have = show.ibytes(self.needed, 4), show.ibytes(self.available, 4)
        return f"The compiler refuses: on one device the program needs {need} of HBM, and {have} are available."


@dataclass(frozen=True, repr=False)
class Program(show.Table):
    """A compiled program as one device sees it.

    target       what it was compiled for: "cpu", "v5e:4x4", …
    sizes        devices along each axis of its mesh
    collectives  what it sends, in the order of execution
    matmuls      matrix products in it, loop bodies once; XLA may have cut one into several
    memory       None if it does not fit
    refused      the refusal if it does not fit
    note         where the record comes from, if it was not made here
    """

    target: str
    sizes: dict[str, int]
    collectives: tuple[Made, ...]
    matmuls: int = 0
    memory: Memory | None = None
    refused: Refused | None = None
    note: str = ""
    head = ("collective", "runs", "result on one device", "V", "sent by a device", "meanwhile")

    @property
    def title(self) -> str:
        mesh = "mesh " + ", ".join(f"{a}={n}" for a, n in self.sizes.items()) if self.sizes else "one device"
        return f"{self.target}, {mesh}"

    def rows(self) -> list[tuple[str, ...]]:
        """One line for each kind, axes, shape and schedule, as text: what, runs, result, V, sent, meanwhile."""
        pieces = lambda c: f", {c.pieces} pieces" if c.pieces > 1 else ""  # noqa: E731
        alike: dict[tuple, list[Made]] = {}
        for c in self.collectives:
            alike.setdefault((c.kind, where(c), c.outs, c.behind, c.pieces, c.times), []).append(c)
        return [
            (
                f"{c.kind}_{where(c)}",
                "?" if c.times is None else f"{(1 + len(more)) * c.times:,}",
                ", ".join(f"{dtype}{list(shape)}" for dtype, shape in c.outs),
                show.bytes(c.bytes),
                show.bytes(c.wire + sum(other.wire for other in more)),
                "nothing" if c.behind is None else f"{c.behind} matmul{'s' * (c.behind != 1)}{pieces(c)}",
            )
            for c, *more in alike.values()
        ]

    @property
    def below(self) -> list[str]:
        """What the table does not show: memory, a refusal, where the record comes from."""
        out = [str(self.refused)] if self.refused else [] if self.collectives else ["It sends nothing."]
        if m := self.memory:
            out.append("Memory on one device: " + ", ".join(f"{k} {show.ibytes(n)}" for k, n in vars(m).items()) + ".")
        return out + ([self.note] if self.note else [])


def made(f: Callable, *args, mesh: jax.sharding.Mesh | None = None) -> Program:
    """Compile `f(*args)` for the devices of its arguments and read what the compiler made of it; nothing is run.

    f     a function, or `jax.jit(f, out_shardings=…)` where the result's sharding matters
    args  arrays or `jax.ShapeDtypeStruct`s with shardings
    mesh  the mesh whose axes name the groups; left out, that of the arguments or of a `shard_map` inside

    >>> import jax.numpy as jnp
    >>> made(jnp.sin, jax.ShapeDtypeStruct((8,), "float32")).collectives
    ()
    """
    jitted = f if hasattr(f, "lower") else jax.jit(f)
    mesh = mesh or mesh_of(jitted, *args)
    sizes = dict(mesh.shape) if mesh else {}
    lowered = jitted.lower(*args)
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as e:
        if (why := refusal(str(e))) is None:
            raise
        return Program("", sizes, (), refused=why)
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    platform = next((d.platform for s in shardings for d in s.device_set), jax.default_backend())
    m, text = compiled.memory_analysis(), Text(compiled.as_text())
    memory = m and Memory(
        m.argument_size_in_bytes, m.output_size_in_bytes, m.temp_size_in_bytes, getattr(m, "peak_memory_in_bytes", 0)
    )
    return Program(platform, sizes, read(text, sizes), text.matmuls_in(text.entry), memory)


def mesh_of(f: Callable, *args) -> jax.sharding.Mesh | None:
    """The mesh of the arguments' shardings, else of the first `shard_map` in the program, else None."""
    for x in jax.tree.leaves(args):
        mesh = getattr(getattr(x, "sharding", None), "mesh", None)
        if mesh is not None and mesh.size > 1:
            return mesh
    visits = walk(jax.make_jaxpr(f)(*args))
    return next((v.eqn.params["mesh"] for v in visits if v.name == "shard_map"), None)


def to_json(program: Program) -> dict:
    """The record as numbers and text, for a JSON file; `from_json` reads it back."""
    return {k: v for k, v in asdict(program).items() if k != "note"}


def from_json(record: Mapping, note: str = "") -> Program:
    """A stored record, with a note that says where it comes from."""
    arrays = lambda xs: tuple((t, tuple(s)) for t, s in xs)  # noqa: E731
    axes = lambda names: None if names is None else tuple(names)  # noqa: E731
    sent = tuple(
        Made(**c | {"axes": axes(c["axes"]), "ins": arrays(c["ins"]), "outs": arrays(c["outs"])})
        for c in record["collectives"]
    )
    memory = record["memory"] and Memory(**record["memory"])
    refused = record["refused"] and Refused(**record["refused"])
    return Program(record["target"], dict(record["sizes"]), sent, record["matmuls"], memory, refused, note)


def refusal(message: str) -> Refused | None:
    """The two numbers of a compiler's out-of-memory error; None if it is another error.

    >>> print(refusal("Ran out of memory on HBM, the total ... temporaries (20.50G) exceeds available HBM (15.75G)."))
    The compiler refuses: on one device the program needs 20.50 GiB of HBM, and 15.75 GiB are available.
    """
    if "out of memory" not in message or "hbm" not in message.lower():
        return None
    size = r"([\d.]+)([KMGT])"
    m = re.search(rf"\({size}\) exceeds available HBM \({size}\)", message) or re.search(
        rf"Used {size} of {size} hbm", message
    )
    if not m:
        return None
    scale = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    return Refused(float(m[1]) * scale[m[2]], float(m[3]) * scale[m[4]])
