"""The live figure of chapter 4: the best layout of a training step, of all that are tried."""

from helpers.costs.rooflines.chips import menu

from .page import ANY, LayoutFinder

FIGURE = LayoutFinder(
    name="layout",
    title="The best layout",
    models=(
        "llama-2-13b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "qwen-2.5-72b", "mistral-nemo-12b", "mixtral-8x7b",
        "mixtral-8x22b", "qwen-3-30b-a3b", "qwen-3-235b-a22b",
    ),
    chips={name: label for name, label in menu().items() if name not in ("A100", "H200")},
    first={"model": "llama-3-70b", "chip": "v5p", "n": 64, "tokens": 2**20, "T": 8192, "keep": ANY},
    n=(0, 12),
    tokens=(14, 26),
    T=(10, 17),
)  # fmt: skip
