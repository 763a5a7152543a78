"""A layout as the flags of a framework: read from them, and written as them (chapter 4).

Frameworks count in other ways. Megatron-LM's ep has tp in it and leaves dp to what remains of the chips; torchtitan's shards have ep
in them; vLLM's experts lie over all of tp·dp or none; SGLang's tp has dp in it. What a framework cannot say is said.
"""

import re
from collections.abc import Mapping
from itertools import groupby

from helpers.costs.training.layout import Layout

PARALLEL = "--parallelism."
SIZES = {
    "megatron-lm": {
        "tp": "--tensor-model-parallel-size", "cp": "--context-parallel-size", "pp": "--pipeline-model-parallel-size",
        "ep": "--expert-model-parallel-size", "etp": "--expert-tensor-parallel-size", "v": "--num-virtual-stages-per-pipeline-rank",
        "dp": "--num-distributed-optimizer-instances", "rows": "--micro-batch-size", "sequences": "--global-batch-size",
    },
    "torchtitan": {
        "tp": f"{PARALLEL}tensor_parallel_degree", "cp": f"{PARALLEL}context_parallel_degree",
        "pp": f"{PARALLEL}pipeline_parallel_degree", "ep": f"{PARALLEL}expert_parallel_degree",
        "etp": f"{PARALLEL}expert_tensor_parallel_degree", "fsdp": f"{PARALLEL}data_parallel_shard_degree",
        "dp": f"{PARALLEL}data_parallel_replicate_degree", "rows": "--training.local_batch_size",
        "sequences": "--training.global_batch_size",
    },
    "vllm": {"tp": "--tensor-parallel-size", "dp": "--data-parallel-size", "pp": "--pipeline-parallel-size"},
    "sglang": {"tp": "--tp-size", "dp": "--dp-size", "pp": "--pp-size", "ep": "--ep-size"},
}  # fmt: skip
"""Flags with a number behind them. `rows` are sequences of a microbatch on a device, `sequences` those of a step."""
FSDP, AGAIN = "--use-megatron-fsdp --data-parallel-sharding-strategy ", "--recompute-granularity "
SWITCHES = {
    "megatron-lm": {
        ("zero", 1): "--use-distributed-optimizer", ("zero", 2): f"{FSDP}optim_grads", ("zero", 3): f"{FSDP}optim_grads_params",
        ("policy", "block"): f"{AGAIN}full --recompute-method uniform --recompute-num-layers 1",
        ("policy", "selective"): f"{AGAIN}selective --recompute-modules layernorm moe_act mla_up_proj",
        ("policy", "matmuls"): f"{AGAIN}selective", ("policy", "everything"): "",
        ("products", "fp8"): "--fp8-format hybrid", ("products", "mxfp8"): "--fp8-format e4m3 --fp8-recipe mxfp8",
        ("overlaps_experts", True): "--overlap-moe-expert-parallel-comm", ("fp8_swiglu", True): "--activation-func-fp8-input-store",
    },
    "torchtitan": {
        ("policy", policy): f"--activation_checkpoint.mode {mode}"
        for policy, mode in (("block", "full"), ("matmuls", "selective"), ("everything", "none"))
    },
    "vllm": {
        ("ep", True): "--enable-expert-parallel", ("overlap", True): "--enable-dbo",
        ("weights", "fp8"): "--quantization fp8", ("cache", "fp8"): "--kv-cache-dtype fp8",
    },
    "sglang": {
        ("overlap", True): "--enable-two-batch-overlap",
        ("weights", "fp8"): "--quantization fp8", ("cache", "fp8"): "--kv-cache-dtype fp8_e4m3",
    },
}  # fmt: skip
"""Flags that say one value of a name."""
TRAINS, SERVES = ("megatron-lm", "torchtitan"), ("vllm", "sglang")
TYPES = ("weights", "cache", "overlap")  # which a typed deployment has options of the command for, or tries
STAGES = "--pipeline-model-parallel-layout"  # a stage between bars, with t for each layer, and E and L for the tables
SHARES = "--enable-dp-attention"  # SGLang's tp then has dp in it


def written(framework: str, values: Mapping) -> tuple[str, str]:
    """The flags of a layout, and what of it they cannot say; `values` has its names, counted as the framework does.

    >>> written("vllm", {"tp": 2, "dp": 4, "ep": 4})
    ('--tensor-parallel-size 2 --data-parallel-size 4', 'ep=4')
    """
    sizes, switches = SIZES[framework], SWITCHES[framework]
    said = {
        name: switches.get((name, x), f"{sizes[name]} {x:g}" if name in sizes and x is not True else None)
        for name, x in values.items()
    }
    return " ".join(filter(None, said.values())), " ".join(f"{n}={values[n]}" for n, x in said.items() if x is None)


def of_training(framework: str, layout: Layout, sequences: float) -> tuple[str, str]:
    """Flags of a framework for a training step on so many sequences, and what it has no flags for.

    >>> deepseek = Layout(dp=2, tp=2, pp=8, ep=32, zero=1, microbatches=128, v=4, policy="everything")
    >>> of_training("megatron-lm", deepseek, 8192)[0][58:121]
    'ize 8 --expert-model-parallel-size 64 --expert-tensor-parallel-'
    >>> of_training("torchtitan", deepseek, 8192)[1]
    'zero=1 v=4'
    >>> of_training("megatron-lm", Layout(pp=2, layers="3+4"), 8)[0].split()[-2:]
    ['--pipeline-model-parallel-layout', "'Ettt|ttttL'"]
    """
    shards, sharded = layout.dp * layout.fsdp * layout.ep, layout.fsdp > 1 or layout.zero == 3
    values = {name: x for name in ("tp", "cp", "pp") if (x := getattr(layout, name)) > 1}
    if layout.ep > 1:
        values |= {"ep": layout.ep * layout.tp, "etp": 1}
    if framework == "torchtitan":
        values |= {"dp": layout.dp, "fsdp": shards // layout.dp} | ({"zero": x} if 0 < (x := layout.zero) < 3 else {})
    elif sharded or layout.zero:
        values |= {"zero": 3 if sharded else layout.zero} | ({"dp": layout.dp} if sharded and layout.dp > 1 else {})
    named = "v policy products optimizer offload overlaps_experts nodes sequence_parallel layers fp8_swiglu".split()
    changed = {name: x for name in named if (x := getattr(layout, name)) != getattr(Layout, name) or name == "policy"}
    rows = {"rows": sequences / shards / layout.microbatches, "sequences": sequences}
    if framework == "megatron-lm" and layout.layers and layout.v == 1:
        del changed["layers"]
        flags, unsaid = written(framework, values | changed | rows)
        return f"{flags} {STAGES} 'E{'|'.join('t' * n for n in layout.device_layers)}L'", unsaid
    return written(framework, values | changed | rows)


def listed_layers(text: str, pp: int) -> tuple[str, int]:
    """The layers of each of pp devices, as a layout has them, and its stages, from Megatron-LM's words for stages.

    >>> listed_layers("Et*3|(tt|)*6mL", 4), listed_layers("Ettt|(tttt|)*14,tmL", 16)
    (('5+4x2+2', 2), ('3+4x14+1', 1))
    """
    text = re.sub(r"\(([^)]*)\)\*(\d+)", lambda match: match[1] * int(match[2]), text)
    text = re.sub(r"([a-zA-Z])\*(\d+)", lambda match: match[1] * int(match[2]), text)
    stages = [stage.count("t") for stage in text.split("|")]
    runs = [(n, len([*same])) for n, same in groupby(sum(stages[device::pp]) for device in range(pp))]
    return "+".join(f"{n}x{times}" if times > 1 else f"{n}" for n, times in runs), len(stages) // pp


def of_serving(framework: str, axes: Mapping) -> tuple[str, str]:
    """The same of a deployment, by the names of `Deployment`.

    >>> of_serving("sglang", {"tp": 2, "dp": 4, "ep": 8, "cache": "fp8"})[0]
    '--tp-size 8 --dp-size 4 --ep-size 8 --kv-cache-dtype fp8_e4m3 --enable-dp-attention'
    """
    values, group = dict(axes), axes.get("tp", 1) * axes.get("dp", 1)
    if framework == "vllm":
        return written(framework, values | ({"ep": True} if axes.get("ep", 1) == group > 1 else {}))
    if values.get("dp", 1) == 1:
        return written(framework, values)
    flags, unsaid = written(framework, values | {"tp": group})
    return f"{flags} {SHARES}", unsaid


def flags_words(framework: str, flags_and_unsaid: tuple[str, str]) -> str:
    """The flags, and what they leave out."""
    flags, unsaid = flags_and_unsaid
    return f"  For {framework}: {flags}" + (f"; that leaves out {unsaid}." if unsaid else "")


def read_flags(text: str, chips: int, sequences: int = 0) -> tuple[str, list[str]]:
    """A layout as it is typed, from flags of any of the frameworks, and sentences of what was read; other texts as they are.

    >>> read_flags("--tensor-model-parallel-size 8 --expert-model-parallel-size 16 --micro-batch-size 1 --bf16", 64, 256)
    ('tp=8,ep=16,etp=1,microbatches=32', ['Read from flags: tp=8,ep=16,etp=1,microbatches=32; of --bf16 nothing.'])
    >>> read_flags("--tp-size=8 --dp-size 4 --enable-dp-attention --ep-size 8", 8)[0]
    'tp=2,ep=8,dp=4'
    """
    if not text.lstrip().startswith("--"):
        return text, []
    text = f" {' '.join(text.replace('=', ' ').split())} "
    framework = max(SIZES, key=lambda f: sum(f" {flag} " in text for flag in SIZES[f].values()))
    values: dict = {}
    for (name, value), flags in SWITCHES[framework].items():
        if flags and name not in TYPES and f" {flags} " in text:
            values[name], text = value, text.replace(f" {flags} ", " ")
    for name, flag in SIZES[framework].items():
        if f" {flag} " in text:
            number = text.split(f" {flag} ", 1)[1].split(" ", 1)[0]
            if not re.fullmatch("[0-9]{1,9}", number):
                raise ValueError(f"{flag} has a whole number behind it, and not {number!r}")
            values[name], text = int(number), text.replace(f" {flag} {number} ", " ")
    if f" {STAGES} " in text:
        stages = text.split(f" {STAGES} ", 1)[1].split(" ", 1)[0]
        values["layers"], values["v"] = listed_layers(stages.strip("'\""), values.get("pp", 1))
        text = text.replace(f" {STAGES} {stages} ", " ")
    left, dp = [word for word in text.split() if word.startswith("--") and word != SHARES], values.get("dp", 1)
    if SHARES in text:
        values["tp"] = values.get("tp", 1) // dp
    if values.get("ep") is True:
        values["ep"] = values.get("tp", 1) * dp
    rows, whole = values.pop("rows", 0), values.pop("sequences", sequences)
    tp, cp, pp = (values.get(name, 1) for name in ("tp", "cp", "pp"))
    if framework in TRAINS and "ep" in values:
        values["etp"] = 1
    if "fsdp" in values:  # torchtitan's shards have those of experts in them
        values["fsdp"] = max(1, values["fsdp"] * tp // values.get("ep", tp))
    if rows:
        values["microbatches"] = whole * tp * cp * pp // (chips * rows)
    layout = ",".join(f"{n}={values[n]}" for n in dict.fromkeys((*SIZES["torchtitan"], *values)) if n in values)
    return layout, [f"Read from flags: {layout}" + (f"; of {', '.join(left)} nothing." if left else ".")]
