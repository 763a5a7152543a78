"""The live figure of chapter 5: what a token costs, for a public model on chips."""

from helpers.costs.rooflines.chips import menu
from helpers.live.controls import Size, powers

from .page import TokenPricer

FIGURE = TokenPricer(
    name="serving",
    title="What a token costs",
    models=(
        "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen-3-32b", "gemma-3-27b", "mixtral-8x7b",
        "qwen-3-30b-a3b", "qwen-3-235b-a22b", "gpt-oss-120b", "deepseek-v3", "kimi-k2",
    ),
    chips=menu(),
    widths={
        "weights and caches in bf16": (2, 2),
        "weights in int8, caches in bf16": (1, 2),
        "weights in bf16, caches in int8": (2, 1),
        "weights and caches in int8": (1, 1),
    },
    first={"model": "llama-3-70b", "chip": "v5p", "widths": "weights and caches in bf16"},
    sliders=(
        Size("n", "Chips", 8, 1, 256, steps=powers(0, 8)),
        Size("S", "S, context", 8192, 256, 2**20, parts=2, grain=64),
        Size("B", "B, sequences", 32, 1, 16384),
    ),
)  # fmt: skip
