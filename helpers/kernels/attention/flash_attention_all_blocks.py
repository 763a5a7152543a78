"""Attention without its T x S matrix, as chapter 3 needs it: a running maximum, sum and output, and the gradient from them.

The running softmax is `online_softmax`, the loop over blocks `flash_attention`; here every block is computed, also those in
which nothing is seen. The forward pass keeps O and m + log ℓ, T(H + 1) numbers for each head instead of T · S; the backward pass
makes a chunk's softmax from them again.

Source: Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention" (2022).
"""

from . import flash_attention as blocks
from .masks import CAUSAL, FULL


def flash(q, k, v, causal: bool = True, rows: int = 128, columns: int = 128):
    """softmax(q k^T / sqrt(H)) v, `rows` queries with `columns` keys at a time; neither has to divide T or S.

    q[B, T, N, H], k and v[B, S, K, H] with N a multiple of K. With `causal`, the last query sees the last key, and chunks that
    nobody sees are computed all the same: this is the plain form, whose FLOPs are those of the whole rectangle.
    """
    return blocks.flash(q, k, v, CAUSAL if causal else FULL, None, rows, columns, skip=False)
