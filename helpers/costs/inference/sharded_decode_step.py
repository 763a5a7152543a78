"""A whole decode step or prefill of a model on a slice, links included, and the best way to cut it (chapter 5).

decode    Y chips share heads and F, Z of them the batch of the KV cache, and all Y·Z the weights: [2, B_Z, S, K_Y, H].
          Activations are whole everywhere. A layer sends two AllReduces of [B, D] over all chips (one if its blocks are
          parallel), and two AllToAlls over Z of its queries and of what attention gives. Latent attention has no heads to
          cut its cache by, so Y chips hold copies; it gathers its short vectors, [B, q_rank + kv_rank + rope], over all chips.
prefill   Y chips share heads and F, Z the tokens of each prompt. A layer gathers and scatters [T/Z, D] over Y around each
          block, and gathers keys and values over Z, as a ring does; latent attention gathers its latent vectors over Z, each
          of which makes keys and values of all tokens from them, and its short vectors over Y.
Y lies along the slice first, Z takes the rest. Left out: what is sent to choose the next token (one number a sequence if
each chip looks among its own logits), and experts' uneven loads.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from helpers.arguments import formula, record
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.machines import divisors
from helpers.costs.rooflines.roofline import Time, Work, matmul, time
from helpers.costs.sharding.collective_prices import Group, tier_moves
from helpers.costs.sharding.collectives import Collective
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.costs.training import layout as layouts
from helpers.costs.training.layout import Layout, lies
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.layer_products import USUAL
from helpers.numeric import ceil, minimum, plain

from .prefill_and_decode_step import Pass, Point, Replica
from .sharding_limits import attention_sends


@record
class Choice:
    """A way to cut a model: ways of each kind, the seconds, and bytes on one chip.

    held  weights and, for decoding, caches of the fullest chip
    """

    Y: int
    Z: int
    time: Pass
    held: float
    fits: bool


@formula
def links(slice: Slice, Y, Z) -> tuple[Group, Group, Group]:
    """The chips along Y, along Z and along both.

    >>> [int(w.n) for w in links(Slice(chip("v5e"), (4, 4)), 8, 2)]
    [8, 2, 16]
    """
    layout = Layout(tp=int(Y), dp=int(Z)) if plain(Y, Z) else Layout(tp=Y, dp=Z)
    if plain(Y, Z):
        if layout.chips != slice.chips:
            raise ValueError(f"Y·Z = {Y}·{Z} = {Y * Z} is not the slice's {slice.chips} chips: make the product equal")
        if not lies(layout, slice):
            raise ValueError(
                f"Y={Y} does not lie along {'x'.join(map(str, slice.shape))} chips in whole rows: take a divisor"
            )
    along = layouts.groups(layout, slice)
    return along("tp"), along("dp"), along("tp", "dp")


def _check_heads(c: Config, degree) -> None:
    c.check_usual("a sharded pass", "output_gate", "shared_gate")
    if plain(c.N, degree) and c.N % degree:
        raise ValueError(f"N={c.N} heads do not divide over {degree:g} ways: take a divisor of N")


@formula
def mixed_works(replica: Replica, slice: Slice, Y, Z, B, S, T, cached, groups=None) -> dict[str, Work]:
    """A mixed step (`Replica.mixed_works`) as roofline's work of the fullest chip, links included: one pass of B + T tokens.

    Attention reads the share of the cache that its chip holds: with more ways than KV heads, copies; with a batch that Z
    does not divide, the larger part. T = 0 is a decode step. `groups` are what `links` gives, if it was called before.
    The prompt of which T tokens are read is one sequence, so its cache lies on Y chips, one of Z: these attend to it, while
    all of Z share what lies over everything. The AllReduces carry B + T rows.

    >>> s = Slice(chip("v5e"), (4, 4))
    >>> w = mixed_works(Replica(model("llama-3-8b"), s.chip), s, Y=8, Z=2, B=16, S=8192, T=0, cached=0)
    >>> {role: len(work.moves) for role, work in w.items()}
    {'projections': 1, 'attention': 2, 'mlp': 1, 'unembedding': 0}
    """
    replica, c, n = replace(replica, chip=slice.chip, chips=slice.chips), replica.config, slice.chips
    math = replica.math
    work_by_role = replica.mixed_works(B, S, T, cached)
    groups = groups or links(slice, Y, Z)
    _check_heads(c, Y * Z)
    # Beyond an even share: copies of heads, and the larger part of the batch.
    more = Work(bytes=0.0 if plain(B) and not B else _caches(replica, Y, Z, B, S) - replica.kv(S, B) / n, dtype=math)
    if not plain(T) or T:
        copies = replica.kv(cached + T) * (1 / minimum(Y, ways_by_heads(c)) - 1 / Y)
        read = replica.mixed_works(0, 0, T, cached)["attention"] * (1 / Y - 1 / n)
        more = more + read + Work(bytes=copies, dtype=math)
    (score,), short = c.mixer(USUAL).scores(absorbed=True), _short(c)
    *before, queries, results, total = attention_sends(B + T, c.N, c.D, score.query, score.result, Y, Z, math, short)
    sends = _by_role(c, work_by_role, before, (queries, results), (total,))
    return _on_a_chip(replica, n, work_by_role, sends, {"attention": more}, groups)


def _short(c: Config):
    """Numbers of the vectors that latent attention's down-projections make, its latent vector among them."""
    return c.mla.kv_rank + c.mla.rope + (c.mla.q_rank or 0) if c.mla else 0


def _caches(replica: Replica, Y, Z, B, S):
    """Bytes of caches on the fullest chip."""
    return ceil(B / Z) * replica.kv(S) / minimum(Y, ways_by_heads(replica.config))


@formula
def ways_by_heads(c: Config) -> int:
    """Ways that a cache can be cut by heads: latent attention has one for all.

    >>> ways_by_heads(model("llama-3-8b")), ways_by_heads(model("deepseek-v3"))
    (8, 1)
    """
    return 1 if c.mla else c.K


def _by_role(c: Config, roles: Iterable[str], gathers, exchanges, sums) -> dict[str, Sequence[Collective]]:
    """Collectives of a layer: `sums` behind a block are booked with the projections and with the MLP; parallel blocks share them."""
    mlp = "experts" if "experts" in roles else "mlp"
    return {"projections": (*gathers, *(() if c.parallel else sums)), "attention": exchanges, mlp: sums}


def _on_a_chip(replica: Replica, chips, work_by_role, sends_by_role, extra: dict[str, Work], groups) -> dict[str, Work]:
    """What the chip does that has most to do: an even share, `extra` work besides, and what all layers send."""
    group_of = dict(zip((("Y",), ("Z",), ("Y", "Z")), groups))
    out = {}
    for role, work in work_by_role.items():
        moves = []
        for sent in sends_by_role.get(role, ()):
            group = group_of[sent.axes]
            V = sent.bytes * (group.n if sent.kind == "AllToAll" else 1)
            moves.append(tier_moves(sent.kind, V, group)[0])
        sent_by_layers = Work(moves=tuple(moves), dtype=replica.math) * replica.config.L
        out[role] = work * (1 / chips) + extra.get(role, Work(dtype=replica.math)) + sent_by_layers
    return out


@formula
def prefill_works(replica: Replica, slice: Slice, Y, Z, T, B=1) -> dict[str, Work]:
    """A prefill of B prompts of T tokens as roofline's work of one chip, links included.

    >>> s = Slice(chip("v5e"), (4, 4))
    >>> w = prefill_works(Replica(model("llama-3-8b"), s.chip), s, Y=4, Z=4, T=8192)
    >>> {role: len(work.moves) for role, work in w.items()}
    {'projections': 2, 'attention': 1, 'mlp': 2, 'unembedding': 0}
    """
    groups = links(slice, Y, Z)
    replica, c, n = replace(replica, chip=slice.chip, chips=slice.chips), replica.config, slice.chips
    tokens, math = B * T, replica.math
    _check_heads(c, Y)
    work_by_role = replica.works(B, T, logits=1)
    more = {  # every Z reads the weights of its Y again
        role: Work(bytes=read * (1 / Y - 1 / n), dtype=math) for role, read in replica.weights_read(tokens).items()
    }
    if c.mla:  # of the vectors that it gathers each chip makes its heads' keys and values
        x, sizes = bytes_each(math), c.mixer(USUAL).matrices(c.D)["kv_up"]
        made = matmul(tokens, *sizes, x, 0, x, math)
        more["projections"] += made * (c.L * (1 / Y - 1 / n))
    (score,), rows = c.mixer(USUAL).scores(absorbed=True), tokens / Z
    keys = score.cached / minimum(Y, ways_by_heads(c))
    short = Collective("AllGather", ("Y",), (rows, _short(c) / Y), (rows, _short(c)), math)
    ring = Collective("AllGather", ("Z",), (rows, keys), (tokens, keys), math)
    block = (
        Collective("AllGather", ("Y",), (rows, c.D / Y), (rows, c.D), math),
        Collective("ReduceScatter", ("Y",), (rows, c.D), (rows, c.D / Y), math),
    )
    sends = _by_role(c, work_by_role, [short] if c.mla else [], [ring], block)
    return _on_a_chip(replica, n, work_by_role, sends, more, groups)


def _priced(work_by_role: dict[str, Work], replica: Replica, slice: Slice) -> Pass:
    """Seconds of each role at one chip's rates."""
    chip, C = slice.chip, slice.chip.rate(replica.math)
    seconds = {
        role: time(work, C, chip.hbm_bandwidth, hop=chip.hop, ici=chip.link_bandwidth)
        for role, work in work_by_role.items()
    }
    return Pass({role: Time({"ici": 0.0} | t.parts) for role, t in seconds.items()})


@formula
def decode(replica: Replica, slice: Slice, Y, Z, B, S, groups=None) -> Pass:
    """Seconds of one decode step on a slice; `groups` as in `mixed_works`.

    >>> from helpers.costs.transformers.config import Config
    >>> s, c = Slice(chip("v5e"), (4, 4)), Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none")
    >>> step = decode(Replica(c, s.chip, weights="int8", cache="int8", math="int8"), s, Y=8, Z=2, B=6, S=131072)
    >>> f"{1e3 * step.time.parts['hbm']:.1f} ms of HBM, {1e3 * step.time.parts['ici']:.1f} ms of links"   # Austin et al. 2025, question 4
    '17.3 ms of HBM, 1.0 ms of links'
    """
    return _priced(mixed_works(replica, slice, Y, Z, B, S, 0, 0, groups), replica, slice)


@formula
def mixed(replica: Replica, slice: Slice, Y, Z, B, S, T, cached, groups=None) -> Pass:
    """Seconds of a mixed step on a slice.

    >>> s = Slice(chip("v5e"), (2, 4))
    >>> r = Replica(model("llama-3-8b"), s.chip)
    >>> [f"{1e3 * mixed(r, s, 8, 1, B, 4096, T, 0).seconds:.2f} ms" for B, T in ((16, 0), (0, 256), (16, 256))]
    ['3.91 ms', '4.64 ms', '6.17 ms']
    """
    return _priced(mixed_works(replica, slice, Y, Z, B, S, T, cached, groups), replica, slice)


@formula
def prefill(replica: Replica, slice: Slice, Y, Z, T, B=1) -> Pass:
    """Seconds of a prefill on a slice."""
    return _priced(prefill_works(replica, slice, Y, Z, T, B), replica, slice)


@formula
def held(replica: Replica, slice: Slice, Y, Z, B=0, S=0):
    """Bytes of weights and caches on the fullest chip."""
    replica.config.check_usual("a sharded pass", "output_gate", "shared_gate")
    return replica.weight_bytes / slice.chips + (0.0 if plain(B) and not B else _caches(replica, Y, Z, B, S))


@formula
def splits(replica: Replica, slice: Slice, kind: str, B: int = 1, S: int = 1) -> tuple[Choice, ...]:
    """Every way to cut a "decode" step of B sequences that see S keys, or a "prefill" of B prompts of S: what fits first,
    then the quickest (weights of a prefill lie on Y chips, and are copied along Z).

    >>> s = Slice(chip("v5e"), (4, 4))
    >>> best = splits(Replica(model("llama-3-8b"), s.chip), s, "decode", B=16, S=8192)[0]
    >>> best.Y, best.Z, best.fits
    (8, 2, True)
    """
    if kind not in ("decode", "prefill"):
        raise ValueError(f"a pass is 'decode' or 'prefill', not {kind!r}")
    out = []
    for Y in divisors(slice.chips):
        Z = slice.chips // Y
        if not lies(Layout(tp=Y, dp=Z), slice) or replica.config.N % (Y * Z if kind == "decode" else Y):
            continue
        if kind == "decode":
            seconds, bytes_held = decode(replica, slice, Y, Z, B, S), held(replica, slice, Y, Z, B, S)
        else:
            seconds = prefill(replica, slice, Y, Z, S, B)
            bytes_held = replica.weight_bytes / Y + replica.kv(S, B) / (minimum(Y, ways_by_heads(replica.config)) * Z)
        out.append(Choice(Y, Z, seconds, bytes_held, bytes_held <= slice.chip.hbm_bytes - replica.reserve))
    if not out:
        raise ValueError(
            f"N={replica.config.N} heads cannot be cut over {slice.chips} chips: take a slice whose chips divide them"
        )
    return tuple(sorted(out, key=lambda c: (not c.fits, c.time.seconds)))


@formula
def points(replica: Replica, S: int, batches: Iterable[int], slices: Iterable[Slice]) -> tuple[Point, ...]:
    """Every batch on every slice, cut in the best way, links included: for `frontier` and `cheapest` of `prefill_and_decode_step`.

    >>> v5e = chip("v5e")
    >>> some = points(Replica(model("llama-3-8b"), v5e), 8192, (1, 32), (Slice(v5e, (2, 2)), Slice(v5e, (4, 4))))
    >>> [(p.chips, p.B, p.fits, f"{1e3 * p.latency:.1f} ms") for p in some]
    [(4, 1, True, '5.1 ms'), (4, 32, True, '15.6 ms'), (16, 1, True, '1.7 ms'), (16, 32, True, '4.3 ms')]
    """
    batches, out = tuple(batches), []
    for s in slices:
        for B in batches:
            best = splits(replica, s, "decode", B, S)[0]
            rate = B / best.time.seconds
            out.append(Point(s.chips, B, best.time.seconds, rate, rate / s.chips, best.fits, best.time.bound))
    return tuple(out)
