"""A tiny layer of experts in training, its experts left to themselves, balanced by a bias, or by a loss (chapter 8).

Tokens come in kinds, some of which are frequent: kind i as often as 1/(i + 1). A token is the centre of its kind and noise, its target
a function that differs between kinds, so experts that divide the kinds among themselves do better, and those of frequent kinds fill up.

    trained(), trained(nudge=0.01), trained(weight=1.0)        # nothing, a bias, a loss
    trained(nudge=0.01).fullest()                              # [steps]: choices on the fullest expert over the mean

Each step draws new tokens. Everything is small enough that each expert works on each token, and weights of 0 take away what was not
chosen: this shows balance, and no speed.

Source: Wang et al., "Auxiliary-Loss-Free Load Balancing" (2024); Fedus et al., "Switch Transformer" (2021).
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from helpers.kernels import operands
from helpers.kernels.transformers.adam import Adam

from .routers import Router, balance_loss, choose, loads, nudged
from .two_meshes import weighted

ROUTER = Router(2, "sigmoid")
KINDS, D, F, E = 32, 12, 12, 16


@dataclass(frozen=True)
class Run:
    """What was seen: loss[steps], the mean of squares over tokens alone; load[steps, E], choices of each expert; the bias[E] at the end."""

    loss: np.ndarray
    load: np.ndarray
    bias: np.ndarray

    def fullest(self) -> np.ndarray:
        """[steps]: choices on the fullest expert over the mean of all."""
        return self.load.max(1) / self.load.mean(1)


def tokens(steps: int, T: int) -> tuple[np.ndarray, np.ndarray]:
    """(x[steps, T, D], target[steps, T, D]), drawn: the same every time."""
    rng = np.random.default_rng(0)
    centres, turns = rng.standard_normal((KINDS, D)), rng.standard_normal((KINDS, D, D))
    often = 1 / np.arange(1, KINDS + 1)
    kind = rng.choice(KINDS, (steps, T), p=often / often.sum())
    x = centres[kind] + rng.standard_normal((steps, T, D)) / 4
    target = np.zeros_like(x)
    for i in range(KINDS):
        target[kind == i] = np.tanh(x[kind == i] @ turns[i] / D**0.5)
    return x.astype("float32"), target.astype("float32")


def start() -> dict[str, np.ndarray]:
    """Parameters: a router and experts of two matrices, small random numbers, the same every time."""
    rng, shapes = np.random.default_rng(1), dict(W_R=(D, E), W_in=(E, D, F), W_out=(E, F, D))
    return {name: (rng.standard_normal(s) * s[-2] ** -0.5).astype("float32") for name, s in shapes.items()}


def forward(params: dict, x, bias, axes=()):
    """(y[T, D], the choices of each expert [E] on all devices along `axes`, the loss of their balance)."""
    logits = x @ params["W_R"]
    expert, weight = choose(logits, ROUTER, bias)
    h = jax.nn.relu(jnp.einsum("td,edf->tef", x, params["W_in"]))
    y = jnp.einsum("te,tef,efd->td", weighted(expert, weight, E), h, params["W_out"])
    scores = jax.nn.sigmoid(logits)
    return y, loads(expert, E, axes), balance_loss(scores / scores.sum(-1, keepdims=True), expert, axes)


def step(state, x, target, nudge: float = 0.0, weight: float = 0.0, axes=()):
    """((parameters, moments, bias) after a step of Adam, (loss, load[E])) on a device's tokens x[T, D].

    nudge    by how much a bias is moved after the step
    weight   what the loss of balance is multiplied with before it is added
    axes     mesh axes that share the tokens: gradients are averaged, and choices counted, over all of them
    """
    params, moments, bias = state

    def loss(params):
        y, load, balance = forward(params, x, bias, axes)
        wrong = jnp.mean((y - target) ** 2)
        return wrong + weight * balance, (wrong, load)

    gradients, (wrong, load) = jax.grad(loss, has_aux=True)(params)
    if axes:
        gradients, wrong = lax.pmean((gradients, wrong), axes)
    params, moments = Adam(rate=3e-3).update(params, gradients, moments)
    return (params, moments, nudged(bias, load, nudge)), (wrong, load)


@jax.jit
def _steps(state, x, target, nudge, weight):
    return lax.scan(lambda s, batch: step(s, *batch, nudge, weight), state, (x, target))


def trained(nudge: float = 0.0, weight: float = 0.0, steps: int = 300, T: int = 512) -> Run:
    """A run from the start, T new tokens in each step; `nudge` and `weight` as in `step`: experts are left alone where both are 0."""
    operands.whole(steps=steps, T=T)
    params = start()
    (_, _, bias), (loss, load) = _steps(
        (params, Adam.start(params), jnp.zeros(E)), *tokens(steps, T), float(nudge), float(weight)
    )
    return Run(*map(np.asarray, (loss, load, bias)))
