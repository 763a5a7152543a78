"""The live figure of chapter 3: any decoder, from a public model and its sizes."""

from functools import partial

from helpers.costs.transformers.public_models import model
from helpers.live.controls import Choice, Size
from helpers.live.figure import LiveFigure
from helpers.live.tables import Result, Rows

from .decoder import KEPT, SIZES, decoder, sizes, structure

MODELS = (
    "gpt-2", "gpt-2-xl", "gpt-3", "gpt-neox-20b", "palm-540b", "bloom-176b", "falcon-40b", "llama-2-13b", "llama-2-70b",
    "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-4-scout", "llama-4-maverick", "mistral-7b", "mixtral-8x7b",
    "gemma-2-27b", "gemma-3-27b", "olmo-2-7b", "command-r", "qwen-2.5-7b", "qwen-3-8b", "qwen-3-235b-a22b", "gpt-oss-20b",
    "gpt-oss-120b", "deepseek-moe-16b", "deepseek-v2-lite", "deepseek-v3", "kimi-k2",
)  # fmt: skip
STRUCTURES = tuple(dict.fromkeys(structure(model(name)) for name in MODELS))
KEEP = {
    "everything": "everything",
    "matmuls": "matmuls: outputs of products",
    "block": "block: inputs of layers",
}
PARTS = {
    "embedding": "embedding, and positions if learned",
    "attention": "attention",
    "mlp": "MLP",
    "experts": "experts",
    "shared": "shared experts",
    "router": "routers",
    "rest": "norms, biases and sinks",
    "unembedding": "unembedding",
}
ROLES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "logits": "logits, float32",
}
TABLE = {
    "Parameters": (
        Result("total", "all"),
        *(Result(f"p_{name}", label, share="total") for name, label in PARTS.items()),
        Result("active", "for each token: all but idle experts"),
    ),
    "FLOPs of a token, mean over T": (
        Result("forward", "forward", "FLOPs"),
        Result("matrices", "products with weights", "FLOPs", share="forward"),
        Result("pairs", "queries with keys, shares with values", "FLOPs", share="forward"),
        Result("train", "training, with what is computed again", "FLOPs"),
        Result("again", "of these computed again", "FLOPs", share="train"),
    ),
    "Memory to train on B sequences at once": (
        Result("memory", "all", "B"),
        *(Result(f"m_{name}", label, "B", share="memory") for name, label in ROLES.items()),
    ),
    "KV cache of one sequence, bf16": (Result("cache", "T tokens", "B"),),
}
WORDS = (
    Result("wrong", words=(
        "{who}: {total} parameters{part}. At T = {T} a token takes {forward} forward, and a sequence {cache} of cache. "
        "To train on B = {B}: {memory}.{note}",
        "N = {N} query heads cannot share K = {K} KV heads evenly, so all is unknown: K = {fit} would do, or N = {near}.",
        "A token cannot go to k = {k} of E = {E} experts, so all is unknown: k = {E} or less would do.",
    )),
    Result("who", words=("{start}", "Changed from {start}")),
    Result("part", words=("", ", {active} of them for each token")),
    Result("note", words=("", " T is beyond the {positions} rows of its table of positions.")),
    *(Result(name, unit="count") for name in ("fit", "near", "positions")),
)  # fmt: skip


def _model(name: str) -> dict[str, float]:
    """What a model sets: the number of its structure, and its sizes."""
    c = model(name)
    kind = {"family": STRUCTURES.index(structure(c)), "mla": int(bool(c.mla)), "moe": int(bool(c.moe))}
    return kind | {"positions": c.positions} | {f"set_{size}": n for size, n in sizes(c).items()}


def _size(name: str, label: str, value: int, low: int, high: int, **steps: int) -> Size:
    return Size(name, label, value, low, high, follows=f"set_{name}" * (name in SIZES), until=("start",), **steps)


def _bytes(weight: int, gradient: int, state: int, activation: int) -> dict[str, float]:
    return {"weight": weight, "gradient": gradient, "state": state, "activation": activation}


FIGURE = LiveFigure(
    name="decoder",
    title="Build a decoder",
    function=partial(decoder, STRUCTURES),
    controls=(
        Choice("start", "Start from", "llama-3-8b", {name: _model(name) for name in MODELS}),
        _size("D", "D, width", 4096, 64, 32768, parts=8, grain=64),
        _size("L", "L, layers", 32, 4, 256),
        _size("N", "N, query heads", 32, 1, 256),
        _size("K", "K, KV heads", 8, 1, 256),
        _size("H", "H, head width", 128, 16, 512, grain=8),
        _size("F", "F, MLP", 14336, 128, 131072, parts=8, grain=64),
        _size("V", "V, vocabulary", 128256, 1024, 524288, parts=8, grain=64),
        _size("E", "E, experts", 8, 1, 512),
        _size("k", "k, active ones", 2, 1, 64),
        _size("FE", "F, expert", 14336, 64, 32768, parts=8, grain=64),
        _size("T", "T, context", 8192, 64, 2**20, grain=64),
        _size("B", "B, sequences", 1, 1, 4096),
        Choice("keep", "Keep for backward", KEEP["block"], {KEEP[name]: {"policy": n} for n, name in enumerate(KEPT)}),
        Choice(
            "precision",
            "Adam in",
            "bf16, moments in f32",
            {
                "bf16, moments in f32": _bytes(2, 2, 8, 2),
                "bf16, moments and a copy of the weights in f32": _bytes(2, 2, 12, 2),
                "f32 throughout": _bytes(4, 4, 8, 4),
            },
        ),
    ),
    results=(*(r for rows in TABLE.values() for r in rows), *WORDS),
    table=Rows({heading: tuple(r.name for r in rows) for heading, rows in TABLE.items()}),
    sentence="{wrong}",
    hint="Choose a model, then move any size: the structure stays that of the model.",
    rules="Windows and the causal mask are counted exactly in FLOPs, as pairs of query and key that they leave. "
    "Activations are those that the layers keep under the policy, with all T·T shares of attention if everything is kept. "
    "A bar is a share of the first line above it.",
)
