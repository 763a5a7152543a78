"""What checkpoints say of their types: the forms of public files, with the sizes of the weights that their pages state."""

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.stored_types import stored_types
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks


def group(bits, kind, size=None, targets=("Linear",)):
    return {"weights": {"num_bits": bits, "type": kind, "group_size": size}, "targets": [*targets]}


def compressed(*groups, ignore=("lm_head",), **more):
    groups = {f"group_{n}": g for n, g in enumerate(groups)}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": [*ignore]} | more


SELF = "model.layers.*.self_attn"
FORMS = {
    "deepseek-v3": ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, "fp8", "fp8", "bf16"),
    "gpt-oss": ({"quant_method": "mxfp4", "modules_to_not_convert": [SELF, "lm_head"]}, "mxfp4", "bf16", "bf16"),
    "minimax": ({"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head"]}, "fp8", "fp8", "bf16"),
    "kimi": (compressed(group(4, "int", 32), ignore=["lm_head", "re:.*self_attn.*", r"re:.*mlp\.(gate|up|down)_proj.*"]),
             "int4", "bf16", "bf16"),
    "llama fp8": (compressed(group(8, "float"), kv_cache_scheme={"num_bits": 8, "type": "float"}), "fp8", "fp8", "fp8"),
    "llama w8a8": (compressed(group(8, "int"), format="int-quantized"), "int8", "int8", "bf16"),
    "nvfp4": (compressed(group(4, "float", 16), format="nvfp4-pack-quantized"), "nvfp4", "nvfp4", "bf16"),
    "mxfp4 beside fp8": (compressed(group(8, "float", targets=["re:.*self_attn.*"]), group(4, "float", 32, ["re:.*experts.*"])),
                         "mxfp4", "fp8", "bf16"),
    "modelopt": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"},
                  "ignore": ["lm_head", *(f"model.layers.{n}.self_attn*" for n in range(61))]}, "nvfp4", "bf16", "fp8"),
    "one layer apart": ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.0.self_attn*"]}, "fp8", "fp8", "bf16"),
    "mixed": ({"quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.1.self_attn.o_proj": {"quant_algo": "FP8"}, "model.layers.1.mlp.experts.0.down_proj": {"quant_algo": "NVFP4"}}},
        "nvfp4", "fp8", "bf16"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": None}, "int4", "int4", "bf16"),
    "gptq": ({"quant_method": "gptq", "bits": 8}, "int8", "int8", "bf16"),
    "bitsandbytes": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", "int4", "bf16"),
    "quark": ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}},
               "exclude": ["lm_head", *(f"model.layers.{n}.self_attn.o_proj" for n in range(61))]}, "mxfp4", "bf16", "bf16"),
}  # fmt: skip


@walks(FORMS)
def test_every_form_says_the_types_of_experts_attention_and_caches(name):
    given, *types = FORMS[name]
    for hf in (
        {"num_hidden_layers": 61, "quantization_config": given},
        {"text_config": {"num_hidden_layers": 61, "quantization_config": given}},
    ):
        said = stored_types(hf)
        assert [said.weights, said.rest, said.cache] == types
    assert (said.tp, said.dp, said.ep) == (1, 1, 1)


def test_a_file_of_modelopt_s_beside_the_other_is_read():
    beside = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    assert stored_types({"num_hidden_layers": 80}, beside) == Deployment(weights="nvfp4", rest="nvfp4", cache="fp8")
    assert stored_types({"num_hidden_layers": 80}) is None


@pytest.mark.parametrize(
    ("name", "form", "gb"),
    [("gpt-oss-120b", "gpt-oss", 65.2), ("gpt-oss-20b", "gpt-oss", 13.8), ("kimi-k2", "kimi", 594)],
)
def test_weights_are_as_large_as_the_files(name, form, gb):
    """Bytes of the safetensors of the public repositories, in GB: openai/gpt-oss and moonshotai/Kimi-K2-Thinking (its vision left out)."""
    s = Server(
        model(name),
        chip("B200"),
        stored_types({"num_hidden_layers": 61, "quantization_config": FORMS[form][0]}),
        ENGINES["vllm"],
    )
    assert s.held / 1e9 == pytest.approx(gb, rel=0.1)


def test_what_is_no_form_gets_one_sentence():
    refused(
        (lambda: stored_types({"quantization_config": {"quant_algo": "W3A9"}}), "quant_algo 'W3A9' is none of FP8"),
        (
            lambda: stored_types({"quantization_config": {"quant_method": "aqlm"}}),
            "weights of None int bits in aqlm are no type",
        ),
        (lambda: stored_types({"quantization_config": compressed(group(2, "int"))}), "weights of 2 int bits in"),
        (lambda: stored_types({"quantization_config": "fp8"}), "quantization_config is not as its quant_method has it"),
        (lambda: stored_types({"quantization_config": {"config_groups": 4}}), "mend it, or say --weights"),
        (
            lambda: stored_types({"quantization_config": {"quant_method": "quark"}}),
            "Quark's weights of no dtype are no type",
        ),
    )
