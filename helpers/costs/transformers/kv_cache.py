"""Bytes of a decoder's KV cache, from its `Config` (chapter 3), and the places that it takes up in pages (chapter 5)."""

from helpers.arguments import entries
from helpers.numeric import ceil, minimum, plain

from .config import Config


def kv_cache(c: Config, S, B=1, bytes_each=2, share=1, keep=0, scale=0, state=4):
    """Bytes of the KV cache of B sequences of S tokens.

    A full layer keeps 2·K·H numbers for each token, a local layer for the last `window` tokens only,
    and latent attention keeps kv_rank + rope, whatever N is. For a local layer that is the least: an engine whose pages
    hold the same tokens of all layers reserves S there, too, the cache of the same model without windows.
    An indexer keeps one key of its width for each token more, layers that read another one's cache keep nothing, and linear
    attention keeps its state and the inputs of its convolution, however long the sequence is.

    bytes_each  of a number: 2 for bf16, 1 for int8 and fp8, 0.5 for int4
    share       layers of one kind that keep one cache together. A step reads it once for each of them all the same,
                so share=1 gives the bytes that are read
    keep        tokens at the start that local layers keep beside their window (attention sinks)
    scale       bytes of the scales of one vector: a token's key, value, or latent vector in one KV head; 0: not quantised
    state       bytes of a number in a state of linear attention, which is summed up in float32; its inputs have `bytes_each`

    >>> from .public_models import model
    >>> kv_cache(Config(8192, 64, 64, 64, 128, 4 * 8192, 32000), 8192, bytes_each=1) / 2**30     # in GiB
    8.0
    >>> kv_cache(model("llama-2-13b"), 8192)
    6710886400
    >>> kv_cache(model("deepseek-v3"), 1), kv_cache(model("llama-3-70b"), 1)
    (70272, 327680)
    >>> c = model("llama-3-8b")
    >>> kv_cache(c, 1), kv_cache(c, 1, share=2), kv_cache(c, 1, bytes_each=1), kv_cache(c, 1, bytes_each=1, scale=4)
    (131072, 65536, 65536, 67584)
    >>> paged = kv_cache(model("gpt-oss-20b", window=None, full_every=None), 131072)    # a window of 128 in every other layer
    >>> f"{paged / kv_cache(model('gpt-oss-20b'), 131072):.2f}"
    '2.00'
    """
    if plain(share, keep, scale) and (share < 1 or keep < 0 or scale < 0):
        raise ValueError(f"share is 1 or more, keep and scale are 0 or more, got share={share}, {keep=}, {scale=}")
    width, vectors = (c.mla.kv_rank + c.mla.rope, 1) if c.mla else (2 * c.K * c.H, 2 * c.K)
    if c.indexer:
        width, vectors = width + c.indexer.width, vectors + 1
    each = width * bytes_each + vectors * scale
    own = [(kind, n) for kind, n in c.groups if not (kind.linear or kind.shares)]
    held = sum(ceil(n / share) * (S if k.window is None else minimum(S, k.window + keep)) for k, n in own)
    if c.linear is None:
        return B * held * each
    one = c.linear.state * state + c.linear.inputs * bytes_each
    return B * (held * each + sum(n for kind, n in c.groups if kind.linear) * one)


def paged_tokens(S, page):
    """Tokens that a cache of S takes up in pages: whole ones, so less than a page is wasted, and not what is left of S_max.

    >>> paged_tokens(33, 16), paged_tokens(32, 16)
    (48, 32)
    """
    return page * ceil(S / page)


entries(__name__)
