"""Public models as `Config`s: data only, each with the place where its sizes stand (chapter 3).

`book/data/parameter_counts.json` holds the counts that others published for them, and where each was read.
A source without "://" is a repository of huggingface.co, whose config.json has the sizes.
"""

import re
from dataclasses import replace
from difflib import get_close_matches
from math import log
from types import MappingProxyType as Frozen

from helpers.arguments import formula, unchecked

from .config import MLA, Config, MoE
from .mixers import Gemma3n, Indexer
from .states import Linear

GPT2 = dict(gated=False, tied=True, norm="layer", biases=("qkv", "o", "mlp"))
NEOX = dict(gated=False, norm="layer", biases=("qkv", "o", "mlp"), parallel=True)
FALCON = dict(gated=False, tied=True, norm="layer", parallel=True)
GEMMA2 = dict(tied=True, norms=4, window=4096, full_every=2)
GEMMA3 = dict(tied=True, norms=4, qk_norm="head", window=1024, full_every=6)
QWEN25 = dict(biases=("qkv",))
QWEN3 = dict(qk_norm="head")
QWEN3_NEXT = QWEN3 | dict(full_every=4, output_gate=True)  # and Gated DeltaNet in the layers between
DELTA32, DELTA48, DELTA64 = (Linear(heads=n, key_heads=16, key=128, value=128, kernel=4) for n in (32, 48, 64))
GEMMA3N = GEMMA3 | dict(window=512, full_every=5, gemma3n=Gemma3n(streams=4, laurel=64, V=262144, width=256))
GLM45 = dict(biases=("qkv",))
GPT_OSS = dict(biases=("qkv", "o", "mlp", "router"), window=128, full_every=2, sinks=True)
COHERE = dict(tied=True, norm="layer-no-bias", norms=1, parallel=True)
LLAMA4 = dict(window=8192, full_every=4)  # chunks of 8192 rather than windows; the cache holds as much
V3 = MLA(q_rank=1536, kv_rank=512, nope=128, rope=64, v=128)
V2_LITE = MLA(q_rank=None, kv_rank=512, nope=128, rope=64, v=128)

# name: (source, D, L, N, K, H, F, V, what else)
ROWS = {
    "gpt-2": ("openai-community/gpt2", 768, 12, 12, 12, 64, 3072, 50257, GPT2 | dict(positions=1024)),
    "gpt-2-medium": ("openai-community/gpt2-medium", 1024, 24, 16, 16, 64, 4096, 50257, GPT2 | dict(positions=1024)),
    "gpt-2-large": ("openai-community/gpt2-large", 1280, 36, 20, 20, 64, 5120, 50257, GPT2 | dict(positions=1024)),
    "gpt-2-xl": ("openai-community/gpt2-xl", 1600, 48, 25, 25, 64, 6400, 50257, GPT2 | dict(positions=1024)),
    "gpt-3": ("https://arxiv.org/abs/2005.14165", 12288, 96, 96, 96, 128, 49152, 50257, GPT2 | dict(positions=2048)),
    "opt-125m": ("facebook/opt-125m", 768, 12, 12, 12, 64, 3072, 50272, GPT2 | dict(positions=2050)),
    "opt-1.3b": ("facebook/opt-1.3b", 2048, 24, 32, 32, 64, 8192, 50272, GPT2 | dict(positions=2050)),
    "opt-175b": ("https://arxiv.org/abs/2205.01068", 12288, 96, 96, 96, 128, 49152, 50272, GPT2 | dict(positions=2050)),
    "gpt-j-6b": ("EleutherAI/gpt-j-6b", 4096, 28, 16, 16, 256, 16384, 50400,
        dict(gated=False, norm="layer", norms=1, parallel=True, biases=("mlp", "unembed"))),
    "gpt-neox-20b": ("EleutherAI/gpt-neox-20b", 6144, 44, 64, 64, 96, 24576, 50432, NEOX),
    "pythia-1.4b": ("EleutherAI/pythia-1.4b", 2048, 24, 16, 16, 128, 8192, 50304, NEOX),
    "pythia-6.9b": ("EleutherAI/pythia-6.9b", 4096, 32, 32, 32, 128, 16384, 50432, NEOX),
    "pythia-12b": ("EleutherAI/pythia-12b", 5120, 36, 40, 40, 128, 20480, 50688, NEOX),
    "palm-540b": ("https://arxiv.org/abs/2204.02311", 18432, 118, 48, 1, 256, 73728, 256000, COHERE),
    "bloom-560m": ("bigscience/bloom-560m", 1024, 24, 16, 16, 64, 4096, 250880, GPT2 | dict(embed_norm=True)),
    "bloom-3b": ("bigscience/bloom-3b", 2560, 30, 32, 32, 80, 10240, 250880, GPT2 | dict(embed_norm=True)),
    "bloom-176b": ("bigscience/bloom", 14336, 70, 112, 112, 128, 57344, 250880, GPT2 | dict(embed_norm=True)),
    "falcon-7b": ("tiiuae/falcon-7b", 4544, 32, 71, 1, 64, 18176, 65024, FALCON | dict(norms=1)),
    "falcon-40b": ("tiiuae/falcon-40b", 8192, 60, 128, 8, 64, 32768, 65024, FALCON),
    "falcon-180b": ("tiiuae/falcon-180B", 14848, 80, 232, 8, 64, 59392, 65024, FALCON),
    "mpt-7b": ("mosaicml/mpt-7b", 4096, 32, 32, 32, 128, 16384, 50432, dict(gated=False, tied=True, norm="layer-no-bias")),
    "starcoder-15b": ("bigcode/starcoder", 6144, 40, 48, 1, 128, 24576, 49152, GPT2 | dict(positions=8192)),
    "starcoder2-7b": ("bigcode/starcoder2-7b", 4608, 32, 36, 4, 128, 18432, 49152, GPT2 | dict(window=4096)),
    "starcoder2-15b": ("bigcode/starcoder2-15b", 6144, 40, 48, 4, 128, 24576, 49152, GPT2 | dict(tied=False, window=4096)),
    "llama-1-7b": ("https://arxiv.org/abs/2302.13971", 4096, 32, 32, 32, 128, 11008, 32000, {}),
    "llama-1-65b": ("https://arxiv.org/abs/2302.13971", 8192, 80, 64, 64, 128, 22016, 32000, {}),
    "llama-2-7b": ("meta-llama/Llama-2-7b-hf", 4096, 32, 32, 32, 128, 11008, 32000, {}),
    "llama-2-13b": ("meta-llama/Llama-2-13b-hf", 5120, 40, 40, 40, 128, 13824, 32000, {}),
    "llama-2-70b": ("meta-llama/Llama-2-70b-hf", 8192, 80, 64, 8, 128, 28672, 32000, {}),
    "llama-3-8b": ("meta-llama/Meta-Llama-3-8B", 4096, 32, 32, 8, 128, 14336, 128256, {}),
    "llama-3-70b": ("meta-llama/Meta-Llama-3-70B", 8192, 80, 64, 8, 128, 28672, 128256, {}),
    "llama-3.1-405b": ("meta-llama/Llama-3.1-405B", 16384, 126, 128, 8, 128, 53248, 128256, {}),
    "llama-3.2-1b": ("meta-llama/Llama-3.2-1B", 2048, 16, 32, 8, 64, 8192, 128256, dict(tied=True)),
    "llama-3.2-3b": ("meta-llama/Llama-3.2-3B", 3072, 28, 24, 8, 128, 8192, 128256, dict(tied=True)),
    "llama-4-scout": ("meta-llama/Llama-4-Scout-17B-16E", 5120, 48, 40, 8, 128, 16384, 202048,
        LLAMA4 | dict(moe=MoE(E=16, k=1, F=8192, shared=1))),
    "llama-4-maverick": ("meta-llama/Llama-4-Maverick-17B-128E", 5120, 48, 40, 8, 128, 16384, 202048,
        LLAMA4 | dict(moe=MoE(E=128, k=1, F=8192, shared=1, every=2))),
    "tinyllama-1.1b": ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", 2048, 22, 32, 4, 64, 5632, 32000, {}),
    "smollm2-135m": ("HuggingFaceTB/SmolLM2-135M", 576, 30, 9, 3, 64, 1536, 49152, dict(tied=True)),
    "yi-34b": ("01-ai/Yi-34B", 7168, 60, 56, 8, 128, 20480, 64000, {}),
    "mistral-7b": ("mistralai/Mistral-7B-v0.1", 4096, 32, 32, 8, 128, 14336, 32000, dict(window=4096)),
    "mistral-nemo-12b": ("mistralai/Mistral-Nemo-Base-2407", 5120, 40, 32, 8, 128, 14336, 131072, {}),
    "mistral-small-24b": ("mistralai/Mistral-Small-24B-Base-2501", 5120, 40, 32, 8, 128, 32768, 131072, {}),
    "mistral-large-123b": ("mistralai/Mistral-Large-Instruct-2407", 12288, 88, 96, 8, 128, 28672, 32768, {}),
    "mixtral-8x7b": ("mistralai/Mixtral-8x7B-v0.1", 4096, 32, 32, 8, 128, 14336, 32000, dict(moe=MoE(8, 2, 14336))),
    "mixtral-8x22b": ("mistralai/Mixtral-8x22B-v0.1", 6144, 56, 48, 8, 128, 16384, 32000, dict(moe=MoE(8, 2, 16384))),
    "dbrx": ("databricks/dbrx-base", 6144, 40, 48, 8, 128, 10752, 100352, dict(norm="layer-no-bias", moe=MoE(16, 4, 10752))),
    "gemma-2b": ("google/gemma-2b", 2048, 18, 8, 1, 256, 16384, 256000, dict(tied=True)),
    "gemma-7b": ("google/gemma-7b", 3072, 28, 16, 16, 256, 24576, 256000, dict(tied=True)),
    "gemma-2-2b": ("google/gemma-2-2b", 2304, 26, 8, 4, 256, 9216, 256000, GEMMA2),
    "gemma-2-9b": ("google/gemma-2-9b", 3584, 42, 16, 8, 256, 14336, 256000, GEMMA2),
    "gemma-2-27b": ("google/gemma-2-27b", 4608, 46, 32, 16, 128, 36864, 256000, GEMMA2),
    "gemma-3-1b": ("google/gemma-3-1b-pt", 1152, 26, 4, 1, 256, 6912, 262144, GEMMA3 | dict(window=512)),
    "gemma-3-12b": ("google/gemma-3-12b-pt", 3840, 48, 16, 8, 256, 15360, 262144, GEMMA3),
    "gemma-3-27b": ("google/gemma-3-27b-pt", 5376, 62, 32, 16, 128, 21504, 262144, GEMMA3),
    "gemma-3n-e2b": ("google/gemma-3n-E2B", 2048, 30, 8, 2, 256, 8192, 262400, GEMMA3N | dict(shared_kv=10)),
    "gemma-3n-e4b": ("google/gemma-3n-E4B", 2048, 35, 8, 2, 256, 16384, 262400, GEMMA3N | dict(shared_kv=15)),
    "phi-2": ("microsoft/phi-2", 2560, 32, 32, 32, 80, 10240, 51200, NEOX | dict(norms=1, biases=("qkv", "o", "mlp", "unembed"))),
    "phi-3-mini": ("microsoft/Phi-3-mini-4k-instruct", 3072, 32, 32, 32, 96, 8192, 32064, dict(window=2047)),
    "phi-4": ("microsoft/phi-4", 5120, 40, 40, 10, 128, 17920, 100352, {}),
    "olmo-7b": ("allenai/OLMo-7B-hf", 4096, 32, 32, 32, 128, 11008, 50304, dict(norm="none")),
    "olmo-2-7b": ("allenai/OLMo-2-1124-7B", 4096, 32, 32, 32, 128, 11008, 100352, dict(qk_norm="full")),
    "aya-23-8b": ("CohereForAI/aya-23-8B", 4096, 32, 32, 8, 128, 14336, 256000, COHERE),
    "command-r": ("CohereForAI/c4ai-command-r-v01", 8192, 40, 64, 64, 128, 22528, 256000, COHERE),
    "command-r-plus": ("CohereForAI/c4ai-command-r-plus", 12288, 64, 96, 8, 128, 33792, 256000, COHERE | dict(qk_norm="full")),
    "qwen-1.5-moe-a2.7b": ("Qwen/Qwen1.5-MoE-A2.7B", 2048, 24, 16, 16, 128, 5632, 151936,
        QWEN25 | dict(moe=MoE(60, 4, 1408, shared=4, shared_gate=True))),
    "qwen-2.5-0.5b": ("Qwen/Qwen2.5-0.5B", 896, 24, 14, 2, 64, 4864, 151936, QWEN25 | dict(tied=True)),
    "qwen-2.5-7b": ("Qwen/Qwen2.5-7B", 3584, 28, 28, 4, 128, 18944, 152064, QWEN25),
    "qwen-2.5-72b": ("Qwen/Qwen2.5-72B", 8192, 80, 64, 8, 128, 29568, 152064, QWEN25),
    "qwen-3-0.6b": ("Qwen/Qwen3-0.6B", 1024, 28, 16, 8, 128, 3072, 151936, QWEN3 | dict(tied=True)),
    "qwen-3-1.7b": ("Qwen/Qwen3-1.7B", 2048, 28, 16, 8, 128, 6144, 151936, QWEN3 | dict(tied=True)),
    "qwen-3-4b": ("Qwen/Qwen3-4B", 2560, 36, 32, 8, 128, 9728, 151936, QWEN3 | dict(tied=True)),
    "qwen-3-8b": ("Qwen/Qwen3-8B", 4096, 36, 32, 8, 128, 12288, 151936, QWEN3),
    "qwen-3-14b": ("Qwen/Qwen3-14B", 5120, 40, 40, 8, 128, 17408, 151936, QWEN3),
    "qwen-3-32b": ("Qwen/Qwen3-32B", 5120, 64, 64, 8, 128, 25600, 151936, QWEN3),
    "qwen-3-30b-a3b": ("Qwen/Qwen3-30B-A3B", 2048, 48, 32, 4, 128, 6144, 151936, QWEN3 | dict(moe=MoE(128, 8, 768))),
    "qwen-3-235b-a22b": ("Qwen/Qwen3-235B-A22B", 4096, 94, 64, 4, 128, 12288, 151936, QWEN3 | dict(moe=MoE(128, 8, 1536))),
    "qwen-3-coder-480b-a35b": ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 6144, 62, 96, 8, 128, 8192, 151936,
        QWEN3 | dict(moe=MoE(160, 8, 2560))),
    "qwen-3-next-80b-a3b": ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2048, 48, 16, 2, 256, 5120, 151936,
        QWEN3_NEXT | dict(linear=DELTA32, moe=MoE(512, 10, 512, shared=1, shared_gate=True))),
    "qwen-3.5-27b": ("Qwen/Qwen3.5-27B", 5120, 64, 24, 4, 256, 17408, 248320, QWEN3_NEXT | dict(linear=DELTA48)),
    "qwen-3.5-35b-a3b": ("Qwen/Qwen3.5-35B-A3B", 2048, 40, 16, 2, 256, 512, 248320,
        QWEN3_NEXT | dict(linear=DELTA32, moe=MoE(256, 8, 512, shared=1, shared_gate=True))),
    "qwen-3.5-122b-a10b": ("Qwen/Qwen3.5-122B-A10B", 3072, 48, 32, 2, 256, 1024, 248320,
        QWEN3_NEXT | dict(linear=DELTA64, moe=MoE(256, 8, 1024, shared=1, shared_gate=True))),
    "qwen-3.5-397b-a17b": ("Qwen/Qwen3.5-397B-A17B", 4096, 60, 32, 2, 256, 1024, 248320,
        QWEN3_NEXT | dict(linear=DELTA64, moe=MoE(512, 10, 1024, shared=1, shared_gate=True))),
    "gpt-oss-20b": ("openai/gpt-oss-20b", 2880, 24, 64, 8, 64, 2880, 201088, GPT_OSS | dict(moe=MoE(32, 4, 2880))),
    "gpt-oss-120b": ("openai/gpt-oss-120b", 2880, 36, 64, 8, 64, 2880, 201088, GPT_OSS | dict(moe=MoE(128, 4, 2880))),
    "glm-4.5": ("zai-org/GLM-4.5", 5120, 92, 96, 8, 128, 12288, 151552,
        GLM45 | dict(qk_norm="head", moe=MoE(160, 8, 1536, shared=1, first_dense=3))),
    "glm-4.5-air": ("zai-org/GLM-4.5-Air", 4096, 46, 96, 8, 128, 10944, 151552,
        GLM45 | dict(moe=MoE(128, 8, 1408, shared=1, first_dense=1))),
    "glm-5": (
        "zai-org/GLM-5", 6144, 78, 64, 64, 256, 12288, 154880,
        dict(
            mla=MLA(q_rank=2048, kv_rank=512, nope=192, rope=64, v=256), indexer=Indexer(heads=32, width=128, top=2048),
            moe=MoE(256, 8, 2048, shared=1, first_dense=3),
        ),
    ),
    "minimax-m2": ("MiniMaxAI/MiniMax-M2", 3072, 62, 48, 8, 128, 1536, 200064, dict(qk_norm="full", moe=MoE(256, 8, 1536))),
    "deepseek-moe-16b": ("deepseek-ai/deepseek-moe-16b-base", 2048, 28, 16, 16, 128, 10944, 102400,
        dict(moe=MoE(64, 6, 1408, shared=2, first_dense=1))),
    "deepseek-v2-lite": ("deepseek-ai/DeepSeek-V2-Lite", 2048, 27, 16, 16, 128, 10944, 102400,
        dict(mla=V2_LITE, moe=MoE(64, 6, 1408, shared=2, first_dense=1))),
    "deepseek-v2": ("deepseek-ai/DeepSeek-V2", 5120, 60, 128, 128, 128, 12288, 102400,
        dict(mla=V3, moe=MoE(160, 6, 1536, shared=2, first_dense=1))),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", 7168, 61, 128, 128, 128, 18432, 129280,
        dict(mla=V3, moe=MoE(256, 8, 2048, shared=1, first_dense=3))),
    "deepseek-v3.2": ("deepseek-ai/DeepSeek-V3.2", 7168, 61, 128, 128, 128, 18432, 129280,
        dict(mla=V3, indexer=Indexer(heads=64, width=128, top=2048), moe=MoE(256, 8, 2048, shared=1, first_dense=3))),
    "kimi-k2": ("moonshotai/Kimi-K2-Base", 7168, 61, 64, 64, 128, 18432, 163840,
        dict(mla=V3, moe=MoE(384, 8, 2048, shared=1, first_dense=1))),
}  # fmt: skip

with unchecked():
    MODELS = Frozen({name: Config(*row[1:8], **row[8], name=name) for name, row in ROWS.items()})
SOURCES = Frozen({name: r[0] if "://" in r[0] else f"https://huggingface.co/{r[0]}" for name, r in ROWS.items()})


SAME_SIZES = {
    "llama-3.1-8b": "llama-3-8b", "llama-3.1-70b": "llama-3-70b", "llama-3.3-70b": "llama-3-70b",
    "qwen-2-0.5b": "qwen-2.5-0.5b", "qwen-2-7b": "qwen-2.5-7b", "qwen-2-72b": "qwen-2.5-72b",
    "qwen-3-coder-30b-a3b": "qwen-3-30b-a3b", "qwen-3-coder-next": "qwen-3-next-80b-a3b",
    "qwen-3-next": "qwen-3-next-80b-a3b", "qwen-3.6-27b": "qwen-3.5-27b", "qwen-3.8-27b": "qwen-3.5-27b",
    "qwen-3.6-35b-a3b": "qwen-3.5-35b-a3b", "glm-4.6": "glm-4.5", "glm-4.7": "glm-4.5", "glm-5.1": "glm-5",
    "minimax-m2.1": "minimax-m2", "minimax-m2.7": "minimax-m2", "deepseek-v3.1": "deepseek-v3",
    "deepseek-r1": "deepseek-v3", "deepseek-v3.2-exp": "deepseek-v3.2",
}  # fmt: skip
"""Names of models that have all sizes of another one."""

# Names of models as people write them: which one is meant, and which are near. Repositories on huggingface.co name an
# organisation first, and last how the model was trained on, which changes no size.

TRAINED = ("instruct", "base", "hf", "it", "pt", "chat", "thinking", "meta")
SIZE = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])")
ACTIVE = re.compile(r"a\d+(?:\.\d+)?b")


def _words(name: str) -> list[str]:
    """The words of a name in small letters, without the organisation, what it was trained for, and a date of four digits at its end.

    >>> _words("meta-llama/Llama-3.1-70B-Instruct"), _words("Qwen3-30B-A3B-Instruct-2507"), _words("GPT_2")
    (['llama', '3.1', '70b'], ['qwen3', '30b', 'a3b'], ['gpt', '2'])
    """
    every = [w for w in re.split(r"[-_\s]+", name.split("/")[-1].lower()) if w]
    some = [w for w in every if w not in TRAINED] or every
    return some[:-1] if len(some) > 1 and re.fullmatch(r"\d{4}", some[-1]) else some


def _key(name: str) -> str:
    """What names of one model have in common: their words, as one.

    >>> _key("Qwen/Qwen3-8B-Base") == _key("qwen-3-8b")
    True
    """
    return "".join(_words(name))


def _family(name: str) -> str:
    """The letters that a name begins with.

    >>> _family("Qwen3-8B"), _family("gpt-oss-20b"), _family("glm4")
    ('qwen', 'gpt', 'glm')
    """
    found = re.match(r"[a-z]+", "-".join(_words(name)))
    return found[0] if found else ""


def _near(name: str) -> list[str]:
    """Models of the same family, or of the one that is written nearly alike: those with the same words, of the same version, and
    of the nearest size first.

    >>> _near("llama-3-7b")
    ['llama-3-8b', 'llama-3.2-3b', 'llama-3.2-1b', 'llama-3-70b']
    """
    of = get_close_matches(_family(name), dict.fromkeys(map(_family, MODELS)), n=1, cutoff=0.75)
    asked = _parts(name)

    def distance(candidate: str):
        letters, version, size = _parts(candidate)
        apart = abs(log(size / asked[2])) if size and asked[2] else float(bool(asked[2]))
        return -len(letters & asked[0]), version != asked[1] and asked[1] is not None, apart

    return sorted((n for n in MODELS if of and _family(n) == of[0]), key=distance)[:4]


def _parts(name: str) -> tuple[set[str], int | None, float | None]:
    """Words of letters but the family, the first part of the version, and the size in its name, in parameters."""
    size = version = None
    letters = set()
    for word in _words(name):
        if found := SIZE.fullmatch(word):
            size = size or int(found[1] or 1) * float(found[2]) * {"b": 1e9, "m": 1e6}[found[3]]
        elif not ACTIVE.fullmatch(word):
            number = re.search(r"\d+", word)
            version = int(number[0]) if number and version is None else version
            letters |= {word} if word.isalpha() else set()
    return letters - {_family(name)}, version, size


_NAMES = {_key(r[0]): name for name, r in ROWS.items() if "://" not in r[0]}
_NAMES |= {_key(name): of for name, of in SAME_SIZES.items()} | {_key(name): name for name in ROWS}


@formula
def model(name: str, **changes) -> Config:
    """The public model of that name, with changes if any; an unknown name is answered with the near ones.

    Names of repositories do, too: an organisation before "/" is left out, and so are -Instruct, -Base, -hf and the like.

    >>> model("gpt-2").D, model("Llama 3 8B").L, model("gpt-2", L=2).L, model("meta-llama/Llama-3.1-70B-Instruct").L
    (768, 32, 2, 80)
    >>> model("lama-3-7b")
    Traceback (most recent call last):
    ValueError: no model is called 'lama-3-7b'; did you mean llama-3-8b, llama-3.2-3b, llama-3.2-1b or llama-3-70b?
    """
    found = _NAMES.get(_key(str(name)))
    if found:
        return replace(MODELS[found], **changes) if changes else MODELS[found]
    some = _near(str(name))
    if not some:
        families = ", ".join(dict.fromkeys(map(_family, MODELS)))
        raise ValueError(f"no model is called {name!r}; there are models of the families {families}")
    listed = ", ".join(some[:-1]) + " or " * (len(some) > 1) + some[-1]
    raise ValueError(f"no model is called {name!r}; did you mean {listed}?")
