"""Parameters of public models, to the last one, against published counts and against a list of all shapes."""

import json
from collections import Counter
from pathlib import Path

import pytest

from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import MODELS, SAME_SIZES, SOURCES, model
from tests.helpers.costs.tables import refused, walks
from tests.helpers.costs.transformers.decoders import EVERY, counted

DATA = json.loads((Path(__file__).parents[4] / "book/data/parameter_counts.json").read_text())["models"]


@walks(DATA)
def test_published_counts(row):
    total = parameters(model(row["name"])).total
    if "within" in row:
        assert total == pytest.approx(row["published"], rel=row["within"])
    else:
        assert total + row["difference"] == row["published"]
        assert bool(row["difference"]) == ("why" in row)


@walks([*EVERY.values(), *MODELS.values()])
def test_against_a_list_of_all_shapes(c):
    p = parameters(c)
    assert (p.total, p.active, p.matmul) == counted(c)
    assert sum(p.by_role.values()) == p.total and dict(c.groups) == Counter(map(c.kind, range(c.L)))


@walks([
    ("deepseek-v3", 37e9), ("mixtral-8x7b", 12.9e9), ("mixtral-8x22b", 39e9), ("qwen-3-30b-a3b", 3.3e9),
    ("qwen-3-235b-a22b", 22e9), ("kimi-k2", 32e9), ("deepseek-v2", 21e9), ("dbrx", 36e9), ("llama-4-maverick", 17e9),
    ("qwen-3-coder-480b-a35b", 35e9), ("qwen-1.5-moe-a2.7b", 2.7e9),
])  # fmt: skip
def test_active_parameters_as_announced(name, active):
    assert parameters(model(name)).active == pytest.approx(active, rel=0.03)


@walks([
    ("Qwen/Qwen3-8B", "qwen-3-8b"), ("Qwen3-8B", "qwen-3-8b"), ("Qwen/Qwen3-4B-Instruct-2507", "qwen-3-4b"),
    ("openai/gpt-oss-20b", "gpt-oss-20b"), ("meta-llama/Llama-3.1-70B-Instruct", "llama-3-70b"),
    ("meta-llama/Meta-Llama-3.1-8B", "llama-3-8b"), ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
    ("google/gemma-3-27b-it", "gemma-3-27b"), ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"), ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"),
    ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"), ("moonshotai/Kimi-K2-Thinking", "kimi-k2"), ("GPT-2", "gpt-2"),
    ("gpt_2", "gpt-2"), ("gpt 2", "gpt-2"),
])  # fmt: skip
def test_names_are_forgiving_and_those_of_repositories(asked, name):
    assert model(asked) is MODELS[name]


def test_every_row_is_found_by_its_repository():
    for name, url in SOURCES.items():
        assert model(name) is MODELS[name]
        if "huggingface.co" in url:
            assert model(url.removeprefix("https://huggingface.co/")) is MODELS[name]


def test_sizes_are_those_of_a_row():
    """And no name of them is that of a row."""
    assert set(SAME_SIZES.values()) <= MODELS.keys() and not SAME_SIZES.keys() & MODELS.keys()


@walks([
    ("llama-3-7b", "llama-3-8b, "), ("mixtral", "mixtral-8x7b or mixtral-8x22b?"), ("qwen", "qwen-"),
    ("glm-4", "glm-4.5, glm-4.5-air or glm-5?"), ("zai-org/GLM-4-9B", "glm-4.5, glm-4.5-air or glm-5?"),
    ("gpt-oss-30b", "gpt-oss-20b, gpt-oss-120b, "), ("qwen3-9b", "qwen-3-8b, qwen-3-14b, "),
    ("gemma-9b", "gemma-2-9b, gemma-7b, "), ("deepsek-v3-lite", "deepseek-v2-lite, deepseek-v3, "),
])  # fmt: skip
def test_unknown_models_are_answered_with_near_ones(asked, near):
    with pytest.raises(ValueError) as e:
        model(asked)
    assert str(e.value).startswith(f"no model is called '{asked}'; did you mean {near}")


@walks(["xyz", "", "7b", "claude-3"])
def test_a_name_like_none_is_answered_with_families(asked):
    with pytest.raises(
        ValueError, match=f"^no model is called '{asked}'; there are models of the families gpt, opt, .*, kimi$"
    ):
        model(asked)


def test_a_model_at_toy_size():
    toy = model("gpt-2", D=16, L=2, N=2, K=2, H=8, F=64, V=50, positions=32)
    assert toy.biases == ("qkv", "o", "mlp") and toy.tied and toy.name == "gpt-2"
    refused((lambda: model("gpt-2", N=5), "multiple of K"))
