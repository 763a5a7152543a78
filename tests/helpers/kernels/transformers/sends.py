"""Programs of `helpers.kernels.transformers` whose collectives are listed; see tools/sends.py."""

from functools import partial

import jax

from helpers.costs.transformers.config import MoE
from helpers.kernels.transformers import decoder, mixture_of_experts
from tests.helpers.kernels.abstract_arrays import bf16, both_passes, mesh
from tests.helpers.kernels.transformers.families import toy

T, PLACES = 64, 4


def over_devices(moe, wrap=lambda f: f):
    """T tokens and E experts over eight devices, `PLACES` places for each expert from each device."""
    c = toy(L=1, moe=moe)
    p = {name: a for name, a in decoder.shapes(c)["layers"][0].items() if "experts" in name or name == "W_R"}
    leaf = lambda a: isinstance(a, tuple)  # noqa: E731
    p = jax.tree.map(lambda a: bf16(*a[1:]), p, is_leaf=leaf)
    specs = {name: jax.P("X") if name == "experts" else jax.P() for name in p}

    def on_device(p, x):
        return mixture_of_experts.over_devices(p, x, c, PLACES, "X")

    def run(p, x):
        over = dict(in_specs=(specs, jax.P("X")), out_specs=(jax.P("X"), jax.P()), check_vma=False)
        return jax.shard_map(on_device, mesh=mesh(X=8), **over)(p, x)

    return wrap(run), (p, bf16(T, c.D))


def of_tokens(f):
    """Both passes of what becomes of the tokens; how many were dropped has no gradient."""
    return both_passes(lambda *args: f(*args)[0])


EXPERTS = MoE(E=16, k=2, F=9)
PROGRAMS = {
    "mixture_of_experts.over_devices, 16 experts over 8": partial(over_devices, EXPERTS),
    "mixture_of_experts.over_devices, 16 experts over 8, forward and backward": partial(
        over_devices, EXPERTS, of_tokens
    ),
    "mixture_of_experts.over_devices, one shared expert besides": partial(over_devices, MoE(E=16, k=2, F=9, shared=1)),
}
