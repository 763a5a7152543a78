"""The planner: a page of its own."""

from helpers.costs.rooflines.chips import menu

from .planner import Planner

FIGURE = Planner(
    name="planner",
    title="The planner",
    models=(
        "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-4-maverick",
        "tinyllama-1.1b", "yi-34b", "mistral-nemo-12b", "mistral-small-24b", "mistral-large-123b", "mixtral-8x7b", "mixtral-8x22b",
        "gemma-3-12b", "gemma-3-27b", "phi-4", "qwen-2.5-7b", "qwen-2.5-72b", "qwen-3-8b", "qwen-3-32b", "qwen-3-30b-a3b",
        "qwen-3-235b-a22b", "qwen-3-next-80b-a3b", "gpt-oss-20b", "gpt-oss-120b", "deepseek-v3", "deepseek-v3.2", "kimi-k2",
    ),
    chips=menu("planner"),
    engines={"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "jax": "JAX, compiled", "unknown": "another engine"},
    first={
        "task": "train", "model": "llama-3-70b", "chip": "v5p", "n": 64, "tokens": 2**20, "T": 8192,
        "keep": "the fastest", "bytes": 16, "weights": "bf16", "cache": "bf16", "engine": "vLLM",
    },
)  # fmt: skip
