"""The accelerator and the computer that a benchmark runs on: how JAX, their maker and the course call them.

Needs JAX alone, so that it also runs where the rest of the course is not installed.
"""

import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path

from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip

KINDS = {"NVIDIA A100-SXM4-80GB": "A100", "NVIDIA A100-SXM4-40GB": "A100-40GB", "TPU v5": "v5p"}
"""Drivers' names that `helpers.costs.rooflines.chips.chip` does not know; it wants whole names, so a GH200 is no H200."""
HALVES = ("v3", "v7")
"""TPUs of which each TensorCore is a device of JAX: half a chip has half of a row's rates, so no row fits."""
CLOCKS = "name,clocks.sm,clocks.mem,clocks.max.sm,power.limit,driver_version"


def accelerator(platform: str | None = None):
    """The first device of JAX that is no CPU, or the first of that platform; None if there is none."""
    import jax

    try:
        devices = jax.devices(platform)
    except RuntimeError:  # JAX says so where it has no such platform
        return None
    return next((device for device in devices if device.platform != "cpu"), None)


def named(kind: str) -> Chip | None:
    """The chip of `helpers.costs` that a driver calls so, or None."""
    try:
        found = chip(KINDS.get(kind, kind))
    except ValueError:
        return None
    return None if found.name in HALVES else found


def clocks() -> dict[str, str] | None:
    """What nvidia-smi says of the first card's clocks at this moment; None where there is no nvidia-smi."""
    query = ["nvidia-smi", f"--query-gpu={CLOCKS}", "--format=csv,noheader"]
    try:
        out = subprocess.run(query, capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(zip(CLOCKS.split(","), out.splitlines()[0].split(", "))) if out.strip() else None


@cache
def machine() -> str:
    """Cores and kind of CPU."""
    try:
        model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        model = None
    return f"{os.cpu_count()} cores, {model[1] if model else platform.machine()}"


def versions() -> dict[str, str]:
    """Of Python and JAX, and of the library that JAX drives the accelerator with."""
    import jax
    import jaxlib

    backend = jax.devices()[0].client.platform_version.strip()
    return {
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "platform": backend.splitlines()[-1] if backend else "",
    }


def refusal(error: Exception) -> str:
    """Why something did not run: the error's kind and its first line."""
    first = str(error).strip().split("\n")[0][:200]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
