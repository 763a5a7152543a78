"""Adam, on arrays cut in any way: it works number by number, so a device that holds a shard updates that shard (chapter 4).

Ten bytes for a parameter in bf16: 2 for itself and 4 for each of the two averages, which are f32; 14 with a master copy.

A bf16 number has eight significant bits: next to 1.0 lie 0.996 and 1.008. A step of Adam moves a weight by about the rate,
1e-4, so the sum rounds back to where it was, step after step. So training in bf16 keeps a MASTER COPY of the weights in
f32, which is what is updated; the weights that are multiplied with are that copy, rounded.

Source: Kingma and Ba, "Adam" (2015); Micikevicius et al., "Mixed Precision Training" (2018) for the master copy;
Rajbhandari et al., "ZeRO" (2020) for cutting the state.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from helpers.kernels import operands


class Moments(NamedTuple):
    """Running averages of the gradient and of its square, trees like the parameters, in f32; steps so far.

    master   the parameters in f32, if there is a master copy
    """

    mean: Any
    square: Any
    t: jax.Array
    master: Any = None


@dataclass(frozen=True)
class Adam:
    """rate: how far a step goes; b1, b2: what an average keeps of itself; eps: added to the root of the square."""

    rate: float = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    @staticmethod
    def start(params, master: bool = False) -> Moments:
        """Zeros; with an f32 copy of the parameters if they are to have a master copy."""
        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
        copy = jax.tree.map(lambda p: p.astype(jnp.float32), params) if master else None
        return Moments(zeros, zeros, jnp.zeros((), jnp.int32), copy)

    def update(self, params, gradients, moments: Moments):
        """(parameters, moments) after one more step; both averages are scaled up while they are young.

        With a master copy that is what takes the step, and the parameters are that copy, rounded to their type.

        >>> adam, w = Adam(rate=0.5), jnp.zeros(2)
        >>> w, moments = adam.update(w, jnp.array([3.0, -0.01]), adam.start(w))
        >>> w.round(4).tolist()                               # the first step is the rate, whatever the gradient
        [-0.5, 0.5]
        """
        operands.alike("parameters", params, "gradients", gradients)
        t = moments.t + 1
        gradients = jax.tree.map(lambda g: g.astype(jnp.float32), gradients)
        mean = jax.tree.map(lambda m, g: self.b1 * m + (1 - self.b1) * g, moments.mean, gradients)
        square = jax.tree.map(lambda v, g: self.b2 * v + (1 - self.b2) * jnp.square(g), moments.square, gradients)
        young1, young2 = 1 - self.b1**t, 1 - self.b2**t

        def one(p, m, v):
            return (p - self.rate * (m / young1) / (jnp.sqrt(v / young2) + self.eps)).astype(p.dtype)

        if moments.master is None:
            return jax.tree.map(one, params, mean, square), Moments(mean, square, t)
        master = jax.tree.map(one, moments.master, mean, square)
        params = jax.tree.map(lambda p, whole: whole.astype(p.dtype), params, master)
        return params, Moments(mean, square, t, master)
