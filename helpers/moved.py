"""Modules, functions, fields and parameters under names that they had in the last release: each still works, and says its new name."""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec

NOW = {  # a module of `helpers`: what it was called, and in which room where that was another one
    "costs.attention.time_and_intensity": "attention_time mha_gqa_mqa_intensity",
    "costs.inference.engine_simulation": "preemption token_budget",
    "costs.inference.latency_and_throughput": "preemption",
    "costs.inference.request_loads": "request_log",
    "costs.inference.serving_constants": "engine_memory",
    "costs.inference.serving_log": "chrome_trace request_log service_levels",
    "costs.inference.serving_operations": "load_imbalance",
    "costs.inference.sharding_limits": "latent_attention",
    "costs.inference.speculative_decoding": "multi_token_prediction speculation_by_position",
    "costs.racks.tiered_collectives": "collective_on_cluster",
    "costs.racks.training_over_tiers": "thresholds",
    "costs.rooflines.gpu_machine": "costs.racks.gpu_machine occupancy",
    "costs.rooflines.torus": "host_offload",
    "costs.training.closed_forms": "expert_parallelism gradient_accumulation",
    "costs.transformers.layer_products": "einsum",
    "costs.transformers.parameters_and_flops": "kv_cache",
    "costs.transformers.shares_and_thresholds": "attention_share six_nd_and_mfu",
    "kernels.attention.dense_attention": "chunked_attention rolling_kv_cache",
    "kernels.attention.flash_attention": "eight_bit_attention flash_attention_all_blocks flash_work_partitioning",
    "kernels.attention.linear_attention": "feature_maps",
    "kernels.attention.ring_attention": "striped_attention",
    "kernels.attention.softmax": "online_softmax",
    "kernels.experts.two_meshes": "decoder",
    "kernels.inference.decode_layouts": "decode_tp_fsdp_dp kv_cache_by_heads kv_cache_by_sequence latent_kv_cache",
    "kernels.inference.engine": "paged_engine",
    "kernels.inference.kv_cache": "chunked_prefill cross_layer_kv_sharing",
    "kernels.inference.paged_kv_cache": "page_allocator ragged_and_paged_attention",
    "kernels.inference.sharded_mlp": "expert_parallel_decode weight_stationary_2d",
    "kernels.inference.tiny_language_model": "generate",
    "kernels.training.data_parallel_and_fsdp": "kernels.racks.hsdp fsdp_and_tensor_parallel tensor_parallel",
    "kernels.training.pipeline_parallel": "transformer_in_stages",
    "kernels.training.transformer_over_mesh": "context_parallel",
    "kernels.transformers.backward_pass": "rematerialisation",
}
MOVED: dict[str, list[str]] = {}  # old name: the modules in which what it had is now
for _now, _names in NOW.items():
    for _old in _names.split():
        _room = "" if "." in _old else _now.rpartition(".")[0] + "."
        MOVED.setdefault(f"helpers.{_room}{_old}", []).append(f"helpers.{_now}")

RENAMED = {  # of a module under its old name: {old name of what is in it: the new one}
    "helpers.kernels.attention.eight_bit_attention": {"attention": "eight_bit", "blocks": "quantised"},
    "helpers.kernels.attention.flash_attention_all_blocks": {"flash": "flash_all_blocks"},
    "helpers.kernels.attention.flash_work_partitioning": {
        "forward": "forward_by_rows", "backward": "backward_by_columns"
    },
    "helpers.kernels.inference.cross_layer_kv_sharing": {
        "empty": "empty_shared", "extend": "extend_shared"
    },
    "helpers.kernels.inference.paged_engine": {"PagedEngine": "Engine"},
    "helpers.kernels.racks.hsdp": {"FSDP": "FSDP_OVER_HOSTS", "step": "hsdp_step"},
    "helpers.kernels.training.context_parallel": {"attention": "context_parallel_attention"},
}  # fmt: skip


def _is_now(old: str, new: str) -> None:
    warnings.warn(f"{old} is {new} now, and its old name ends with the next release", FutureWarning, 3)


def old_field(old: str, new: str) -> property:
    """The field `new` of a record, under its old name."""

    def read(record):
        _is_now(f"{type(record).__name__}.{old}", new)
        return getattr(record, new)

    return property(read)


def old_function(old: str, function: Callable) -> Callable:
    """The function under its old name."""

    @wraps(function)
    def called(*args, **kwargs):
        _is_now(old, function.__name__)
        return function(*args, **kwargs)

    return called


def old_parameter(old: str, new: str) -> Callable:
    """Above a function: what is given as `old` is the parameter `new`."""

    def renaming(function: Callable) -> Callable:
        @wraps(function)
        def renamed(*args, **kwargs):
            if old in kwargs:
                _is_now(f"{old} of {function.__name__}", new)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return renamed

    return renaming


class Moved:
    """Stands last among the finders of `sys.meta_path`, so it is asked only for modules that no file has; and their loader.

    A subclass of nothing: importing `importlib.abc` takes a tenth of the time that all of `helpers.costs` does.
    """

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec):
        return None  # the usual kind

    def exec_module(self, module) -> None:
        name = module.__spec__.name
        _is_now(name, " and ".join(MOVED[name]))
        new = {}
        for place in MOVED[name]:
            new |= vars(import_module(place))
        names = {old: new[now] for old, now in RENAMED.get(name, {}).items()}
        vars(module).update({n: x for n, x in new.items() if not n.startswith("__")} | names)


def install() -> None:
    sys.meta_path.append(Moved())
