"""Exported programs run in NumPy and traced operation by operation give what JAX gives; hostile ones are refused."""

import atexit
import functools
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src import compilation_cache
from jax.sharding import PartitionSpec as P

from autograder.engine import checker, program_reader
from autograder.engine.answer_process import lowered
from autograder.engine.answer_proxy import Link
from autograder.engine.exported_program import Imported, Readers
from autograder.engine.numpy_devices import Machine
from autograder.engine.program_data import Endless, Unsupported, parsed
from autograder.engine.traceable_program import inline
from helpers.kernels import mesh as meshes
from tests.scratch import ROOT

X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
I = np.array([2, 0, -1], np.int32)  # noqa: E741
BF = jnp.bfloat16
BOTH = P(("X", "Y"))
MESH = {"X": 4, "Y": 2}
ARGS = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((16, 8), (8, 12))]

HONEST = {
    "index": lambda x, i: x[i],
    "index-pairs": lambda x, i: x[i, i],
    "index-outside": lambda x, i: x[i + 3],
    "put": lambda x, i: x.at[i].set(7.0),
    "add-at": lambda x, i: x.at[jnp.abs(i)].add(1.0),
    "add-at-columns": lambda x, i: x.at[:, i].max(0.5),
    "put-outside": lambda x, i: x.at[i + 3].set(1.0),
    "take": lambda x, i: jnp.take(x, i, axis=1),
    "take-along": lambda x, i: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
    "segments": lambda x, i: jax.ops.segment_sum(x[:3], i + 1, 4),
    "each-its-own": lambda x, i: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (2,)))(x[:3], i),
    "sort": lambda x, i: (jnp.sort(jnp.log(x)), jnp.argsort(x, 0), jnp.median(x)),
    "top": lambda x, i: lax.top_k(x, 2),
    "arg": lambda x, i: (jnp.argmax(x, 0), jnp.argmin(x)),
    "cumulate": lambda x, i: (jnp.cumsum(x, 0), lax.cummax(x)),
    "window": lambda x, i: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
    "window-sum": lambda x, i: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 1), "SAME"),
    "pad": lambda x, i: (jnp.pad(x, 1), lax.pad(x, 1.0, ((-1, 2, 1), (0, -2, 0)))),
    "turn": lambda x, i: (x[::-1], jnp.roll(x, 1, 0), x.T, jnp.repeat(x, 2, 0), jnp.tril(x)),
    "clip": lambda x, i: (jnp.clip(x, 0, 1), jnp.where(x > 0, x, 0), jnp.round(3 * x), jnp.sign(x)),
    "choose": lambda x, i: lax.cond(i[0] > 0, lambda x: x + 1, lambda x: x - 1, x),
    "switch": lambda x, i: lax.switch(i[0], [lambda x: x + 1, lambda x: x - 1, lambda x: 3 * x], x),
    "place": lambda x, i: lax.dynamic_update_slice(x, x[:2], (i[0] + 5, 0)),
    "cut": lambda x, i: lax.dynamic_slice(x, (i[0], i[2]), (2, 3)),
    "until": lambda x, i: lax.while_loop(lambda x: x[0, 0] < 30, lambda x: x * x + 1, x),
    "count": lambda x, i: lax.fori_loop(0, 7, lambda k, x: x.at[k % 4].add(1.0 + k), x),
    "swap": lambda x, i: lax.fori_loop(0, 5, lambda k, ab: (ab[1], ab[0] + ab[1]), (x, 2 * x)),
    "scan": lambda x, i: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(5), x),
    "soft": lambda x, i: (jax.nn.softmax(x), jax.nn.gelu(x), jax.nn.silu(x), jax.nn.logsumexp(x, 0)),
    "erf": lambda x, i: jax.nn.gelu(x, approximate=False),
    "products": lambda x, i: (x @ x.T, x @ x[0], jnp.einsum("ij,ik->ijk", x, x), jnp.einsum("ij,ij->i", x, x)),
    "moments": lambda x, i: (x.mean(), x.var(0), jnp.prod(x, 1), x.min(0)),
    "whole": lambda x, i: (i // 2, i % 2, lax.div(i, jnp.int32(2)), lax.rem(i, jnp.int32(2)), i**2, i << 1, i >> 1),
    "truth": lambda x, i: ((x > 0) & (x < 1), ~(x > 0), (x > 0).sum(), jnp.any(x > 2, 0), jnp.all(x < 3)),
    "types": lambda x, i: ((100 * x).astype(jnp.int8), x.astype(BF), i.astype(jnp.float32), x.astype(bool)),
    "small-types": lambda x, i: ((x.astype(BF) @ x.T.astype(BF)), jnp.sum(x.astype(BF), 0)),
    "random": lambda x, i: (jax.random.uniform(jax.random.key(0), (3,)), jax.random.normal(jax.random.key(1), (3,))),
    "bits": lambda x, i: lax.bitcast_convert_type(x, jnp.int32),
    "convolution": lambda x, i: jnp.convolve(x[0], x[1]),
}  # fmt: skip
LEFT_TO_JAX = {"convolution"}  # NumPy would be no faster
NO_SLOPE = {"index-outside", "put-outside"}  # that of a number which is not there


def exported(f):
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in (X, I)]
    return jax.export.export(jax.jit(f))(*shapes)


def kept(program) -> list:
    return [(X, I)[i] for i in program.module_kept_var_idx]


def same(got, wanted) -> None:
    wanted = jax.tree.leaves(wanted)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        close = 2e-2 if w.dtype == BF else 1e-5
        np.testing.assert_allclose(np.asarray(g, np.float64), np.asarray(w, np.float64), close, 1e-5)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.sample(quick=12)
def test_numpy_gives_what_jax_gives(name):
    program = exported(HONEST[name])
    machine = Machine(parsed(program), {"X": 1}, None)
    arrays = [{0: np.asarray(a)} for a in kept(program)]
    with np.errstate(all="ignore"):
        if name in LEFT_TO_JAX:
            with pytest.raises(Unsupported):
                machine.block(machine.functions["main"], arrays, (0,), {})
            return
        got = [x[0] for x in machine.block(machine.functions["main"], arrays, (0,), {})]
    same(got, jax.jit(HONEST[name])(X, I))


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.sample(quick=3, slow=17)
def test_tracing_gives_what_jax_gives(name):
    program = exported(HONEST[name])
    functions = parsed(program)
    run = lambda *args: inline(functions, [args[i] for i in program.module_kept_var_idx])  # noqa: E731
    same(jax.jit(run)(X, I), jax.jit(HONEST[name])(X, I))

    def total(f):
        return lambda x: sum(o.sum() for o in jax.tree.leaves(f(x, I)) if o.dtype == jnp.float32)

    if name in NO_SLOPE:
        return
    try:
        wanted = jax.grad(total(HONEST[name]))(X)
    except (TypeError, ValueError, NotImplementedError):
        return  # JAX itself has none
    np.testing.assert_allclose(jax.grad(total(run))(X), wanted, 1e-3, 1e-4)


TABLE = np.arange(4, dtype=np.float32)
HELD = jnp.arange(2, dtype=jnp.float32)  # as a learner may have in a cell


def looped(a, b):
    a = lax.fori_loop(0, 3, lambda _, a: lax.ppermute(a, "X", [(j, (j + 1) % 4) for j in range(4)]), a)
    return a @ lax.all_gather(b, "Y", axis=1, tiled=True)


def uneven(a, b):
    """Devices choose for themselves, and run a loop as often as their number says."""
    me = lax.axis_index("X")
    a = lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, 2 * s[1]), (me, a))[1]
    return lax.cond(me > 1, lambda x: x, lambda x: -x, a @ b)


BODIES = {
    "summed": lambda a, b: lax.psum(a @ b, ("X", "Y")),
    "scattered": lambda a, b: lax.psum_scatter(lax.all_gather(a, "X", axis=0, tiled=True) @ b, "X", tiled=True),
    "both-axes": lambda a, b: lax.all_gather(a @ b, ("Y", "X"), tiled=True)[:4],
    "exchanged": lambda a, b: lax.all_to_all(a @ b, "X", 0, 1, tiled=True).reshape(4, -1),
    "most": lambda a, b: lax.pmax(a @ b, "Y") + lax.axis_index("X"),
    "looped": looped,
    "constants": lambda a, b: (a @ b) * jnp.asarray(TABLE)[lax.axis_index("X")] + HELD[lax.axis_index("Y")],
    "nothing-needed": lambda a, b: jnp.full((2, 3), 7.0),
    "uneven": uneven,
}  # fmt: skip


def with_reader(made: Readers) -> Readers:
    """A thread of this process that reads programs, at the other end of a socket."""
    made.reader, theirs = socket.socketpair()

    def serve():
        with theirs:
            program_reader.serve(theirs, {})

    threading.Thread(target=serve, daemon=True).start()
    return made


@functools.cache
def readers() -> Readers:
    made = with_reader(Readers(None))
    atexit.register(made.end)
    return made


class NoChild(Link):
    def __init__(self, deadline=None):
        super().__init__(None, readers())
        self.deadline = deadline


def foreign(f, out=BOTH, deadline=None) -> tuple[Imported, jax.NamedSharding, list, object]:
    """A program of one device's function, as the checker gets it, what it would be given, and JAX's own."""
    mesh, specs = meshes.mesh((4, 2), ("X", "Y")), (P("X"), P(None, "Y"))
    sharded = jax.shard_map(f, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
    whole = jax.jit(sharded, keep_unused=True)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((16, 8), (8, 12))]
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    put = [jax.device_put(a, jax.NamedSharding(mesh, s)) for a, s in zip(arrays, specs)]
    again = lambda: bytes(jax.export.export(whole)(*shapes).serialize())  # noqa: E731
    asked = dict(axes=MESH, ins=list(specs), out=out, args=shapes)
    return Imported(lowered(whole, shapes), NoChild(deadline), again, asked), jax.NamedSharding(mesh, out), put, whole


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.sample(quick=4)
def test_devices_hold_what_jax_s_devices_hold(name, monkeypatch):
    program, held, put, whole = foreign(BODIES[name])
    wanted = np.asarray(whole(*put))
    monkeypatch.setattr(jax, "jit", None)  # from here on nothing is compiled
    got = program.run(put, held)
    assert got.sharding == held
    np.testing.assert_allclose(np.asarray(got), wanted, 1e-4, 1e-4)


def test_what_numpy_has_not_is_left_to_jax():
    for f in (lambda a, b: jnp.fft.fft(a @ b).real, lambda a, b: jnp.convolve((a @ b)[0], b[0])):
        program, held, put, whole = foreign(f)
        np.testing.assert_allclose(np.asarray(program.run(put, held)), np.asarray(whole(*put)), 1e-4)
    program, held, put, whole = foreign(lambda a, b: jnp.fft.fft(a @ b).real)
    program.whole = foreign(lambda a, b: jnp.fft.fft(a @ b).imag)[0].whole  # what was looked into is what runs
    np.testing.assert_allclose(np.asarray(program.run(put, held)), np.asarray(whole(*put)), 1e-4)


def test_a_program_must_be_cut_as_was_asked():
    mesh, ins = meshes.mesh((4, 2), ("X", "Y")), [P("X", None), P(None, "Y")]
    f = jax.shard_map(BODIES["summed"], mesh=mesh, in_specs=tuple(ins), out_specs=BOTH, check_vma=False)
    blob = lowered(jax.jit(f, keep_unused=True), ARGS)
    Imported(blob, NoChild(), asked=dict(axes=MESH, ins=ins, out=BOTH, args=ARGS))
    for ins_, out in [([P(), P(None, "Y")], BOTH), ([P("Y"), P(None, "Y")], BOTH), (ins, P(("Y", "X")))]:
        with pytest.raises(ValueError, match="as was asked"):
            Imported(blob, NoChild(), asked=dict(axes=MESH, ins=ins_, out=out, args=ARGS))


def test_nothing_is_computed_outside_of_the_devices():
    mesh = meshes.mesh((8,), ("X",))
    inner = jax.shard_map(lambda a: a, mesh=mesh, in_specs=P("X"), out_specs=P("X"), check_vma=False)
    blob = lowered(jax.jit(lambda a: inner(a * 2)), [jax.ShapeDtypeStruct((8,), jnp.float32)])
    with pytest.raises(ValueError, match="not one function on all devices"):
        args = [jax.ShapeDtypeStruct((8,), jnp.float32)]
        Imported(blob, NoChild(), asked=dict(axes={"X": 8}, ins=[P("X")], out=P("X"), args=args))


def test_calls_into_other_code_and_garbage_are_refused():
    shapes = [jax.ShapeDtypeStruct((4, 5), jnp.float32)]
    blob = lowered(jax.jit(lambda x: jnp.linalg.qr(x)[0]), shapes)
    with pytest.raises(ValueError, match="cannot carry out lapack"):
        Imported(blob, NoChild())
    called = lowered(jax.jit(lambda x: jax.pure_callback(lambda x: x, shapes[0], x)), shapes)
    with pytest.raises(ValueError, match="calls back into Python"):
        Imported(called, NoChild())
    for bad in (b"garbage", blob[:-50], b"module {}", b"module { func.func @other() { return } }", "text", None):
        with pytest.raises(ValueError, match="cannot be read|larger than"):
            Imported(bad, NoChild())


def test_a_program_without_end_is_stopped():
    program, held, put, _ = foreign(
        lambda a, b: lax.while_loop(lambda x: x[0, 0] < 1e30, jnp.sin, a @ b), deadline=time.process_time() + 0.2
    )
    with pytest.raises(Endless):
        program.run(put, held)


def test_a_program_is_never_taken_for_one_that_the_next_reader_has():
    """Else whoever ends the reader in between is counted by one program and run by another."""
    link, shapes = NoChild(), [jax.ShapeDtypeStruct((3,), jnp.float32)]
    link.readers = with_reader(Readers(None))
    counted = Imported(lowered(jax.jit(lambda x: x), shapes), link)
    link.readers.end()
    with_reader(link.readers)
    Imported(lowered(jax.jit(lambda x: 2 * x), shapes), link)
    with pytest.raises(ValueError, match="cannot be read"):
        _ = counted.functions
    link.readers.end()


RING = """
import os, sys
import jax
os.environ["XLA_FLAGS"] = " ".join(f"--xla_cpu_collective_call_{n}_timeout_seconds=3" for n in ("warn_stuck", "terminate"))
from helpers.kernels import mesh
mesh.devices()
from autograder.engine import checker
checker.keep_compiled(sys.argv[1])
from helpers.kernels.attention import dense_attention, ring_attention
from helpers.kernels.attention.masks import CAUSAL
from tests.helpers.kernels.attention.reference import close, draw, pulled
def alone(*arrays):
    return pulled(lambda q, k, v: dense_attention.attention(q, k, v, CAUSAL))(*arrays)
given, over = draw(2, 16, 16, 4, 2, 4), ring_attention.program(mesh.mesh((8,), ("X",)), "X")
close(jax.jit(pulled(over))(*given), jax.jit(alone)(*given), 1e-5)
"""


@pytest.mark.slow("compiles a program of eight devices")
def test_a_program_of_several_devices_runs_as_it_was_compiled(tmp_path):
    """This one ends the process if it is read from a disk."""
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", RING, tmp_path], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[:2000]
    kept = [p.name for p in tmp_path.iterdir()]
    assert [name for name in kept if name.startswith("jit_alone-")] and "jit_both-" not in "".join(kept)


def test_a_program_for_a_machine_that_is_not_here_is_not_kept(monkeypatch):
    """Its executable, as of `aot_compile_tpu`, has no devices here."""
    kept, here = [], SimpleNamespace(local_devices=lambda: ["the only one"])
    monkeypatch.setattr(compilation_cache, "put_executable_and_time", lambda key, *rest: kept.append(key))
    monkeypatch.setattr(jax.config, "update", lambda *args: None)
    checker.keep_compiled("")
    for key, executable in (("elsewhere", SimpleNamespace()), ("here", here)):
        compilation_cache.put_executable_and_time(key, "f", executable, None, 1)
    assert kept == ["here"]
