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

from collections.abc import Iterable
from dataclasses import dataclass, replace

from helpers.arguments import entries
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.rooflines.roofline import Move, Time, Work, time
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.costs.training.layout import Layout, Wires, divisors, lies, together, wires
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import works
from helpers.numeric import ceil, minimum, plain

from .prefill_and_decode_step import Pass, Point, Replica

WAYS = ("decode", "prefill")


@dataclass(frozen=True)
class Choice:
    """A way to cut a model: ways of each kind, the seconds, and bytes on one chip.

    held  weights and, for decoding, caches of the fullest chip
    """

    Y: int
    Z: int
    time: Pass
    held: float
    fits: bool


def links(s: Slice, Y, Z) -> tuple[Wires, Wires, Wires]:
    """The wires of Y, of Z and of both.

    >>> from helpers.costs.rooflines.chips import chip
    >>> [int(w.n) for w in links(Slice(chip("v5e"), (4, 4)), 8, 2)]
    [8, 2, 16]
    """
    if plain(Y, Z):
        layout = Layout(tp=int(Y), dp=int(Z))
        if layout.chips != s.chips:
            raise ValueError(f"Y·Z = {Y}·{Z} = {Y * Z} is not the slice's {s.chips} chips: make the product equal")
        if not lies(layout, s):
            raise ValueError(
                f"Y={Y} does not lie along {'x'.join(map(str, s.shape))} chips in whole rows: take a divisor"
            )
    else:
        layout = Layout(tp=Y, dp=Z)
    at = wires(layout, s)
    return at["tp"], at["dp"], together([at["tp"], at["dp"]], bool(s.chip.axes))


def _may_be_sharded(c: Config, ways) -> None:
    c.check_usual("a sharded pass", "output_gate", "shared_gate")
    if plain(c.N, ways) and c.N % ways:
        raise ValueError(f"N={c.N} heads do not divide over {ways:g} ways: take a divisor of N")


def _gather(V, on: Wires, s: Slice, times=1) -> Move:
    """AllGathers or ReduceScatters of V bytes as roofline's move: bytes over a link one way, and hops."""
    return Move("ici", times * V * on.gather * s.chip.link_bandwidth, times * on.hops)


def _sum(V, on: Wires, s: Slice, times=1) -> Move:
    """The same of AllReduces."""
    return Move("ici", times * V * on.sum * s.chip.link_bandwidth, times * on.sum_hops)


def decode_works(r: Replica, s: Slice, Y, Z, B, S, at=None) -> dict[str, Work]:
    """One decode step as roofline's work of the fullest chip, links included.

    Attention reads the share of the cache that its chip holds: with more ways than KV heads, copies; with a batch that Z
    does not divide, the larger part. `at` is what `links` gives, for those who have asked before.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> s = Slice(chip("v5e"), (4, 4))
    >>> w = decode_works(Replica(model("llama-3-8b"), s.chip), s, Y=8, Z=2, B=16, S=8192)
    >>> {role: len(work.moves) for role, work in w.items()}
    {'projections': 1, 'attention': 1, 'mlp': 1, 'unembedding': 0}
    """
    r = replace(r, chip=s.chip, chips=s.chips)
    some = r.works(B, 1, S, absorbed=r.config.mla is not None)
    return _on_each(r, s, Y, Z, B, some, Work(bytes=_uneven(r, Y, Z, B, S), dtype=r.math), at)


def mixed_works(r: Replica, s: Slice, Y, Z, B, S, T, done, at=None) -> dict[str, Work]:
    """A mixed step (`Replica.mixed_works`) as roofline's work of the fullest chip, links included: one pass of B + T tokens.

    The prompt of which T tokens are read is one sequence, so its cache lies on Y chips, one of Z: these attend to it, while
    all of Z share what lies over everything. The AllReduces carry B + T rows.
    """
    r = replace(r, chip=s.chip, chips=s.chips)
    some = r.mixed_works(B, S, T, done)
    more = Work(bytes=0.0 if plain(B) and not B else _uneven(r, Y, Z, B, S), dtype=r.math)
    if not plain(T) or T:
        piece = r.mixed_works(0, 0, T, done)["attention"] * (1 / Y - 1 / s.chips)
        copies = replace(r, share=1).kv(done + T) * (1 / minimum(Y, _heads(r.config)) - 1 / Y)
        more = more + piece + Work(bytes=copies, dtype=r.math)
    return _on_each(r, s, Y, Z, B + T, some, more, at)


def _uneven(r: Replica, Y, Z, B, S):
    """Bytes of caches that the fullest chip reads beyond an even share: copies of heads, the larger part of the batch."""
    read = replace(r, share=1).kv(S)  # layers that share a cache read it each
    return ceil(B / Z) * read / minimum(Y, _heads(r.config)) - B * read / r.chips


def _on_each(r: Replica, s: Slice, Y, Z, tokens, some: dict[str, Work], more: Work, at) -> dict[str, Work]:
    """An even share of all chips' work, `more` for attention on the fullest chip, and what so many tokens have sent."""
    _, over_Z, over_all = at or links(s, Y, Z)
    c, x = r.config, bytes_each(r.math)
    _may_be_sharded(c, Y * Z)
    width = c.N * (2 * c.mla.kv_rank + c.mla.rope if c.mla else 2 * c.H)  # queries, and what attention gives
    swap = Move("ici", x * tokens * width / Y * over_Z.across * s.chip.link_bandwidth * c.L, 2 * over_Z.hops * c.L)
    total = _sum(x * tokens * c.D, over_all, s, times=c.L)
    out = {
        role: work * (1 / s.chips) + Work(moves=_around(c, role, some, total), dtype=r.math)
        for role, work in some.items()
    }
    if c.mla:  # the norms of the short vectors need all of their numbers, which lie over all chips
        short = (c.mla.q_rank or 0) + c.mla.kv_rank + c.mla.rope
        gather = _gather(x * tokens * short, over_all, s, times=c.L)
        out["projections"] += Work(moves=(gather,), dtype=r.math)
    out["attention"] += more + Work(moves=(swap,), dtype=r.math)
    return out


def _heads(c: Config) -> int:
    """Ways that a cache can be cut by heads: latent attention has one for all."""
    return 1 if c.mla else c.K


def _around(c: Config, role: str, some: dict, move: Move) -> tuple[Move, ...]:
    """The collectives around a block, booked with the projections and with the MLP; parallel blocks share them."""
    last = [block for block in ("mlp", "experts") if block in some][-1]
    return (move,) if role == last or (role == "projections" and not c.parallel) else ()


def prefill_works(r: Replica, s: Slice, Y, Z, T, B=1) -> dict[str, Work]:
    """A prefill of B prompts of T tokens as roofline's work of one chip, links included.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> s = Slice(chip("v5e"), (4, 4))
    >>> w = prefill_works(Replica(model("llama-3-8b"), s.chip), s, Y=4, Z=4, T=8192)
    >>> {role: len(work.moves) for role, work in w.items()}
    {'projections': 1, 'attention': 1, 'mlp': 1, 'unembedding': 0}
    """
    over_Y, over_Z, _ = links(s, Y, Z)
    r = replace(r, chip=s.chip, chips=s.chips)
    _may_be_sharded(r.config, Y)
    c, x, n = r.config, bytes_each(r.math), s.chips
    whole = r.works(B, T, logits=1)
    bare = works(c, B, T, w=0, x=x, count="causal", dtype=r.math, logits=1)
    block = _gather(x * B * T / Z * c.D, over_Y, s, times=2 * c.L)
    width = c.mla.kv_rank + c.mla.rope if c.mla else 2 * c.K * c.H / minimum(Y, c.K)
    out = {}
    for role, work in whole.items():
        weights = 0 if role == "attention" else work.bytes - bare[role].bytes  # every Z reads those of its Y again
        extra = Work(bytes=weights * (1 / Y - 1 / n), moves=_around(c, role, whole, block), dtype=r.math)
        out[role] = work * (1 / n) + extra
    out["attention"] += Work(moves=(_gather(x * B * T * width, over_Z, s, times=c.L),), dtype=r.math)
    if c.mla:
        short = (c.mla.q_rank or 0) + c.mla.kv_rank + c.mla.rope
        out["projections"] += Work(moves=(_gather(x * B * T / Z * short, over_Y, s, times=c.L),), dtype=r.math)
        made = c.N * (c.mla.nope + c.mla.v)  # of the vectors that it gathers each chip makes its heads' keys and values
        up = Work(2 * c.mla.kv_rank * made, x * (c.mla.kv_rank + made), dtype=r.math) * (B * T * c.L)
        out["projections"] += up * (1 / Y - 1 / n)
    return out


def _priced(some: dict[str, Work], r: Replica, s: Slice, hop) -> Pass:
    """At one chip's rates."""
    ici = s.chip.link_bandwidth
    hop = s.chip.hop if hop is None else hop
    at = {role: time(work, s.chip.rate(r.math), s.chip.hbm_bandwidth, hop=hop, ici=ici) for role, work in some.items()}
    return Pass({role: Time({"math": 0.0, "hbm": 0.0, "ici": 0.0} | t.parts) for role, t in at.items()})


def decode(r: Replica, s: Slice, Y, Z, B, S, hop=None, at=None) -> Pass:
    """Seconds of one decode step on a slice.

    >>> from helpers.costs.transformers.config import Config
    >>> from helpers.costs.rooflines.chips import chip
    >>> s, c = Slice(chip("v5e"), (4, 4)), Config(4096, 64, 32, 8, 256, 16384, 32128, tied=True, norm="none")
    >>> step = decode(Replica(c, s.chip, weights="int8", cache="int8", math="int8"), s, Y=8, Z=2, B=6, S=131072)
    >>> f"{1e3 * step.time.parts['hbm']:.1f} ms of HBM, {1e3 * step.time.parts['ici']:.1f} ms of links"   # Austin et al. 2025, question 4
    '17.3 ms of HBM, 1.0 ms of links'
    """
    return _priced(decode_works(r, s, Y, Z, B, S, at), r, s, hop)


def mixed(r: Replica, s: Slice, Y, Z, B, S, T, done, hop=None, at=None) -> Pass:
    """Seconds of a mixed step on a slice.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> s = Slice(chip("v5e"), (2, 4))
    >>> r = Replica(model("llama-3-8b"), s.chip)
    >>> [f"{1e3 * mixed(r, s, 8, 1, B, 4096, T, 0).seconds:.2f} ms" for B, T in ((16, 0), (0, 256), (16, 256))]
    ['3.91 ms', '4.64 ms', '6.17 ms']
    """
    return _priced(mixed_works(r, s, Y, Z, B, S, T, done, at), r, s, hop)


def prefill(r: Replica, s: Slice, Y, Z, T, B=1, hop=None) -> Pass:
    """Seconds of a prefill on a slice."""
    return _priced(prefill_works(r, s, Y, Z, T, B), r, s, hop)


def held(r: Replica, s: Slice, Y, Z, B=0, S=0):
    """Bytes of weights and caches on the fullest chip."""
    r.config.check_usual("a sharded pass", "output_gate", "shared_gate")
    caches = ceil(B / Z) * r.kv(S) / minimum(Y, _heads(r.config)) if not plain(B) or B else 0.0
    return r.weight_bytes / s.chips + caches


def splits(r: Replica, s: Slice, kind: str, B: int = 1, S: int = 1, hop=None) -> tuple[Choice, ...]:
    """Every way to cut a "decode" step of B sequences that see S keys, or a "prefill" of B prompts of S: what fits first,
    then the quickest (weights of a prefill lie on Y chips, and are copied along Z).

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> s = Slice(chip("v5e"), (4, 4))
    >>> best = splits(Replica(model("llama-3-8b"), s.chip), s, "decode", B=16, S=8192)[0]
    >>> best.Y, best.Z, best.fits
    (8, 2, True)
    """
    if kind not in WAYS:
        raise ValueError(f"a pass is {' or '.join(map(repr, WAYS))}, not {kind!r}")
    out = []
    for Y in divisors(s.chips):
        Z = s.chips // Y
        if not lies(Layout(tp=Y, dp=Z), s) or r.config.N % Y or (kind == "decode" and r.config.N % (Y * Z)):
            continue
        if kind == "decode":
            at, bytes_held = decode(r, s, Y, Z, B, S, hop), held(r, s, Y, Z, B, S)
        else:
            at = prefill(r, s, Y, Z, S, B, hop)
            bytes_held = r.weight_bytes / Y + r.kv(S, B) / (minimum(Y, _heads(r.config)) * Z)
        out.append(Choice(Y, Z, at, bytes_held, bytes_held <= s.chip.hbm_bytes - r.reserve))
    if not out:
        raise ValueError(
            f"N={r.config.N} heads cannot be cut over {s.chips} chips: take a slice whose chips divide them"
        )
    return tuple(sorted(out, key=lambda c: (not c.fits, c.time.seconds)))


def points(r: Replica, S: int, batches: Iterable[int], slices: Iterable[Slice]) -> tuple[Point, ...]:
    """Every batch on every slice, cut in the best way, links included: for `frontier` and `cheapest` of `prefill_and_decode_step`.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> v5e = chip("v5e")
    >>> some = points(Replica(model("llama-3-8b"), v5e), 8192, (1, 32), (Slice(v5e, (2, 2)), Slice(v5e, (4, 4))))
    >>> [(p.chips, p.B, p.fits, f"{1e3 * p.latency:.1f} ms") for p in some]
    [(4, 1, True, '5.1 ms'), (4, 32, True, '15.6 ms'), (16, 1, True, '1.7 ms'), (16, 32, True, '4.3 ms')]
    """
    batches, out = tuple(batches), []
    for s in slices:
        for B in batches:
            best = splits(r, s, "decode", B, S)[0]
            rate = B / best.time.seconds
            out.append(Point(s.chips, B, best.time.seconds, rate, rate / s.chips, best.fits, best.time.bound))
    return tuple(out)


entries(__name__)
