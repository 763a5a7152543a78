"""The live figure of chapter 7: a collective on hosts, racks and slices, tier by tier."""

from helpers.live.controls import Size

from .page import CollectiveTimer, Steps
from .times import Machine

FIGURE = CollectiveTimer(
    name="cluster",
    title="A collective on a cluster",
    models=("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "mixtral-8x7b", "qwen-3-235b-a22b", "deepseek-v3"),
    machines={
        "H100 hosts of 8": Machine("H100", (8,), "host"),
        "H100 hosts of 8, uplinks 4:1": Machine("H100", (8,), "host", 4.0),
        "GB200 NVL72 racks": Machine("GB200", (72,), "rack"),
        "TPU v5p slices of 4×4×8": Machine("v5p", (4, 4, 8), "slice"),
        "TPU v7 slices of 4×4×8": Machine("v7", (4, 4, 8), "slice"),
    },
    first={"model": "llama-3-70b", "machine": "H100 hosts of 8", "sent": "AllReduce of a layer's gradients (DP)"},
    sliders=(
        Steps("m", "Hosts, racks or slices", 16, 1, 128, steps=(1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 96, 128)),
        Size("b", "Tokens on each chip", 2048, 16, 32768, parts=2),
        Size("V", "V, bytes", 2**30, 2**10, 2**40),
    ),
)
