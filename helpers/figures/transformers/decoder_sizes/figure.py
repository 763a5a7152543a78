"""The live figure of chapter 3: any decoder, from a public model and its sizes."""

from helpers.live.controls import Choice

from .decoder import KEPT, DecoderBuilder, Size


def _bytes(weight: int, gradient: int, state: int, activation: int) -> dict[str, float]:
    return {"weight": weight, "gradient": gradient, "state": state, "activation": activation}


KEEP = {
    "everything": "everything",
    "matmuls": "matmuls: outputs of products",
    "block": "block: inputs of layers",
}

FIGURE = DecoderBuilder(
    name="decoder",
    title="Build a decoder",
    models=(
        "gpt-2", "gpt-2-xl", "gpt-3", "gpt-neox-20b", "palm-540b", "bloom-176b", "falcon-40b", "llama-2-13b", "llama-2-70b",
        "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-4-scout", "llama-4-maverick", "mistral-7b", "mixtral-8x7b",
        "gemma-2-27b", "gemma-3-27b", "olmo-2-7b", "command-r", "qwen-2.5-7b", "qwen-3-8b", "qwen-3-235b-a22b", "gpt-oss-20b",
        "gpt-oss-120b", "deepseek-moe-16b", "deepseek-v2-lite", "deepseek-v3", "kimi-k2",
    ),
    first="llama-3-8b",
    sliders=(
        Size("D", "D, width", 4096, 64, 32768, parts=8, grain=64),
        Size("L", "L, layers", 32, 4, 256),
        Size("N", "N, query heads", 32, 1, 256),
        Size("K", "K, KV heads", 8, 1, 256),
        Size("H", "H, head width", 128, 16, 512, grain=8),
        Size("F", "F, MLP", 14336, 128, 131072, parts=8, grain=64),
        Size("V", "V, vocabulary", 128256, 1024, 524288, parts=8, grain=64),
        Size("E", "E, experts", 8, 1, 512),
        Size("k", "k, active ones", 2, 1, 64),
        Size("FE", "F, expert", 14336, 64, 32768, parts=8, grain=64),
        Size("T", "T, context", 8192, 64, 2**20, grain=64),
        Size("B", "B, sequences", 1, 1, 4096),
    ),
    menus=(
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
)  # fmt: skip
