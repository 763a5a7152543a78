"""Formulas of answering with a model: step time, throughput, queue, price, caches out of reach (chapter 5).

B sequences are answered at once; a prompt has T tokens; a decode step makes one token of each sequence, which sees S keys.
kv is bytes of one sequence's cache, weights bytes of all weights, params the weights that a token is multiplied with.
C and W_hbm are FLOPs/s and bytes/s of memory of ALL chips of the replica: weights and caches are taken to lie on them evenly, and
nothing is sent between them. `prefill_and_decode_step` computes the same from a model's matrices, `sharding_limits` says what is sent.

Source: Austin et al. 2025, Section 7; errors of its text are listed in the course's errata (E003).
Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Iterable

from helpers.arguments import Count, formula, record
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.rooflines.roofline import critical_batch_limit
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.numeric import ceil, maximum, nonzero, sqrt, where


@formula
def attention_time(B, kv, W_hbm):
    """Seconds that a decode step takes to read the caches of B sequences.

    Its FLOPs take less, about G for a byte in bf16; not if all heads read one latent vector (`sharding_limits.absorbed_intensity`).
    """
    return B * kv / W_hbm


@formula
def linear_time(B, params, weights, C, W_hbm):
    """Seconds of all products with weights in a step of B tokens: flat while the weights are read, then linear in B.

    The two meet at the critical batch, `saturating_batch`, however many chips C and W_hbm belong to.

    >>> layer = 2 * 8192 * 32768                      # two matrices on four v5e: 537M weights, 331 us to read them
    >>> [round(1e6 * linear_time(B, layer, 2 * layer, 4 * 1.97e14, 4 * 8.1e11)) for B in (1, 240, 480)]
    [331, 331, 654]
    """
    return maximum(2 * B * params / C, weights / W_hbm)


@formula
def step_time(B, kv, params, weights, C, W_hbm):
    """Seconds of a decode step: the caches are read, and apart from that the slower of the weights' reading and FLOPs.

    >>> chips = dict(params=30e9, weights=30e9, C=16 * 1.97e14, W_hbm=16 * 8.1e11)    # 30B in int8, bf16 FLOPs, v5e 4x4
    >>> [round(1e3 * step_time(B, kv=100e3 * 8192, **chips), 2) for B in (4, 256)]         # ms
    [2.57, 21.05]
    """
    return attention_time(B, kv, W_hbm) + linear_time(B, params, weights, C, W_hbm)


@formula
def throughput(B, kv, params, weights, C, W_hbm):
    """Tokens per second of B sequences, one token of each in a step.

    >>> round(throughput(32, 6.7e9, 13e9, 26e9, 8 * 1.97e14, 8 * 8.2e11), 2)         # LLaMA-2 13B on 8 v5e
    873.21
    """
    return B / step_time(B, kv, params, weights, C, W_hbm)


@formula
def saturating_batch(chip: Chip, weights: str = "bf16", math: str = "bf16", E=1, k=1):
    """Tokens in a step of one REPLICA from which its products with weights are bound by FLOPs: half a weight's bytes · C/W_hbm.

    C is the rate of the type that the arithmetic runs in. So int8 weights halve the batch, and int8 arithmetic, at
    twice the rate, doubles it again. With experts E/k times as many. More chips to a replica change nothing.

    >>> v5e = chip("v5e")
    >>> [round(saturating_batch(v5e, w, m), 1) for w, m in (("bf16", "bf16"), ("int8", "bf16"), ("int8", "int8"))]
    [243.2, 121.6, 243.2]
    >>> round(saturating_batch(v5e, E=16, k=2)), round(saturating_batch(chip("H100")))
    (1946, 295)
    """
    return critical_batch_limit(chip.rate(math), chip.hbm_bandwidth, bytes_each(weights)) * E / k


@record
class Row:
    """A column of the tables of batches: B sequences, bytes of their caches, of these and the weights; seconds, tokens/s."""

    B: float
    cache: float
    total: float
    step: float
    throughput: float


@formula
def sampling_table(
    kv, params, weights, C, W_hbm, batches: Iterable[Count] = (1, 8, 16, 32, 64, 240)
) -> tuple[Row, ...]:
    """Memory, step time and throughput for each batch, whether it fits or not.

    >>> for r in sampling_table(6.7e9, 13e9, 26e9, 8 * 1.97e14, 8 * 8.2e11, (1, 16, 240)):     # LLaMA-2 13B, 8 v5e
    ...     print(f"{r.B} {r.cache / 1e9:.1f} GB {r.total / 1e9:.1f} GB {1e3 * r.step:.2f} ms {r.throughput:.2f}/s")
    1 6.7 GB 32.7 GB 4.98 ms 200.61/s
    16 107.2 GB 133.2 GB 20.30 ms 787.99/s
    240 1608.0 GB 1634.0 GB 249.09 ms 963.53/s
    """
    sizes = (kv, params, weights, C, W_hbm)
    return tuple(Row(B, B * kv, B * kv + weights, step_time(B, *sizes), throughput(B, *sizes)) for B in batches)


@formula
def naive_work(n):
    """Sampling n tokens with the whole prefix in each step: tokens that pass the matrices, pairs of query and key.

    The matrices' work grows as n²/2, attention's as n³/3: step i computes all i·i pairs, masked or not.

    >>> naive_work(4), cached_work(4)
    ((10.0, 30.0), (4, 10.0))
    """
    return n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6


@formula
def cached_work(n):
    """The same with a cache: each token passes once and looks at those up to itself."""
    return n, n * (n + 1) / 2


@formula
def receptive_field(layers: Count, window: Count):
    """Tokens back, itself included, that can reach a token through that many local layers: layers·(window - 1) + 1.

    >>> receptive_field(32, 4096), receptive_field(1, 4096)
    (131041, 4096)
    """
    return layers * (window - 1) + 1


@formula
def waiting(rate, service):
    """Mean seconds in the queue of one server: `rate` requests a second at random (Poisson), `service` seconds for each.

    rho·service / (2(1 - rho)) with rho = rate·service, Pollaczek and Khinchine; infinity when requests come faster than they go.

    >>> waiting(2.0, 0.25), waiting(5.0, 0.25)
    (0.125, inf)
    """
    rho = rate * service
    return where(rho < 1, rho * service / (2 * where(rho < 1, 1 - rho, 1.0)), float("inf"))


@formula
def cost_per_million(price, chips, rate):
    """Price of a million tokens on chips that cost `price` an hour each and make `rate` tokens/s together.

    >>> cost_per_million(price=1.0, chips=16, rate=1e4)
    0.4444444444444444
    """
    return 1e6 * price * chips / 3600 / rate


@formula
def reload_time(kv, pcie, setup=0.0):
    """Seconds to bring kv bytes of a cache from hosts' memory: `pcie` bytes/s of all chips' links, one way, after `setup`.

    >>> round(reload_time(6.7e9, 8 * 1.5e10) * 1e3, 1)           # 8192 tokens of LLaMA-2 13B, on 8 v5e: 55.8 ms
    55.8
    """
    return setup + kv / pcie


@formula
def reload_crossover(kv, params, C, pcie, pair_flops=0.0, setup=0.0):
    """Tokens of a prefix from which reloading its cache is faster than computing it; 0 if it always is, inf if it never is.

    kv          bytes of cache for ONE token
    params      weights of the layers: what a cache needs has no logits, and reads the embedding without multiplying
    pair_flops  FLOPs of attention for one query and key, all layers: 4·L·N·H; S tokens have S²/2 pairs
    setup       seconds before the first byte arrives

    setup + kv·S/pcie = (2·params·S + pair·S²/2) / C. Computing is taken to be bound by FLOPs, which favours it:
    short prefixes below the critical batch take as long as reading the weights.

    A model of GPT-2's size in bf16, with a large cache for that (GPT-2's own texts end at 1,024 tokens), and LLaMA-2 13B:

    >>> round(reload_crossover(36864, 12 * 12 * 768**2, 1.97e14, 1.5e10, pair_flops=36864))
    17051
    >>> reload_crossover(819200, 12.7e9, 1.97e14, 1.5e10, pair_flops=4 * 40 * 5120)
    0.0
    """
    a, b = pair_flops / 2 / C, 2 * params / C - kv / pcie
    root = sqrt(b * b + 4 * a * setup)
    slow = where(a > 0, (root - b) / nonzero(2 * a), float("inf"))
    return where(b > 0, 2 * setup / nonzero(b + root), slow)


# When pages run out: what it takes to compute a sequence again, or to swap its pages out and in.
#
# A preempted sequence of S tokens is computed again in one prefill of its prompt and of what was generated, or its pages go to
# the hosts over PCIe and come back. C FLOPs/s and pcie bytes/s are those of all chips, kv bytes of cache for one token. Neither
# is taken to hide behind other sequences' work.
#
# Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention" (2023), section 4.5 for
# the two ways, 7.3 for pages of few tokens, whose many small copies leave PCIe's bandwidth unused.


@formula
def recompute_time(S, params, C, pair_flops=0.0):
    """Seconds to compute S tokens again: (2·params·S + pair·S²/2) / C, bound by FLOPs.

    params      weights of the layers; the embedding is read without multiplying, and no logits are needed
    pair_flops  FLOPs of attention for one query and key, all layers: 4·L·N·H; S tokens have S²/2 pairs

    The size of the pages is not in it.

    >>> round(1e3 * recompute_time(1024, 12.7e9, 3.12e14, pair_flops=4 * 40 * 5120), 1)     # LLaMA-2 13B on an A100, ms
    84.7
    """
    return (2 * params * S + pair_flops * S**2 / 2) / C


@formula
def swap_time(S, kv, pcie, page=1, copies=1, setup=0.0):
    """Seconds to bring S tokens to the hosts and back, in pages of `page` tokens, whole ones.

    copies  for one page, one way: 1 if all layers of a page lie together, 2·L if each layer has keys and values of its own
    setup   seconds of a copy besides its bytes

    2 · ceil(S / page) · (page·kv/pcie + copies·setup).

    >>> [round(1e3 * swap_time(1024, 819200, 3.2e10, page, 80, 1e-5)) for page in (1, 16, 128)]    # ms
    [1691, 155, 65]
    """
    return 2 * ceil(S / page) * (page * kv / pcie + copies * setup)


@formula
def smallest_page(S: Count, kv, params, C, pcie, pair_flops=0.0, copies=1, setup=0.0):
    """Tokens of a page from which swapping S tokens is no slower than computing them again, if S fills its pages; inf: none.

    2·(S·kv/pcie + S/page·copies·setup) = `recompute_time`, solved for the page.

    >>> round(smallest_page(1024, 819200, 12.7e9, 3.12e14, 3.2e10, 4 * 40 * 5120, 80, 1e-5), 1)
    50.7
    """
    left = recompute_time(S, params, C, pair_flops) / 2 - S * kv / pcie
    return where(left > 0, copies * setup * S / nonzero(left), float("inf"))
