"""The live figure of chapter 6: what every form of attention moves, and how long it takes."""

from helpers.costs.rooflines.chips import menu
from helpers.live.controls import Size

from .page import AttentionMover

FIGURE = AttentionMover(
    name="attention",
    title="What attention moves",
    models=(
        "gpt-2-xl", "gpt-3", "falcon-7b", "palm-540b", "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b",
        "mistral-7b", "qwen-3-32b", "gemma-3-27b", "gpt-oss-120b",
    ),
    chips=menu(),
    first={
        "model": "llama-3-8b", "chip": "v5e", "phase": "prefill, causal", "widths": "bf16, scores and sums in float32",
        "chart": "time",
    },
    sliders=(
        Size("S", "S, tokens", 8192, 256, 2**20, parts=2, grain=128),
        Size("B", "B, sequences", 1, 1, 1024, parts=1),
        Size("N", "N, query heads", 32, 1, 256),
        Size("K", "K, KV heads", 8, 1, 256),
        Size("H", "H, width of a head", 128, 32, 512, parts=2, grain=16),
        Size("w", "Window, tokens", 4096, 128, 2**17, parts=1),
        Size("b", "Block, queries and keys", 256, 16, 4096, parts=1),
        Size("M", "Memory on the chip, KiB", 131072, 16, 2**18, parts=1),
        Size("R", "Blocks at once, one cache", 1, 1, 256, parts=1),
    ),
)  # fmt: skip
