"""Pipelines: a model's layers in stages along mesh axis Z, microbatches through them in any order of tasks (chapter 4).

An order of `costs.training.pipeline_schedules` becomes a table of ticks; a tick is one task F, B or W on each device, or none (BW takes
two). Each device looks up its task, does it, and passes on what it made: activations to the right, their gradients to the left. One
`lax.scan` runs all ticks, so a program has the same size for any number of microbatches.

Another stage needs m activations and m gradients across each of the stages - 1 boundaries, and
`costs.training.training_step.step` prices those of a device between two others, v·m each way. The program runs one permute each way in
every tick, of zeros where there is nothing to send, since what a loop of JAX sends does not depend on the turn. On a chip they would
run beside the next task.

Stage s lies on device s mod p. Every buffer has as many places as its schedule fills at once: of what a stage keeps from F
to W, that is m for GPipe and p for 1F1B.

Source: Huang et al., "GPipe" (2019); Narayanan et al. (2021); Qi et al., "Zero Bubble Pipeline Parallelism" (2024).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import P, lax

from helpers.costs.training.pipeline_schedules import Orders, simulate
from helpers.kernels import operands
from helpers.kernels.sharding.collectives import LEFT, RIGHT, hop

from . import mlp_training_step

TASKS = ("", "F", "B", "W")
Z = "Z"


@dataclass(frozen=True)
class Ticks:
    """What each device does in each tick: arrays [ticks, devices].

    task, micro, chunk    number of the task in `TASKS`, its microbatch, and which of the device's stages
    places                how many places each buffer needs: "x" and "dy" for what has arrived, "kept" from F to W,
                          "both" from B to W
    stages                how many there are
    """

    task: np.ndarray
    micro: np.ndarray
    chunk: np.ndarray
    places: dict[str, int]
    stages: int

    @property
    def bubble(self) -> float:
        """Share of all ticks in which a device does nothing."""
        return float(np.mean(self.task == 0))

    def __str__(self) -> str:
        """A line for each device: the task and its microbatch, or a dot.

        >>> from helpers.costs.training.pipeline_schedules import pipeline
        >>> print(ticks(pipeline("ZB-H1", p=2, m=2)))
        F0 F1  . B0 W0 B1 W1
         . F0 B0 F1 B1 W0 W1
        """
        cells = np.where(self.task == 0, ".", np.char.add(np.array(TASKS)[self.task], self.micro.astype(str))).T
        wide = max(map(len, cells.flat))
        return "\n".join(" ".join(cell.rjust(wide) for cell in row) for row in cells)

    def rows(self) -> dict[str, np.ndarray]:
        """What the program looks up: also whether the stage is the first or last, and where to put what arrives."""
        p = self.task.shape[1]
        stage = self.chunk * p + np.arange(p)
        out = dict(task=self.task, micro=self.micro, chunk=self.chunk, first=stage == 0, last=stage == self.stages - 1)
        for name, kind, way in (("x", 1, RIGHT), ("dy", 2, LEFT)):
            sends = (self.task == kind) & (stage + way >= 0) & (stage + way < self.stages)
            to = np.where(sends, stage + way, 0)
            place = np.where(sends, self.micro % self.places[name], self.places[name])  # one more: for what is nothing
            out[f"{name} chunk"], out[f"{name} place"] = (np.roll(a, way, axis=1) for a in (to // p, place))
        return out


def ticks(orders: Orders) -> Ticks:
    """The table of an order; `costs.training.pipeline_schedules.simulate` refuses one that cannot be carried out.

    >>> t = ticks([[(0, 0, "F"), (0, 0, "BW")], [(1, 0, "F"), (1, 0, "BW")]])
    >>> print(t)
    F0  .  .  . B0 W0
     . F0 B0 W0  .  .
    """
    p, timeline = len(orders), simulate(orders)
    stages = 1 + max(e.task.stage for e in timeline.events)
    if stages % p or (wrong := next((e for e in timeline.events if e.device != e.task.stage % p), None)):
        said = f"{stages} stages do not fill {p} devices" if stages % p else f"{wrong.task} is on device {wrong.device}"
        raise ValueError(f"stage s lies on device s mod {p}, so that neighbours send to each other: {said}")
    table = np.zeros((3, round(timeline.span), p), np.int32)
    at = {}
    for e in timeline.events:
        for k, kind in enumerate(e.task.kind):  # BW: B, then W
            at[kind, e.task.stage, e.task.micro] = tick = round(e.start) + k
            table[:, tick, e.device] = TASKS.index(kind), e.task.micro, e.task.stage // p
    return Ticks(*table, _places(at, stages), stages)


def _places(ticks: dict, stages: int) -> dict[str, int]:
    """Buffers: microbatch i lies in place i mod n; n is the least with which nothing is overwritten that is still needed."""
    # Of each buffer: (stage, micro, first tick after it is made, last that needs it).
    lives = {name: [] for name in ("x", "kept", "dy", "both")}
    for (kind, s, i), tick in ticks.items():
        if kind == "F":
            lives["kept"].append((s, i, tick + 1, ticks["W", s, i]))
            lives["x"] += [(s, i, ticks["F", s - 1, i] + 1, tick)] if s else []
        elif kind == "B":
            lives["both"].append((s, i, tick + 1, ticks["W", s, i]))
            made = ticks["B", s + 1, i] if s < stages - 1 else ticks["F", s, i]
            lives["dy"].append((s, i, made + 1, tick))
    return {name: _least(some) for name, some in lives.items()}


def _least(lifetimes: list[tuple[int, int, int, int]]) -> int:
    def clash(n):
        last = {}
        for s, i, born, dies in sorted(lifetimes, key=lambda x: x[2]):
            if last.get((s, i % n), -1) >= born:
                return True
            last[s, i % n] = dies
        return False

    return next(n for n in range(1, len(lifetimes) + 2) if not clash(n))


# Stages.


class Stage(NamedTuple):
    """What a stage does with one microbatch, of weights w[l, ...], l layers.

    forward            (x, w) -> (y, kept)
    input_gradient     (dy, kept, w) -> (dx, both): the half of the backward pass that the stage below waits for
    weight_gradient   (kept, both, w) -> dw: the other half
    head               (top, y, target) -> (loss, dtop, dy), after the last stage
    """

    forward: Callable
    input_gradient: Callable
    weight_gradient: Callable
    head: Callable


def two_matmul(size: int) -> Stage:
    """Stages of two-matmul layers by hand, and |y - target|^2 / 2 `size`. F, B and W are 4BDF FLOPs each."""

    def input_gradient(dy, residuals, w):
        def one(dOut, of_layer):
            dIn, dTmp = mlp_training_step.input_gradient(dOut, *of_layer)
            return dIn, (dOut, dTmp)

        return lax.scan(one, dy, (residuals, w), reverse=True)

    def weight_gradient(residuals, gradients, w):
        dOut, dTmp = gradients
        return jax.vmap(mlp_training_step.weight_gradient)(dOut, residuals, dTmp)

    def head(head_weights, y, target):
        operands.alike("results", y, "targets", target)
        return jnp.sum((y - target) ** 2) / (2 * size), head_weights, (y - target) / size

    return Stage(lambda x, w: lax.scan(mlp_training_step.forward, x, w), input_gradient, weight_gradient, head)


# The program.


class State(NamedTuple):
    """What a device holds while the ticks go by; buffers are [its stages, places, ...]."""

    x: jax.Array
    kept: jax.Array
    dy: jax.Array
    both: jax.Array
    dw: jax.Array
    dtop: jax.Array
    dxs: jax.Array
    loss: jax.Array


class Gradients(NamedTuple):
    """dw like w, dtop like top, dxs like xs; the loss; and the tasks that each device did, [ticks, p] as in `TASKS`."""

    dw: jax.Array
    dtop: jax.Array
    dxs: jax.Array
    loss: jax.Array
    done: jax.Array


def gradients(stage: Stage, orders: Orders, mesh: jax.sharding.Mesh) -> Callable:
    """The program (w, top, xs, targets) -> `Gradients` of a pipeline.

    w             weights of all L layers, trees of [L, ...]: stage s gets L / stages of them
    top           what `stage.head` needs besides, on every device
    xs, targets   the microbatches, [m, b, ...]; where the mesh has an axis X, it cuts b: a pipeline for each part of the batch
    """
    t = ticks(orders)
    p, m = operands.axis(mesh, Z), 1 + max(task[1] for order in orders for task in order)
    if p != len(orders):
        raise ValueError(f"this order is for {len(orders)} devices, and axis {Z} of the mesh has {p}: make them equal")
    rows, v, X = t.rows(), t.stages // p, "X" if "X" in mesh.axis_names else None

    def on_device(w, head_weights, xs, targets):
        w = jax.tree.map(lambda a: a[:, 0], w)  # [v, l, ...]: the device's stages
        here, start = lax.axis_index(Z), _empty(stage, t.places, w, head_weights, xs)
        tick = _tick(stage, t.places, w, head_weights, xs, targets)
        mine = {name: lax.dynamic_index_in_dim(jnp.asarray(a), here, 1, False) for name, a in rows.items()}
        end, done = lax.scan(tick, start, mine)
        dtop, loss = lax.psum((end.dtop, end.loss), Z)  # the last device has them, the others zeros
        dw, dtop, loss = lax.psum((end.dw, dtop, loss), X) if X else (end.dw, dtop, loss)
        return Gradients(jax.tree.map(lambda a: a[:, None], dw), dtop, end.dxs[None, :m], loss, done[:, None])

    def program(w, head_weights, xs, targets):
        L = len(jax.tree.leaves(w)[0])
        if L % t.stages:
            raise ValueError(f"{t.stages} stages do not share {L} layers evenly: make L a multiple of {t.stages}")
        if not len(xs) == len(targets) == m:
            raise ValueError(f"this order is for {m} microbatches, not {len(xs)} of xs and {len(targets)} of targets")
        # Stage j·p + d is chunk j of device d.
        w = jax.tree.map(lambda a: a.reshape(v, p, L // t.stages, *a.shape[1:]), w)
        cut, batch = P(None, Z), P(None, X)
        outs = Gradients(cut, P(), P(Z, None, X), P(), cut)
        run = jax.shard_map(on_device, mesh=mesh, in_specs=(cut, P(), batch, batch), out_specs=outs, check_vma=False)
        out = run(w, head_weights, xs, targets)
        return out._replace(dw=jax.tree.map(lambda a: a.reshape(L, *a.shape[3:]), out.dw), dxs=out.dxs[0])  # of stage 0

    return jax.jit(program)


def _empty(stage: Stage, places: dict[str, int], w, head_weights, xs) -> State:
    one, x = jax.tree.map(lambda a: a[0], w), xs[0]
    y, kept = jax.eval_shape(stage.forward, x, one)
    if (y.shape, y.dtype) != (x.shape, x.dtype):
        raise ValueError(f"a stage gives what the next one takes: {x.shape} became {y.shape}")
    _, both = jax.eval_shape(stage.input_gradient, y, kept, one)
    v = len(jax.tree.leaves(w)[0])
    rows = lambda n, tree: jax.tree.map(lambda a: jnp.zeros((*n, *a.shape), a.dtype), tree)  # noqa: E731
    buffers = dict(x=x, kept=kept, dy=y, both=both)
    made = [rows((v, places[name] + 1), tree) for name, tree in buffers.items()]
    return State(*made, rows((), w), rows((), head_weights), rows((len(xs) + 1,), x), jnp.zeros((), jnp.float32))


def _tick(stage: Stage, places: dict[str, int], w, head_weights, xs, targets) -> Callable:
    """(state, the device's row of the table) -> (state, the task that it did)."""

    def tick(state: State, row):
        i, j = row["micro"], row["chunk"]
        at = {name: (j, i % n) for name, n in places.items()}
        mine, zero = _get(w, j), jnp.zeros_like(xs[0])

        def nothing(s):
            return s, zero, zero, 0

        def F(s):
            x = jnp.where(row["first"], xs[i], _get(s.x, at["x"]))
            y, kept = stage.forward(x, mine)
            s = s._replace(kept=_set(s.kept, at["kept"], kept))
            return lax.cond(row["last"], loss, lambda s, y: s, s, y), y, zero, 1

        def loss(s, y):
            value, dtop, dy = stage.head(head_weights, y, targets[i])
            dtop = jax.tree.map(jnp.add, s.dtop, dtop)
            return s._replace(dy=_set(s.dy, at["dy"], dy), dtop=dtop, loss=s.loss + value.astype(s.loss.dtype))

        def B(s):
            dx, both = stage.input_gradient(_get(s.dy, at["dy"]), _get(s.kept, at["kept"]), mine)
            dxs = s.dxs.at[jnp.where(row["first"], i, len(xs))].set(dx)
            return s._replace(both=_set(s.both, at["both"], both), dxs=dxs), zero, dx, 2

        def W(s):
            dw = stage.weight_gradient(_get(s.kept, at["kept"]), _get(s.both, at["both"]), mine)
            return s._replace(dw=jax.tree.map(lambda a, d: a.at[j].add(d), s.dw, dw)), zero, zero, 3

        state, y, dx, did = lax.switch(row["task"], [nothing, F, B, W], state)
        x = _set(state.x, (row["x chunk"], row["x place"]), hop(y, Z, RIGHT))
        dy = _set(state.dy, (row["dy chunk"], row["dy place"]), hop(dx, Z, LEFT))
        return state._replace(x=x, dy=dy), did

    return tick


def _get(tree, index):
    return jax.tree.map(lambda a: a[index], tree)


def _set(tree, index, value):
    return jax.tree.map(lambda a, n: a.at[index].set(n), tree, value)


# Without microbatches: one batch through a chain of devices.
#
# Source: Austin et al. 2025, Section 5, whose loop is put right here: backward from the last stage to the first, each gradient
# at the stage's own input, which lies where its weights are.


def one_after_the_other(f: Callable, loss: Callable, weights: Sequence, x, devices: Sequence[jax.Device]):
    """(loss, the gradient of each stage's weights, on that stage's device) of y = f(x, w) for each w, stage i on device i.

    One batch, no microbatches: all devices but one wait.
    """
    weights = [jax.device_put(w, d) for w, d in zip(weights, devices, strict=True)]
    inputs = []
    for w, device in zip(weights, devices):
        x = jax.device_put(x, device)
        inputs.append(x)  # after it has moved: where its weights are
        x = f(x, w)
    value, dx = jax.value_and_grad(loss)(x)
    gradients = []
    for w, device, x in reversed(list(zip(weights, devices, inputs))):
        dx, dw = jax.vjp(f, x, w)[1](jax.device_put(dx, device))
        gradients.insert(0, dw)
    return value, gradients
