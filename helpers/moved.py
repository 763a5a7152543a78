"""Modules, fields and parameters under names that they had in the last release: each still works, and says its new name."""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec

MOVED = {
    "helpers.costs.attention.attention_time": "helpers.costs.attention.time_and_intensity",
    "helpers.costs.attention.mha_gqa_mqa_intensity": "helpers.costs.attention.time_and_intensity",
    "helpers.costs.inference.chrome_trace": "helpers.costs.inference.serving_log",
    "helpers.costs.inference.engine_memory": "helpers.costs.inference.serving_constants",
    "helpers.costs.inference.latent_attention": "helpers.costs.inference.sharding_limits",
    "helpers.costs.inference.load_imbalance": "helpers.costs.inference.serving_operations",
    "helpers.costs.inference.multi_token_prediction": "helpers.costs.inference.speculative_decoding",
    "helpers.costs.inference.preemption": "helpers.costs.inference.latency_and_throughput and helpers.costs.inference.engine_simulation",
    "helpers.costs.inference.request_log": "helpers.costs.inference.serving_log and helpers.costs.inference.request_loads",
    "helpers.costs.inference.service_levels": "helpers.costs.inference.serving_log",
    "helpers.costs.inference.speculation_by_position": "helpers.costs.inference.speculative_decoding",
    "helpers.costs.inference.token_budget": "helpers.costs.inference.engine_simulation",
    "helpers.costs.racks.collective_on_cluster": "helpers.costs.racks.tiered_collectives",
    "helpers.costs.racks.gpu_machine": "helpers.costs.rooflines.gpu_machine",
    "helpers.costs.racks.thresholds": "helpers.costs.racks.training_over_tiers",
    "helpers.costs.rooflines.host_offload": "helpers.costs.rooflines.torus",
    "helpers.costs.rooflines.occupancy": "helpers.costs.rooflines.gpu_machine",
    "helpers.costs.transformers.attention_share": "helpers.costs.transformers.shares_and_thresholds",
    "helpers.costs.transformers.einsum": "helpers.costs.transformers.layer_products",
    "helpers.costs.transformers.kv_cache": "helpers.costs.transformers.parameters_and_flops",
    "helpers.costs.transformers.six_nd_and_mfu": "helpers.costs.transformers.shares_and_thresholds",
    "helpers.costs.training.expert_parallelism": "helpers.costs.training.closed_forms",
    "helpers.costs.training.gradient_accumulation": "helpers.costs.training.closed_forms",
    "helpers.kernels.attention.chunked_attention": "helpers.kernels.attention.dense_attention",
    "helpers.kernels.attention.eight_bit_attention": "helpers.kernels.attention.flash_attention",
    "helpers.kernels.attention.feature_maps": "helpers.kernels.attention.linear_attention",
    "helpers.kernels.attention.flash_attention_all_blocks": "helpers.kernels.attention.flash_attention",
    "helpers.kernels.attention.flash_work_partitioning": "helpers.kernels.attention.flash_attention",
    "helpers.kernels.attention.online_softmax": "helpers.kernels.attention.softmax",
    "helpers.kernels.attention.rolling_kv_cache": "helpers.kernels.attention.dense_attention",
    "helpers.kernels.attention.striped_attention": "helpers.kernels.attention.ring_attention",
    "helpers.kernels.experts.decoder": "helpers.kernels.experts.two_meshes",
    "helpers.kernels.inference.chunked_prefill": "helpers.kernels.inference.kv_cache",
    "helpers.kernels.inference.cross_layer_kv_sharing": "helpers.kernels.inference.kv_cache",
    "helpers.kernels.inference.decode_tp_fsdp_dp": "helpers.kernels.inference.decode_layouts",
    "helpers.kernels.inference.expert_parallel_decode": "helpers.kernels.inference.sharded_mlp",
    "helpers.kernels.inference.generate": "helpers.kernels.inference.tiny_language_model",
    "helpers.kernels.inference.kv_cache_by_heads": "helpers.kernels.inference.decode_layouts",
    "helpers.kernels.inference.kv_cache_by_sequence": "helpers.kernels.inference.decode_layouts",
    "helpers.kernels.inference.latent_kv_cache": "helpers.kernels.inference.decode_layouts",
    "helpers.kernels.inference.page_allocator": "helpers.kernels.inference.paged_kv_cache",
    "helpers.kernels.inference.paged_engine": "helpers.kernels.inference.engine",
    "helpers.kernels.inference.ragged_and_paged_attention": "helpers.kernels.inference.paged_kv_cache",
    "helpers.kernels.inference.weight_stationary_2d": "helpers.kernels.inference.sharded_mlp",
    "helpers.kernels.racks.hsdp": "helpers.kernels.training.data_parallel_and_fsdp",
    "helpers.kernels.training.context_parallel": "helpers.kernels.training.transformer_over_mesh",
    "helpers.kernels.training.fsdp_and_tensor_parallel": "helpers.kernels.training.data_parallel_and_fsdp",
    "helpers.kernels.training.tensor_parallel": "helpers.kernels.training.data_parallel_and_fsdp",
    "helpers.kernels.training.transformer_in_stages": "helpers.kernels.training.pipeline_parallel",
    "helpers.kernels.transformers.rematerialisation": "helpers.kernels.transformers.backward_pass",
}

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
        warnings.warn(
            f"{name} is {MOVED[name].replace(', ', ' and ')} now, and its old name ends with the next release",
            FutureWarning,
            2,
        )
        new = {}
        for place in MOVED[name].split(" and "):
            new |= vars(import_module(place))
        names = {old: new[now] for old, now in RENAMED.get(name, {}).items()}
        vars(module).update({n: x for n, x in new.items() if not n.startswith("__")} | names)


def install() -> None:
    sys.meta_path.append(Moved())
