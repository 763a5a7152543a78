"""HSDP steps equal those of one device, and between hosts only a shard of the gradients goes, once a step."""

from math import prod

import numpy as np
import pytest

from helpers import trace
from helpers.kernels import mesh as meshes
from helpers.kernels.training import data_parallel_and_fsdp as hsdp, mlp_training_step as layer
from tests.helpers.kernels.training.mlp import ADAM, absent, two_steps

D, F, L = 8, 24, 3


@pytest.mark.parametrize(("s", "micro"), [(hsdp.HSDP, 2), (hsdp.FSDP_OVER_HOSTS, 1)], ids=["HSDP", "FSDP"])
@pytest.mark.sample(quick=1)
def test_steps_equal_those_of_one_device(s, micro):
    (alone, one), (held, eight) = two_steps(layer.ONE, ((1,), "X")), two_steps(s, ((2, 4), "XY"), micro)
    assert np.allclose(one, eight, rtol=1e-5)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(alone, held))
    shard = held.W_in.sharding.shard_shape(held.W_in.shape)
    assert prod(shard) * (4 if s is hsdp.HSDP else 8) == L * D * F


def sends(s, H, G, micro=1):
    """Bytes that a device sends between hosts and inside of one in a step, an axis as a ring, a matrix of bf16 counted."""
    grid = meshes.mesh((H, G), "XY")
    sent = trace.sent(layer.step(s, grid, ADAM, micro), *absent(16, D, F, L))
    mesh = meshes.costs_mesh(grid)
    return [sum(c.wire(mesh) for c in sent if c.axes == axes) for axes in (("X",), ("Y",), ("X", "Y"))]


@pytest.mark.parametrize(("H", "G"), [(2, 4), (4, 2)])
@pytest.mark.parametrize("micro", [1, 2])
def test_between_hosts_goes_a_shard_of_the_gradients_once_a_step(H, G, micro):
    matrices = 2 * L * D * F * 2  # bytes of all weights in bf16
    between, inside, both = sends(hsdp.HSDP, H, G, micro)
    assert both == 0 and between == 2 * matrices / G * (H - 1) / H  # an AllReduce of a shard
    assert inside == 3 * micro * matrices * (G - 1) / G  # two gathers and a scatter of each matrix
    assert sends(hsdp.FSDP_OVER_HOSTS, H, G, micro)[:2] == [0, 0]
