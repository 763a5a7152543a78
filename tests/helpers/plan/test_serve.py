"""The command that plans a service."""

import json
import subprocess
import sys
from dataclasses import replace

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_estimate import Server, loaded
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.inference.serving_plan import Target, plan, plans
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model
from helpers.plan.__main__ import main

ASKED = "serve deepseek-v3 --chips 16xH200 --weights fp8 --in 4000 --out 1000 --speed 50".split()


def said(capsys, *words) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def refused(capsys, *words) -> str:
    assert main([*words]) == 2
    return capsys.readouterr().err


def test_the_plan_serves_most_of_all_that_keep_the_target(capsys):
    case = model("deepseek-v3"), chip("H200"), 16, 4000, 1000, ENGINES["unknown"], Deployment(weights="fp8", rest="fp8")
    every = list(plans(*case))
    best = max((p for p in every if 1 / p.load.gap.mid >= 50), key=lambda p: p.throughput)
    got = json.loads(said(capsys, *ASKED, "--json", "--price", "2.5"))
    assert got["kept"] and got["plan"]["throughput"] == best.throughput and got["plan"]["chips"] == 16
    assert got["plan"]["layout"] == {
        n: x for n in ("tp", "dp", "ep", "pp", "replicas") if (x := getattr(best.deployment, n)) != 1
    }
    assert got["plan"]["gap"]["low"] < got["plan"]["gap"]["mid"] < got["plan"]["gap"]["high"]
    assert sum(got["plan"]["memory"].values()) < chip("H200").hbm_bytes
    chip_seconds = got["plan"]["price"]["in"] * 4000 + got["plan"]["price"]["out"] * 1000
    whole = 2.5 / 3600 * 16 / best.rate * 1e6
    # what requests take up is what the chips cost, the wait for first tokens apart
    assert 0.7 < chip_seconds / whole < 1.4
    assert str(best.deployment) in said(capsys, *ASKED)


def test_the_frontier_trades_speed_for_throughput(capsys):
    some = json.loads(said(capsys, *ASKED, "--json"))["frontier"]
    speeds, rates = [p["speed"] for p in some], [p["rate"] for p in some]
    assert speeds == sorted(speeds) and rates == sorted(rates, reverse=True) and len(some) > 5


def test_as_few_chips_as_needed(capsys):
    words = "serve llama-3-70b --in 2000 --out 500 --users 500 --speed 40 --weights fp8 --json".split()
    few = json.loads(said(capsys, *words, "--chips", "H100"))
    n = few["plan"]["chips"]
    assert few["kept"] and few["plan"]["users"] >= 500
    like, target = Deployment(weights="fp8", rest="fp8"), Target(speed=40, users=500)
    fewer = plan(model("llama-3-70b"), chip("H100"), n // 2, 2000, 500, target, ENGINES["unknown"], like)
    assert not fewer.kept


def test_the_nearest_is_given_where_no_number_of_chips_reaches_a_target(capsys):
    words = "serve llama-3-70b --chips H100 --in 2000 --out 500 --weights fp8".split()
    text = said(capsys, *words, "--speed", "5000")
    assert text.splitlines()[1].startswith("No deployment keeps the target; the nearest gives 1")
    assert "tokens/s for each user" in text
    fastest = json.loads(said(capsys, *words, "--speed", "5000", "--json"))
    assert not fastest["kept"] and fastest["missed"] == ["speed"] and fastest["plan"]["batch"] == 1


BAD = [
    ("deepseek-v3 --chips 4xH100", "the weights in bf16 and one cache of 5,000 tokens do not fit on 4 H100: 32 would do"),
    ("llama-3-8b --chips A100 --cache fp8", "the A100 has no arithmetic in fp8: keep caches in bf16, or in int8"),
    ("gpt-2 --chips H100", "4,000 + 1,000 tokens are more than the model's 1,024 positions: give shorter prompts or answers"),
    ("llama-3-8b --chips 0xH100", "--chips is from 1 to 131,072 of them, and not 0"),
    ("llama-3-8b --chips 8", "--chips is how many of which, such as 16xH200, or H200 alone, and not '8'"),
    ("llama-3-8b --chips H100 --speed 0", "a number above 0"),
    ("llama-3-8b --chips H100 --engine tgi", "invalid choice: 'tgi'"),
    ("llama-3-8b --chips H100 --in 0", "--in and --out are 1 or more"),
    ("llama-3-8b --chips H100 --hits 1", "--hits is below 1: one token of a prompt at least is new"),
    ("llama-3-8b --chips H100 --drafts 0.8,2", "a share from 0 to 1, such as 0.6, and not '2'"),
    ("llama-3-8b", "the following arguments are required: --chips: python -m helpers.plan serve"),
    ("llama-3-8b --chips H100 --sequences 8", "there is no --sequences 8 in serve: python -m helpers.plan serve"),
    ("--chips H100", "give a public model or --config with the path of a config.json, one of the two: python -m helpers.plan serve"),
    ("llama-3-8b --chips 8xH100 --layout tp=16", "tp=16 takes 16 chips, and there are 8: give more chips, or a smaller layout"),
    ("llama-3-8b --chips 8xH100 --layout fsdp=8", "fsdp is of a training step: --layout of serve has tp, dp, ep, pp"),
    ("llama-3-8b --chips 8xH100 --layout ep=8", "llama-3-8b has no experts to share: leave ep out"),
    ("llama-3-70b --chips 8xH100 --layout tp=1", "do not fit on 8 H100 as one chip: weights in int4, mxfp4 or nvfp4 would do"),
]  # fmt: skip


def test_bad_input_gets_one_sentence(capsys):
    wrong = []
    for words, sentence in BAD:
        usual = [] if "--in" in words else ["--in", "4000"]
        err = refused(capsys, "serve", *usual, "--out", "1000", *words.split())
        wrong += [(words, err)] if sentence not in err or err.count("\n") != 1 else []
    assert not wrong


def test_a_typed_layout_is_priced_as_its_server(capsys):
    """As many users as are asked, and what the search makes of the others on the same chips."""
    words = "serve llama-3-70b --chips 8xH100 --weights fp8 --in 4000 --out 500 --engine vllm --json".split()
    got = json.loads(said(capsys, *words, "--layout", "tp=4", "--users", "24"))
    s = Server(
        model("llama-3-70b"), chip("H100"), Deployment(tp=4, replicas=2, weights="fp8", rest="fp8"), ENGINES["vllm"]
    )
    seen = loaded(s, 4000, 500, 24)
    assert (
        got["plan"]["layout"] == {"tp": 4, "replicas": 2} and got["plan"]["users"] == 24 and got["plan"]["batch"] == 12
    )
    assert got["plan"]["gap"]["mid"] == seen.gap.mid and got["plan"]["first"]["mid"] == seen.first.mid
    each = {tp: replace(s.deployment, tp=tp, replicas=8 // tp) for tp in (2, 4, 8)}
    rates = {tp: 24 / loaded(replace(s, deployment=d), 4000, 500, 24).request for tp, d in each.items()}
    assert got["best"]["layout"].get("tp") == max(rates, key=rates.get)
    assert got["best"]["rate"] == max(rates.values())
    free = json.loads(said(capsys, *words, "--layout", "tp=4"))
    assert {p["layout"]["tp"] for p in free["frontier"]} == {4} and free["best"]["throughput"] >= free["plan"][
        "throughput"
    ]


def test_a_checkpoint_says_its_own_types(capsys, tmp_path):
    """A file of gpt-oss-120b's sizes, once with and once without what it says of types."""
    sizes = {
        "model_type": "qwen3_moe", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "head_dim": 64,
        "num_key_value_heads": 8, "intermediate_size": 2880, "moe_intermediate_size": 2880, "num_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "tie_word_embeddings": False,
    }  # fmt: skip
    narrow = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    file, words = tmp_path / "config.json", "--chips H100 --in 1000 --out 100 --users 8 --layout tp=1".split()
    file.write_text(json.dumps(sizes | {"quantization_config": narrow}))
    text = said(capsys, "serve", "--config", str(file), *words)
    assert "weights in mxfp4, attention of mixtures in bf16 as the checkpoint says, engine" in text
    assert text.splitlines()[2].startswith("one chip: 1 chip, ")
    wide = [*words[:-1], "tp=4", "--weights", "bf16"]
    assert "weights in bf16, engine" in said(capsys, "serve", "--config", str(file), *wide)
    file.write_text(json.dumps(sizes))
    words[1] = "1xH100"
    assert "weights in int4, mxfp4 or nvfp4 would do" in refused(capsys, "serve", "--config", str(file), *words)
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})
    )
    assert "weights in nvfp4, caches in fp8 as the checkpoint says" in said(
        capsys, "serve", "--config", str(file), *words
    )
    words[1] = "1xA100"  # which has no arithmetic in fp8
    assert "weights in nvfp4 as the checkpoint says" in said(capsys, "serve", "--config", str(file), *words)


def test_sessions_and_drafts_are_those_of_their_formulas(capsys):
    """Ten turns of 1,000 tokens and answers of 500 are prompts of 7,750 tokens in the mean, of which 1,000 are new."""
    words = "serve deepseek-v3 --chips 8xH200 --weights fp8 --in 1000 --out 500 --layout tp=8 --users 8 --engine sglang".split()
    text = said(capsys, *words, "--turns", "10", "--drafts", "0.85,0.7")
    assert "7,750 tokens in (the mean of 10 turns), 87% of them in caches" in text.splitlines()[0]
    assert "2.44 tokens a step with 2 drafted" in text.splitlines()[0]
    got = json.loads(said(capsys, *words, "--turns", "10", "--drafts", "0.85,0.7", "--json"))["plan"]
    like = Deployment(tp=8, weights="fp8", rest="fp8", hits=1 - 1000 / 7750, drafts=(0.85, 0.7))
    seen = loaded(Server(model("deepseek-v3"), chip("H200"), like, ENGINES["sglang"]), 7750, 500, 8)
    assert got["gap"]["mid"] == seen.gap.mid and got["first"]["mid"] == seen.first.mid


def test_prefill_and_decode_disaggregated(capsys):
    words = "serve llama-3-70b --chips 16xH100 --weights fp8 --in 4000 --out 500 --speed 40".split()
    got = json.loads(said(capsys, *words, "--json"))["disaggregated"]
    assert got["chips"] <= 16 and got["speed"] >= 40 and got["sent"] == 4000 * 2 * 80 * 8 * 128 * 2
    assert f"{got['prefill']['servers']} x [" in said(capsys, *words)


def test_a_reader_that_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "helpers.plan", *ASKED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
        asked.stdout.close()  # as `| head` does
        assert asked.stderr.read() == ""
    assert asked.returncode == 0
