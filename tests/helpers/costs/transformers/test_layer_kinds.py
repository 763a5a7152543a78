"""Caches, FLOPs and bytes of layers of several kinds, by hand: linear attention, an indexer, shared caches, Gemma 3n."""

from helpers.costs.rooflines import roofline
from helpers.costs.transformers.kv_cache import kv_cache
from helpers.costs.transformers.parameters_and_flops import flops, works
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.transformers.decoders import EVERY


def test_caches_of_layers_of_several_kinds():
    """Qwen3-Next: 12 of 48 layers keep 2 heads of 256; Gemma 3n: 4 full and 16 local ones of 20 do, and 10 read theirs."""
    qwen, gemma = model("qwen-3-next-80b-a3b"), model("gemma-3n-e2b")
    state = 4 * 32 * 128 * 128 + 2 * 3 * (2 * 16 * 128 + 32 * 128)
    assert kv_cache(qwen, 10**5) == 12 * 10**5 * 2 * 2 * 256 * 2 + 36 * state
    assert kv_cache(qwen, 1) - kv_cache(qwen, 0) == 12 * 2048
    assert kv_cache(gemma, 32768) == (4 * 32768 + 16 * 512) * 2 * 2 * 256 * 2


def test_sparse_attention_grows_with_its_indexer_alone():
    """Beyond 2048 keys a token of DeepSeek-V3.2 has a constant number of pairs, and 64 scores of 128 for each key."""
    c = model("deepseek-v3.2")
    step = [flops(c, 1, 1, S, "causal", absorbed=True).attention for S in (2048, 4096, 8192)]
    assert step[2] - step[1] == 2 * (step[1] - step[0]) == 61 * 2 * 4096 * 64 * 128
    dense = flops(model("deepseek-v3"), 1, 1, 2048, "causal", absorbed=True).attention
    assert step[0] - dense == 61 * 2 * 2048 * 64 * 128


def test_bytes_of_a_decode_step_with_linear_attention():
    """Qwen3-Next: matrix by matrix, one full layer and three of Gated DeltaNet."""
    c, B, S = model("qwen-3-next-80b-a3b", L=4), 8, 4096
    w = works(c, B, 1, S)
    D, product = c.D, lambda a, b: roofline.matmul(B, a, b).bytes  # noqa: E731
    full = [(D, 16 * 256), (D, 16 * 256), (D, 2 * 256), (D, 2 * 256), (16 * 256, D)]
    delta = [(D, 16 * 128), (D, 16 * 128), (D, 32 * 128), (D, 32 * 128), (D, 64), (32 * 128, D)]
    convolution = 2 * 4 * (2 * 16 * 128 + 32 * 128)
    assert w["projections"].bytes == sum(product(*m) for m in full) + 3 * (
        sum(product(*m) for m in delta) + convolution
    )
    cache = B * S * 2 * 2 * 256 * 2 + B * 2 * 16 * 256 * 2
    states = 2 * B * (32 * 128 * 128 * 4 + 3 * 8192 * 2)  # all read and written
    assert w["attention"].bytes == cache + 3 * (states + B * (8192 + 32 * 128) * 2)


def test_bytes_of_a_decode_step_behind_an_indexer():
    """DeepSeek-V3.2: of a long cache 2048 latent vectors, and all of the indexer's keys."""
    c, B = model("deepseek-v3.2", L=1, moe=None), 4
    read = [works(c, B, 1, S, absorbed=True)["attention"].bytes for S in (1000, 2048, 10000)]
    queries = B * (128 * (2 * 512 + 64) + 64 * 128) * 2
    assert read == [queries + B * 2 * (min(S, 2048) * 576 + S * 128) for S in (1000, 2048, 10000)]


def test_a_step_reads_caches_that_layers_share():
    """Each layer of Gemma 3n reads its cache or that of another: more than is kept."""
    c, S = model("gemma-3n-e2b"), 8192
    read = works(c, 1, 1, S, w=0, x=0, cache=2)["attention"].bytes
    assert read == (6 * S + 24 * 512) * 2 * 2 * 256 * 2 > kv_cache(c, S)


def test_bytes_of_what_gemma_3n_adds():
    c, rows = EVERY["gemma-3n"], 6
    products = [(16, 2), (2, 16), (16, 7), (7, 16), (3, 3), (3, 9)] * 6 + [(16, 42)] + [(16, 16)] * 4
    router = [roofline.matmul(rows, 16, 3).bytes, 2 * rows * (16 + 3)]  # its weights once
    assert works(c, 2, 3)["added"].bytes == sum(roofline.matmul(rows, *m).bytes for m in products) + 6 * sum(router)
