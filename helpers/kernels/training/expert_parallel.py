"""Expert parallelism: each device has its part of the batch and some of the experts; two AllToAlls take tokens there and back.

The backward pass is the transpose, so it has two more (chapter 4). With a capacity, what is sent does not depend on where the
tokens want to go: each device sends E·C places, used or not.

Source: Lepikhin et al., "GShard" (2020); Fedus et al., "Switch Transformer" (2021).
"""

from helpers.costs.transformers.config import Config
from helpers.kernels.transformers import mixture_of_experts


def mixed(p: dict, x, c: Config, axis: str, factor: float | None):
    """The experts in place of the MLP, x[B_X, T, D] -> [B_X, T, D].

    factor   places of an expert, over an even share of the tokens; None: room for every token here, so that none is dropped
    """
    rows = x.reshape(-1, c.D)
    C = len(rows) if factor is None else mixture_of_experts.capacity(len(rows), c.moe.E, c.moe.k, factor)
    return mixture_of_experts.over_devices(p, rows, c, C, axis)[0].reshape(x.shape)
