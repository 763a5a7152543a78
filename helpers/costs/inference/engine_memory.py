"""What engines keep of a device's memory for themselves, and what is left for caches (chapter 5).

Activations, buffers of communication, graphs and the runtime need memory that no formula of weights and caches has. Engines
set a share aside, and give the rest to weights and pages when they start.
"""

from dataclasses import dataclass

from helpers.arguments import entries


@dataclass(frozen=True)
class Reserve:
    """An engine's default.

    share   of the memory that it leaves alone
    of      "all": of the device's memory; "rest": of what the weights leave
    source  where the default stands
    """

    share: float
    of: str
    source: str

    def __post_init__(self):
        if not 0 <= self.share < 1 or self.of not in ("all", "rest"):
            raise ValueError(
                f"a reserve is a share from 0 to below 1 of 'all' or of the 'rest', not {self.share} of {self.of!r}"
            )

    def bytes(self, hbm, weights=0.0):
        """Bytes of a device that neither weights nor caches get; `weights` are those of one device.

        >>> [f"{RESERVES[name].bytes(80e9, 16e9) / 1e9:.1f} GB" for name in RESERVES]
        ['6.4 GB', '8.0 GB', '8.0 GB', '6.4 GB']
        """
        return self.share * (hbm - weights if self.of == "rest" else hbm)

    def caches(self, hbm, weights):
        """Bytes of a device for caches, below 0 if not even the weights fit.

        >>> RESERVES["vLLM"].caches(80e9, 16e9) / 1e9
        57.6
        """
        return hbm - weights - self.bytes(hbm, weights)


RESERVES = {
    "vLLM": Reserve(0.08, "all", "gpu_memory_utilization = 0.92 in vllm/config/cache.py, commit 002f10e"),
    "vLLM before": Reserve(0.1, "all", "gpu_memory_utilization = 0.90 in vllm/engine/arg_utils.py, 2024"),
    "SGLang": Reserve(0.1, "all", "mem-fraction-static, 0.9, docs.sglang.io, Server Arguments"),
    "TensorRT-LLM": Reserve(
        0.1, "rest", "free_gpu_memory_fraction = 0.9, nvidia.github.io/TensorRT-LLM, kvcacheconfig"
    ),
}


entries(__name__)
