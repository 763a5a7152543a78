"""Context parallelism: a sequence cut over devices; keys and values go round the ring, past every device's queries (chapter 4).

Norms, products with weights and the MLP look at one token at a time: they send nothing. Attention looks at all earlier ones, in the
ring of `kernels.attention.ring_attention`: n - 1 times a device passes on keys and values, while it works on them.
The backward pass sends them round once more, and their gradients with them, which need one hop more to be back home.

With a causal mask half of the work of this plain ring is masked, and the last device has more of the rest than any other.

Source: Liu et al., "Ring Attention with Blockwise Transformers" (2023); Austin et al. 2025, Section 5.
"""

from helpers.costs.transformers.config import Config
from helpers.kernels.attention.ring_attention import KEPT, ring as anyring
from helpers.kernels.transformers.decoder_layers import product, rotate

__all__ = ["KEPT", "attention", "ring"]


def attention(p: dict, x, at, c: Config, window: int | None, axis: str):
    """`decoder_layers.attention` of x[B, T_X, D] at positions at[T_X]: [B, T_X, D]."""
    B, T, _ = x.shape
    q = rotate(product(p, "W_Q", "btd,dnh->btnh", x), at)
    k = rotate(product(p, "W_K", "btd,dkh->btkh", x), at)
    v = product(p, "W_V", "btd,dkh->btkh", x)
    y = ring(q, k, v, axis, window).reshape(B, T, c.N, c.H)
    return product(p, "W_O", "btnh,nhd->btd", y)


def ring(q, k, v, axis: str, window: int | None = None):
    """Causal attention of a sequence cut over `axis`: q[B, T_X, N, H], k and v[B, T_X, K, H] -> [B, T_X, N, H]."""
    return anyring(q, k, v, axis, causal=True, window=window)
