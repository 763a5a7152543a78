"""How long an engine's passes take, not at best but probably (chapter 5).

A floor takes every chip at its published rates and nothing else, and no engine is as fast. The estimate takes the list of a
pass's operations (`serving_operations`). A kernel takes the root of the sum of squares of its arithmetic and its traffic, each at
a rate that kernels reach, and seconds of its own besides, which decide at small batches. AllReduces take seconds of their own too.
A step has what its engine adds: scheduling, sampling, seconds for each sequence.
Every number of a deployment or a batch may be an array.
"""

from dataclasses import field, replace
from functools import cached_property

from helpers.arguments import formula, record
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.hardware import Chip
from helpers.costs.sharding.collective_prices import (
    IN_ENGINE,
    IN_ENGINE_TOKENS,
    Rates,
    Table,
    adjacent,
    collective_seconds,
)
from helpers.costs.training.operation_seconds import A100_BF16
from helpers.costs.training.step_estimate import Estimate
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.layer_products import Product
from helpers.costs.transformers.mixers import NoMixer
from helpers.costs.transformers.parameters_and_flops import caches, parameters
from helpers.numeric import floor, maximum, minimum, plain, sqrt, where

from .serving_constants import CONSTANTS, EXPERT_KERNELS, RESERVES, SPREAD, Constants, Engine
from .serving_operations import BITS, Batch, Deployment, Layer, operations
from .speculative_decoding import module, own_parameters, tokens_of_a_pass

RESERVE = RESERVES["vLLM before"].share  # of memory, as engines kept it when they were measured
PARTS = ("products", "experts", "attention", "others", "links", "host")
ROWS = {"bf16": 2, "fp8": 1, "fp4": 0.5625}  # bytes of a number that a product reads
MEASURED = tuple(c.name for c in CHIPS.values() if c.serving)
SENT, RETURNED = 1, 2  # bytes a number of what goes to experts, in fp8, and comes back, in bf16


@formula
def arithmetic(chip: Chip, weights: str) -> str:
    """Type in which products with weights of a type multiply: that of the weights if the chip has it, or else bf16.

    int8 and int4 are of weights alone: rows stay in bf16 (GPTQ, AWQ and their like).

    >>> [arithmetic(chip(c), w) for c, w in (("H100", "fp8"), ("A100", "fp8"), ("B200", "nvfp4"), ("H200", "mxfp4"), ("B200", "int4"))]
    ['fp8', 'bf16', 'fp4', 'bf16', 'bf16']
    """
    wanted = {"fp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}.get(weights, "bf16")
    return wanted if wanted in chip.flops else "bf16"


@record
class Stored:
    """How weights of a type are kept, and how products read them.

    bits      of a number, its scale included
    rate      FLOPs/s of the products, over those in bf16
    row       bytes of a number of the rows that meet it
    narrower  1 where these rows are made narrower before, or 0
    kernels   of a layer's experts that are stored so
    """

    bits: float
    rate: float
    row: float
    narrower: float
    kernels: float


@record
class Server:
    """A model on chips, run by an engine. Without pp all its layers are computed at a time; pp stages work on parts of a batch.

    >>> s = Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"])
    >>> f"{s.held / 1e9:.1f} GB", int(s.most(8192))
    ('9.1 GB', 187)
    """

    config: Config
    chip: Chip
    deployment: Deployment
    engine: Engine
    constants: Constants = field(default=CONSTANTS, repr=False)

    def __post_init__(self):
        dp, ep = self.deployment.dp, self.deployment.ep
        if self.config.moe is None and plain(dp, ep) and dp * ep > 1:
            raise ValueError(
                f"{self.config.name or 'a dense model'} has no experts to share: leave ep out, and take replicas for dp"
            )

    def stored(self, role: str) -> Stored:
        """The weights of a role.

        >>> like = lambda on, w: Server(model("minimax-m2"), chip(on), Deployment(weights=w), ENGINES["vllm"]).stored("experts")
        >>> [like(*x).kernels for x in (("H100", "fp8"), ("B200", "int4"), ("B200", "fp8"), ("B200", "nvfp4"), ("B200", "bf16"))]
        [9, 7, 6, 5, 4]
        """
        name = self.deployment.type_of(self.config, role)
        kind = arithmetic(self.chip, name)
        route = "as they are" if kind == "bf16" else "rounded"
        if self.chip.generation == "blackwell" and (kind != "bf16" or name == "bf16"):
            route = f"fused, {kind}"
        kernels = EXPERT_KERNELS[route]
        return Stored(
            BITS[name], self.chip.rate(kind) / self.chip.rate(), ROWS[kind], 1 if kind != "bf16" else 0, kernels
        )

    @property
    def cached(self):
        """Bytes of a cached number."""
        return BITS[self.deployment.cache] / 8

    def product(self, product: Product):
        """Seconds of a product with weights; experts' are without what their kernels take themselves.

        Shared experts run beside the others, on a stream of their own: `maybe_execute_in_parallel` in TensorRT-LLM's DeepSeek-V3,
        `forward_normal_dual_stream` in SGLang's, SharedExperts in vLLM's fused_moe/runner.
        """
        chip, k, w = self.chip, self.constants, self.stored(product.role)
        share = k.grouped if product.role == "experts" else minimum(k.bf16, chip.attains)
        gain = 1 + (w.rate - 1) * k.gain
        math = product.flops / (chip.rate() * share * gain)
        moved = product.weights * w.bits / 8 + product.groups * (
            w.row * product.m * product.k + 2 * product.m * product.n
        )
        moved = moved / (chip.hbm_bandwidth * minimum(k.torus if chip.kind == "tpu" else k.memory, chip.streams))
        if product.role == "experts":  # better kernels compute faster, and none reads faster than memory does
            return sqrt((self.engine.moe * math) ** 2 + (maximum(self.engine.moe, 1.0) * moved) ** 2)
        beside = product.role == "shared" and self.config.moe.latent is None
        own = 0.0 if beside else self.engine.launch * (k.product + k.quantise * w.narrower)
        return sqrt(math**2 + moved**2) + own

    def _rates(self, table: Table, launch) -> Rates:
        return replace(table, link=self.constants.link, launch=launch).on(self.chip)

    def sums(self, numbers, n):
        """Seconds of an AllReduce of so many numbers of two bytes over n chips, whose kernels the engine launches."""
        e, rates = self.engine, self._rates(IN_ENGINE, self.constants.sums)
        rates = replace(rates, launch=rates.launch * e.launch, hop=rates.hop * e.launch)
        return collective_seconds("AllReduce", 2 * numbers, adjacent(self.chip, n, whole_slice=True), rates)

    def exchange(self, layer: Layer):
        """Seconds in which tokens go to experts of other groups, and come back: one copy to each other domain."""
        n, rates = self.deployment.group, self._rates(IN_ENGINE_TOKENS, self.constants.exchange)
        group, copies = adjacent(self.chip, n, whole_slice=True), minimum(self.config.moe.k, self.deployment.dp)
        sizes = [width * layer.routed * n for width in (SENT, RETURNED)]
        both = sum(collective_seconds("AllToAll", size, group, rates, copies) for size in sizes)
        return where(self.deployment.dp > 1, both, 0.0)

    def attention(self, layer: Layer, keys_seen):
        """Seconds of attention to caches, and inside of pieces of prompts that see so many tokens.

        Linear attention has as many kernels, and makes what decays in a product of its own (in_proj_ba in qwen3_next.py of vLLM).
        """
        chip, k, r = self.chip, self.constants, layer.reading
        moved = (r.cached * self.cached + 8 * r.state) / (chip.hbm_bandwidth * minimum(k.cached, chip.streams))
        both = sqrt(moved**2 + (r.decode / (chip.rate() * k.keys)) ** 2)
        rate = chip.rate() * k.prompt / (1 + k.half * chip.rate() / A100_BF16 / maximum(keys_seen, 1))
        mixer = self.config.mixer(layer.kind)
        more = k.product if layer.kind.linear else k.indexer if getattr(mixer, "indexer", None) else 0
        return both + r.prefill / rate + self.engine.launch * (k.attention + more) * (not isinstance(mixer, NoMixer))

    def layer(self, layer: Layer, keys_seen) -> dict:
        """Seconds of one layer, by part.

        Norms over all heads of queries and keys, as of MiniMax-M2, take a third sum over tp: of a row's squares, queries' and keys'.

        >>> c = replace(model("llama-3-8b"), qk_norm="full")
        >>> s, normed = (Server(x, chip("H100"), Deployment(tp=8), ENGINES["vllm"]).decode(1, 1) for x in (model("llama-3-8b"), c))
        >>> round(normed.parts["links"] / s.parts["links"], 2)
        1.5
        """
        k, engine, tp = self.constants, self.engine, self.deployment.tp
        routed = [p for p in layer.products if p.role == "experts"]
        sent = self.exchange(layer) if routed else 0.0
        grouped = engine.moe * engine.launch * k.experts * self.stored("experts").kernels if routed else 0.0
        sums = layer.kind.parts * self.sums(layer.sums, tp)
        if getattr(self.config.mixer(layer.kind), "norm", "") == "full":
            rows = layer.sums / self.config.D
            sums = sums + self.sums(2 * 2 * rows, tp)  # two float32 a row: MiniMaxText01RMSNormTP in vLLM
        return {
            "products": sum(self.product(p) for p in layer.products if p.role != "experts"),
            "experts": sum(self.product(p) for p in routed) + grouped,
            "attention": self.attention(layer, keys_seen),
            "others": engine.launch * k.others * layer.kind.parts / 2,
            "links": engine.links * (sums + sent),
        }

    def seconds(self, batch: Batch) -> dict:
        """Seconds of a pass by part: one token of each sequence and its drafts, which are made before, one after the other.

        Every token of a sequence is unembedded, and one of each piece of a prompt.
        """
        drafts, halves = self.deployment.drafts, 1 + self.deployment.overlap
        decode = (batch.decode > 0) * maximum(batch.decode / (self.deployment.pp * halves), 1.0)
        batch = replace(batch, decode=decode, prefill=batch.prefill / halves, prompts=batch.prompts / halves)
        batch = replace(batch, tokens=1.0 + len(drafts))
        rows = batch.decode * batch.tokens + batch.prompts * (batch.prefill > 0)
        ops = operations(self.config, self.deployment, batch, rows)
        seen = batch.done + batch.prefill / batch.prompts
        out = dict.fromkeys(PARTS, 0.0)
        for layer in ops.layers:
            for part, s in self.layer(layer, seen).items():
                out[part] = out[part] + layer.count * s
        out["products"] = out["products"] + self.product(ops.head)
        kernels = sum(s for part, s in out.items() if part != "links")
        exposed = where(halves > 1, maximum(out["links"] - kernels, 0.0), out["links"])
        out = {part: halves * s for part, s in out.items()} | {"links": halves * exposed}
        out |= {"host": self.engine.host + self.engine.sequence * batch.decode * halves}
        if drafts:
            c = module(self.config)
            drafter = replace(self, config=c, deployment=replace(self.deployment, drafts=()), engine=self.engine.silent)
            alone = Batch(maximum(batch.decode, 1.0) * self.deployment.pp * halves, batch.keys)
            draft = drafter.seconds(alone)
            out = {part: s + len(drafts) * draft[part] * (batch.decode > 0) for part, s in out.items()}
        return out

    @property
    def tokens(self):
        """Tokens that a step gives each sequence: 1, or as many as are accepted and one more."""
        return tokens_of_a_pass(self.deployment.drafts)

    def within(self, seconds_by_part: dict, quantity: str = "gap") -> Estimate:
        """Seconds by part as an estimate with its interval."""
        mid, wide = sum(seconds_by_part.values()), SPREAD[quantity]
        wide *= SPREAD["experts"] if self.config.moe else 1
        wide *= 1 if self.engine.measured else SPREAD[f"{quantity}, engine"]
        wide *= 1 if self.chip.name in MEASURED else SPREAD["chip"]
        return Estimate(mid / wide, mid, mid * wide, seconds_by_part)

    def decode(self, B, S) -> Estimate:
        """Seconds of a token for each of B sequences, which sees S keys, itself included: a step, or its share of one with drafts.

        >>> s = Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"])
        >>> f"{1e3 * s.decode(1, 4096).mid:.0f} ms {1e3 * s.decode(64, 4096).mid:.0f} ms"
        '9 ms 15 ms'
        """
        step = self.seconds(Batch(B / self.deployment.dp, S))
        return self.within({part: s / self.tokens for part, s in step.items()})

    def prefill(self, T, B=1, cached=0) -> Estimate:
        """B prompts of T tokens each in one pass, of which `cached` more are in the caches; each group has one prompt at least."""
        prompts = maximum(B / self.deployment.dp, 1.0)
        return self.within(self.seconds(Batch(0.0, 0.0, prompts * T, prompts, cached)))

    def mixed(self, B, S, T, cached=0) -> Estimate:
        """A step of B sequences, and T more tokens of a prompt in the same pass."""
        dp = self.deployment.dp
        return self.within(self.seconds(Batch(B / dp, S, T / dp, 1 / dp, cached)))

    @cached_property
    def held(self):
        """Bytes of weights on one chip, those that tp copies too; tables and what is no matrix in bf16."""
        c, lies, p = self.config, self.deployment, parameters(self.config)
        ops = operations(c, lies, Batch(1.0, 1.0), 1.0)
        products = [(layer.count, x) for layer in ops.layers for x in layer.products if x.role != "experts"]
        in_layers = sum(count * x.weights * self.stored(x.role).bits / 8 for count, x in products)
        experts = self.stored("experts").bits / 8 * p.experts / lies.group
        table = p.embedding / lies.tp + (0 if c.tied else ops.head.weights)
        if lies.drafts:  # a module's layer, most of which are its experts or its MLP
            in_layers += own_parameters(c) * self.stored("experts" if c.moe else "mlp").bits / 8 / lies.group
        return (experts + in_layers + 2 * (table + p.positions + p.norms + p.biases + p.sinks + p.added)) / lies.pp

    @property
    def reserve(self):
        """Bytes of a chip that the engine keeps for neither weights nor caches."""
        return RESERVE * (self.chip.hbm_bytes - self.engine.of_rest * self.held)

    def cache(self, S):
        """Bytes of a cache of S tokens on one chip of its group: heads beyond K are copied, and a latent vector is not cut."""
        lies = self.deployment
        held = caches(self.config, S, self.cached, sink_tokens=self.engine.whole * S)
        return sum(n * lies.cache_share(K) for K, n in held) / lies.pp

    def most(self, S):
        """Sequences of S tokens whose caches fit into what weights and reserve leave, in one replica."""
        room = self.chip.hbm_bytes - self.reserve - self.held
        return maximum(room / self.cache(S), 0.0) * self.deployment.dp


@record
class Loaded:
    """What users see of a server that they keep busy.

    first    seconds to the first token
    gap      seconds between tokens; of its parts "prompts" is what others' prompts add
    request  seconds of a whole request
    batch    sequences that run at once, of one replica
    read     seconds that one prompt adds to the passes of each stage in which it is read, those of other groups beside it
    """

    first: Estimate
    gap: Estimate
    request: float
    batch: float
    read: float


@formula
def loaded(server: Server, prompt, answer, users, equal_lengths: bool = False) -> Loaded:
    """So many users at one server, each with one request at a time, of `prompt` and `answer` tokens.

    Where their caches do not fit at once, the others wait. A gap is a decode step, and the pieces of others' prompts that are
    read meanwhile; a first token waits for its own prompt, and for a part of those that came at the same time.

    equal_lengths  whether all requests have exactly these lengths, as in some benchmarks: those that are read together also end together,
                   and so come together again. Where prompts go first, all users run in one wave, and a prompt waits for half of the
                   others on average; where passes mix prompts and decoding, waves are small, and it waits for `Constants.group` others

    >>> s = Server(model("llama-3-70b"), chip("H100"), Deployment(tp=8, weights="fp8"), ENGINES["vllm"])
    >>> seen = loaded(s, 1024, 1024, 64)
    >>> f"{seen.first.mid:.1f} s {1e3 * seen.gap.mid:.0f} ms", seen.batch
    ('0.3 s 15 ms', 64.0)
    """
    e, dp = server.engine, server.deployment.dp
    want = maximum(users / (server.deployment.replicas * dp), 1.0)
    B = minimum(want, maximum(server.most(prompt + e.admits * answer) / dp, 1.0))
    keys = prompt + answer / 2
    parts = server.seconds(Batch(B, keys))
    step = sum(parts.values())
    new = prompt * (1 - server.deployment.hits)  # what is in caches already is seen, and not read again
    piece = minimum(e.budget, B * new)
    whole = maximum(piece / new, 1.0)
    both = server.seconds(Batch(B, keys, piece, whole, prompt - new + maximum(new - piece, 0) / 2))
    read = (sum(both.values()) - step) * new / piece
    adds = read / server.deployment.pp  # the stages work on several prompts at once
    one_wave = equal_lengths and e.prompts_first
    others = (0.5 if one_wave else e.seen) * (B - 1) * adds / answer
    before = (B - 1) / 2 if one_wave else e.queue * (B**server.constants.power - 1)
    if equal_lengths and not one_wave:
        before = before + minimum(server.constants.group, B - 1)
    parts = {part: seconds / server.tokens for part, seconds in parts.items()}
    gap = step / server.tokens + others
    waits = (want / B - 1) * (answer * gap + adds)
    first = {
        "own": step + read,
        "others": adds * before,
        "no room": waits,
        "host": e.first + server.deployment.waits * step + 0 * read,
    }
    whole = sum(first.values()) + gap * (answer - 1)
    return Loaded(server.within(first, "first"), server.within(parts | {"prompts": others}), whole, B * dp, adds)


@formula
def tokens_per_second(server: Server, prompt, answer, requests):
    """Tokens/s of answers where so many requests come at once and no others follow, as benchmarks of throughput have it.

    As many as find room run together, and as all are alike, so they end: whole rounds, and a last one of those that are left.

    >>> s = Server(model("llama-3-70b"), chip("H200"), Deployment(tp=2, weights="fp8", cache="fp8"), ENGINES["trtllm"])
    >>> round(tokens_per_second(s, 1000, 1000, 3000), -2)  # 2 GPUs, of which TensorRT-LLM 1.2 made 2 * 2,587
    4900.0
    """
    whole = loaded(server, prompt, answer, requests)
    at_once = whole.batch * server.deployment.replicas
    rounds = floor(requests / at_once)
    left = requests - rounds * at_once
    last = loaded(server, prompt, answer, maximum(left, 1.0)).gap.mid
    return requests / (rounds * whole.gap.mid + where(left >= 1, last, 0.0))
