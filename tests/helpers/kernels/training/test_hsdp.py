"""HSDP steps equal those of one device, and between hosts only a shard of the gradients goes, once a step."""

from math import prod

import numpy as np
import pytest

from helpers.kernels.training import data_parallel_and_fsdp as hsdp, mlp_training_step as layer
from tests.helpers.kernels.training.mlp import two_steps

D, F, L = 8, 24, 3


@pytest.mark.parametrize(("s", "micro"), [(hsdp.HSDP, 2), (hsdp.FSDP_OVER_HOSTS, 1)], ids=["HSDP", "FSDP"])
@pytest.mark.sample(quick=1)
def test_steps_equal_those_of_one_device(s, micro):
    (alone, one), (held, eight) = two_steps(layer.ONE, ((1,), "X")), two_steps(s, ((2, 4), "XY"), micro)
    assert np.allclose(one, eight, rtol=1e-5)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(alone, held))
    shard = held.W_in.sharding.shard_shape(held.W_in.shape)
    assert prod(shard) * (4 if s is hsdp.HSDP else 8) == L * D * F
