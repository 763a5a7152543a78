"""In which types a checkpoint is stored: what its config.json says under `quantization_config`, or ModelOpt's hf_quant_config.json.

Each program that makes checkpoints narrower has a form of its own: `fp8` (DeepSeek, Qwen), `mxfp4` (gpt-oss), compressed-tensors (vLLM),
ModelOpt (NVIDIA), Quark (AMD), GPTQ, AWQ, bitsandbytes. What matters here is the same in all: the type of experts and MLPs, that of
attention, which is often left as it was, and that of caches.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from helpers.arguments import formula

from .serving_operations import FOUR, Deployment

ALGORITHMS = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8", "FP8_BLOCK_SCALES": "fp8", "MXFP8": "fp8",
    "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4", "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16_MXFP4": "mxfp4", "W4A16_AWQ": "int4", "W4A16": "int4", "W4A8_AWQ": "int4", "INT4": "int4",
    "W8A16": "int8", "W8A8_SQ_PER_CHANNEL": "int8", "INT8": "int8",
}  # fmt: skip
"""ModelOpt's and TensorRT-LLM's names, as in `QuantAlgo` of tensorrt_llm/quantization/mode.py."""
METHODS = {"fp8": "fp8", "fbgemm_fp8": "fp8", "deepspeedfp": "fp8", "mxfp4": "mxfp4", "gpt_oss_mxfp4": "mxfp4"}
OF_BITS = {("int", 4): "int4", ("int", 8): "int8", ("float", 8): "fp8"}
SAY = "say --weights"


@formula(signed="config_json quant_json")
def stored_types(config_json: Mapping, quant_json: Mapping | None = None) -> Deployment | None:
    """Types of weights and caches that a checkpoint says, as a deployment of one chip; None if it is not made narrower.

    config_json  its config.json
    quant_json   its hf_quant_config.json, if it has one

    >>> deepseek = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    >>> stored_types(deepseek).weights, stored_types({"model_type": "llama"})
    ('fp8', None)
    """
    inner = config_json.get("text_config") or {}
    given = config_json.get("quantization_config") or inner.get("quantization_config")
    given = given or (quant_json or {}).get("quantization")
    if given is None:
        return None
    try:
        middle = f"model.layers.{(config_json.get('num_hidden_layers') or inner.get('num_hidden_layers') or 2) // 2}"
        experts, attention = (_type_of(given, f"{middle}.{x}") for x in ("mlp.experts.0.down_proj", "self_attn.o_proj"))
        cache = _cache(given)
    except (AttributeError, IndexError, KeyError, TypeError):  # a name has not what every such file has
        raise ValueError(f"quantization_config is not as its quant_method has it: mend it, or {SAY}") from None
    weights = experts or attention or "bf16"
    return Deployment(weights=weights, rest=(attention or "bf16") if weights in FOUR else weights, cache=cache)


def _type_of(quantization: Mapping, module: str) -> str | None:
    """The type of a module's weights; None where it is left as it was."""
    lists = (
        quantization.get(name)
        for name in ("ignore", "exclude_modules", "modules_to_not_convert", "exclude", "llm_int8_skip_modules")
    )
    if any(_is_named(module, names) for names in lists if names):
        return None
    if named := quantization.get("quantized_layers"):  # ModelOpt, several types in one checkpoint: by module
        like = module.split("layers.")[1].split(".", 1)[1].split(".")[0]
        some = [x.get("quant_algo", "") for name, x in named.items() if like in name.split(".")]
        return _algorithm(max(some, key=some.count)) if some else None
    if groups := quantization.get("config_groups"):
        every = [x for x in groups.values() if _is_named(module, x.get("targets") or ["Linear"], layer_class="Linear")]
        return _numbers(every[0].get("weights") or {}, quantization.get("format", "")) if every else None
    if algorithm := quantization.get("quant_algo"):
        return _algorithm(algorithm)
    method = str(quantization.get("quant_method", "")).lower()
    if method in METHODS:
        return METHODS[method]
    if method == "quark":
        weight = (quantization.get("global_quant_config") or {}).get("weight") or {}
        weight = weight[0] if isinstance(weight, list) else weight
        name = str(weight.get("dtype", ""))
        known = {"fp8": "fp8", "int8": "int8", "int4": "int4", "fp4": "mxfp4"}
        if found := next((kind for start, kind in known.items() if name.startswith(start)), None):
            return found
        raise ValueError(f"Quark's weights of {name or 'no dtype'} are no type of the course's: {SAY}")
    bits = quantization.get("bits") or (
        8 if quantization.get("load_in_8bit") else 4 if quantization.get("load_in_4bit") else None
    )
    return _numbers({"type": "int", "num_bits": bits}, method)


def _numbers(weights: Mapping, number_format: str) -> str:
    """The type of so many bits, of integers or floats; of four float bits a scale for 16 is nvfp4, one for 32 mxfp4."""
    kind, bits = weights.get("type", "int"), weights.get("num_bits")
    if (kind, bits) == ("float", 4):
        return "mxfp4" if weights.get("group_size") == 32 or "mxfp4" in number_format else "nvfp4"
    if (kind, bits) not in OF_BITS:
        raise ValueError(
            f"weights of {bits} {kind} bits in {number_format or 'a checkpoint'} are no type of the course's: {SAY}"
        )
    return OF_BITS[kind, bits]


def _algorithm(name: str) -> str:
    if str(name).upper() not in ALGORITHMS:
        raise ValueError(f"quant_algo {name!r} is none of {', '.join(ALGORITHMS)}: {SAY}")
    return ALGORITHMS[str(name).upper()]


def _cache(quantization: Mapping) -> str:
    """The type of caches."""
    scheme = quantization.get("kv_cache_scheme") or {}
    name = quantization.get("kv_cache_quant_algo") or quantization.get("kv_cache_dtype") or ""
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        name = "FP8" if scheme.get("type") == "float" else "INT8"
    return {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}.get(str(name).upper().split("_")[0], "bf16")


def _is_named(module: str, names: Iterable[str], layer_class: str = "") -> bool:
    """Whether a list of modules has one: by its class, a regular expression, a pattern of a shell, its name or a part of that."""
    for prefix in ("", "language_model."):
        name = f"{prefix}{module}"
        for pattern in names:
            if pattern == layer_class:
                return True
            if pattern.startswith("re:"):
                if re.match(pattern[3:], name):
                    return True
            elif fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") or f".{pattern}." in f".{name}.":
                return True
    return False
