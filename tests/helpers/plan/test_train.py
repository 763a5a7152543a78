"""The command that answers for a model on chips, and layouts as flags of frameworks, there and back again."""

import json
import random
import subprocess
import sys
from itertools import product

import pytest

from helpers import show
from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.training_over_tiers import by_tier
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import MASTER, Layout
from helpers.costs.training.layout_search import KEPT
from helpers.costs.training.partial_layout import unfolded
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from helpers.plan import train
from helpers.plan.__main__ import main
from helpers.plan.ask import room
from helpers.plan.flags import SERVES, TRAINS, of_serving, of_training, read_flags
from helpers.plan.train import layout_words, typed
from tests.helpers.costs.tables import walks
from tests.helpers.costs.transformers.listed import FILE, INVENTED
from tests.tiers import repeats

ASKED = "train llama-3-70b --chips 64xv5p --tokens 1048576 --length 8192".split()
TYPED, KEEPS = "fsdp=16,tp=4,microbatches=8", Layout(stored=MASTER)


def said(capsys, *more) -> str:
    assert main([*ASKED, *more]) == 0
    return capsys.readouterr().out


def test_the_table_is_what_the_search_finds(capsys):
    found = layout_search.search(model("llama-3-70b"), 2**20, 8192, Slice(chip("v5p"), (4, 4, 4)), KEEPS, top=9)
    lines, best = said(capsys, "--top", "9").splitlines(), found.best
    assert "llama-3-70b on 64 v5p (a slice of 4x4x4), 1,048,576 tokens a step in 128 sequences of 8,192" in lines[0]
    want = [layout_words(at) + train.also(found.also(n)) for n, at in enumerate(best)]
    assert [line.split("  ")[-1] for line in lines[3:12]] == want and any("; also fsdp=" in line for line in want)
    assert lines[13] == layout_words(best[0])


def test_as_many_as_it_says_are_as_good_as_the_first(capsys):
    more = "--tokens", str(2**22)
    some = json.loads(said(capsys, *more, "--top", "20", "--json"))
    mids = [at["seconds"]["mid"] for at in some["layouts"]]
    assert some["as_good"] == sum(x <= 1.01 * min(mids) for x in mids) > 1
    assert f"{some['as_good']} designs are as good as the first, within 1%" in said(capsys, *more)


def test_a_layout_that_is_named_is_priced_as_the_functions_price_it(capsys):
    some = json.loads(said(capsys, "--layout", f"{TYPED},policy=block", "--json", "--price", "4", "--budget", "1e12"))
    (one,) = some["layouts"]
    laid = Layout(fsdp=16, tp=4, microbatches=8, stored=MASTER)
    at = step(model("llama-3-70b"), laid, 2**20, 8192, Slice(chip("v5p"), (4, 4, 4)), count="causal")
    assert one["layout"] == {"fsdp": 16, "tp": 4, "microbatches": 8}
    e = at.estimate
    assert one["seconds"] == {"low": e.low, "mid": e.mid, "high": e.high, "floor": at.math}
    assert one["memory"] == vars(at.memory) and one["fits"] == (not at.missing) and 0 < one["mfu"] <= one["hfu"] < 1
    assert one["tokens_per_second"] == pytest.approx(2**20 / at.estimate.mid)
    hours = 1e12 / one["tokens_per_second"] / 3600
    assert one["price"] == pytest.approx(one["days"] * 24 * 64 * 4) == pytest.approx(hours * 64 * 4)


def test_products_may_be_narrower(capsys):
    """The search ranks steps of that type, a typed layout has it unless it says another, and a chip without it is named."""
    words = "train llama-3-8b --chips 8xH100 --sequences 64 --length 4096 --json --top 1 --products fp8".split()
    assert main(words) == 0
    (one,) = json.loads(capsys.readouterr().out)["layouts"]
    assert one["layout"]["products"] == "fp8"
    assert main([*words[:-2]]) == 0
    (usual,) = json.loads(capsys.readouterr().out)["layouts"]
    assert one["seconds"]["mid"] < 0.9 * usual["seconds"]["mid"]
    assert main([*words, "--layout", "fsdp=8"]) == 0
    assert json.loads(capsys.readouterr().out)["layouts"][0]["layout"]["products"] == "fp8"
    assert main([x.replace("H100", "A100") for x in words]) == 2
    assert "A100 has no published rate for 'fp8'" in capsys.readouterr().err


HOSTS = "train llama-3-70b --chips 512xH100 --tokens 4194304 --length 8192".split()


def test_each_tier_has_its_bytes_and_its_seconds(capsys):
    words = [*HOSTS, "--layout", "tp=2,fsdp=64,dp=4,microbatches=2,policy=block,zero=0", "--oversubscription", "4"]
    assert main([*words, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["layouts"]
    hosts = Slice(chip("H100"), (8,))
    laid = Layout(tp=2, fsdp=64, dp=4, microbatches=2, pods=64, stored=MASTER)
    at = step(model("llama-3-70b"), laid, 2**22, 8192, hosts)
    over = by_tier(at, Cluster(hosts, 64, 32, 4.0))
    assert [(x["name"], x["bytes"], x["seconds"]) for x in one["tiers"]] == [(x.name, x.bytes, x.seconds) for x in over]
    assert [x["units"] for x in one["tiers"]] == [8, 32, 2]
    assert main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    at = next(k for k, line in enumerate(lines) if line[:2] == ["count", "a"])
    assert lines[at][-5:] == ["domain", "leaf", "switches", "spine", "switches"]
    table = {line[0]: " ".join(line[1:]) for line in lines[at + 1 : at + 3]}
    for kind in ("weights", "gradients"):
        assert table[kind] == " ".join(show.bytes(x.bytes[kind]) for x in over)
    busy = next(line for line in lines[at:] if line[0] == "floor")
    assert " ".join(busy[6:]) == " ".join(show.seconds(x.seconds) for x in over)
    longest = max(over, key=lambda x: x.seconds)
    share = f"{longest.seconds / one['seconds']['mid']:.0%}"
    said = f"The links of the leaf switches are busy longest: {share} of the estimate"
    assert longest.name == "group" and " ".join(lines[at + 5]).startswith(said)


def test_hsdp_is_called_so_and_what_oversubscription_does_is_said(capsys):
    assert main([*HOSTS, "--layout", "fsdp=8,dp=64,zero=0", "--group", "16", "--oversubscription", "2"]) == 0
    text = capsys.readouterr().out
    assert train.HSDP.format(inside="domain") in text and train.RINGS in text
    assert main([*HOSTS, "--layout", "fsdp=512"]) == 0
    text = capsys.readouterr().out
    assert "HSDP" not in text and train.RINGS not in text
    words = [*HOSTS[:3], "64xH100", *HOSTS[4:], "--layout", "fsdp=64,microbatches=8", "--oversubscription", "2"]
    assert main(words) == 0 and train.ONE_GROUP in capsys.readouterr().out


def test_llama_3_1_as_it_was_trained_can_be_said(capsys):
    """126 layers on 16 stages."""
    words = ["train", "llama-3.1-405b", "--chips", "8192xH100", "--tokens", "16777216", "--length", "8192"]
    assert main([*words, "--layout", "tp=8,pp=16,fsdp=64,microbatches=32"]) == 0
    assert "uneven" in capsys.readouterr().out
    assert main([*words, "--layout", "tp=8,layers=9+8x14+5"]) == 0
    assert "pp=16 " in (text := capsys.readouterr().out) and "layers=even" in text
    assert main([*words, "--layout", "tp=8,pp=16,layers=8x16"]) == 2
    assert "layers=8x16 are 128 layers on 16 devices: give L=126 on pp=16" in capsys.readouterr().err


def test_deepseek_v3_as_it_was_trained_is_completed(capsys):
    """Norms, activation functions and up-projections again, which a page does not try; and on a chip that nobody measured."""
    words = "train deepseek-v3 --chips 2048xH800 --sequences 15360 --length 4096 --products fp8 --layout".split()
    assert main([*words, "pp=16,ep=64,dp=2,schedule=DualPipe,overlaps_experts=True,nodes=4,fp8_swiglu=True"]) == 0
    assert "policy=selective" in (text := capsys.readouterr().out) and "No measured step is of H800" in text


def test_a_layout_that_is_named_is_held_against_the_best(capsys):
    laid = Layout(fsdp=16, tp=4, microbatches=8, stored=MASTER)
    case = model("llama-3-70b"), 2**20, 8192, Slice(chip("v5p"), (4, 4, 4))
    (best,) = layout_search.search(*case, KEEPS, top=1).best
    ratio = step(case[0], laid, *case[1:], count="causal").estimate.mid / best.estimate.mid
    assert ratio > 1.05
    assert f"{ratio:.2f} times the best that fits" in said(capsys, "--layout", f"{TYPED},policy=block")


@walks([
    ("131072xH100", (8,), 16384), ("4xH100", (4,), 1), ("2x8xH100", (8,), 2), ("512 h100", (8,), 64),
    ("576xGB200", (72,), 8), ("512xGB200", (64,), 8), ("64xTrn2", (16,), 4), ("8xH100-PCIe", (2,), 4),
    ("6144xv5p", (16, 16, 24), 1), ("8960xv5p", (16, 20, 28), 1), ("8192xv5p", (16, 16, 16), 2),
    ("9216xv7", (16, 24, 24), 1), ("16x16x24xv5p", (16, 16, 24), 1), ("1,024xv5e", (16, 16), 4),
    ("48xv5e", (4, 4), 3),
])  # fmt: skip
def test_chips_are_whole_domains_or_slices(text, shape, pods):
    machine = room(text)
    assert (tuple(sorted(machine.slice.shape)), machine.pods) == (shape, pods)


LLAMA = dict(
    model_type="llama", hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64,
    num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=False, hidden_act="silu",
)  # fmt: skip


def test_a_config_is_a_model(capsys, tmp_path):
    """As huggingface.co has it of Llama 3 70B."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    words = ["train", "--config", str(path), *ASKED[2:]]
    assert main(words) == 0
    head, held, *rest = capsys.readouterr().out.replace("config.json", "llama-3-70b").splitlines()
    assert [head, *rest] == said(capsys).splitlines()
    assert held == "  The model has 70,553,706,496 parameters; a cache in bf16 grows by 327,680 bytes a token."
    path.write_text("{")
    assert main(words) == 2 and "is no config.json, for it is not JSON" in capsys.readouterr().err
    path.unlink()
    assert main(words) == 2
    assert "cannot be read (No such file or directory): give the path of a config.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", INVENTED)
@pytest.mark.sample(quick=3)
def test_a_list_of_layers_is_planned_and_what_it_is_priced_as_is_said(tmp_path, capsys, name):
    """Training and serving, of each kind of mixer."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(INVENTED[name]))
    count = next(row["parameters"] for row in FILE if row["name"] == name)
    for words in (
        "train --chips 8xH100 --tokens 16384 --length 4096 --top 1",
        "serve --chips 1xH100 --in 999 --out 99 --speed 9",
    ):
        assert main([*words.split(), "--config", str(path)]) == 0
        second, third = capsys.readouterr().out.splitlines()[1:3]
        assert second.startswith(f"  The model has {count:,} parameters") and "a cache in bf16 grows by" in second
        assert third.startswith("  Counted and priced: ")


def test_a_layout_is_listed_with_its_policy(capsys):
    """Text that is printed can be typed again."""
    text = said(capsys, "--layout", f"{TYPED},policy=block").splitlines()[1]
    assert text == "fsdp=16 tp=4 microbatches=8 policy=block"
    assert said(capsys, "--layout", text.replace(" ", ",")).splitlines()[1] == text
    assert typed(text, 1) == typed(text.replace(" ", ","), 1)


def test_what_is_not_typed_is_the_fastest_that_fits(capsys):
    """Against a loop over every other setting; and experts on the chips of tp and dp, as Megatron-LM counts."""
    c, hosts, words = model("mixtral-8x7b"), Slice(chip("H100"), (8,)), "train mixtral-8x7b --chips 32xH100".split()
    words += ["--sequences", "64", "--length", "4096", "--json", "--layout"]
    steps = []
    for dp, fsdp, zero, micro, v, policy in product(
        (1, 2, 4), (1, 2, 4), range(4), (1, 2, 4, 8, 16), (1, 2, 4, 8), KEPT
    ):
        laid = Layout(dp, fsdp, 2, 2, 2, zero=zero, microbatches=micro, v=v, policy=policy, stored=MASTER, pods=4)
        try:
            steps.append(step(c, laid, 2**18, 4096, hosts, "causal"))
        except ValueError:
            pass
    best = min(at.estimate.mid for at in steps if not at.missing)
    for text in ("tp=2,pp=2,ep=2", "tp=2,pp=2,ep=4,etp=1"):
        assert main([*words, text]) == 0
        (one,) = json.loads(capsys.readouterr().out)["layouts"]
        assert one["fits"] and best <= one["seconds"]["mid"] <= layout_search.EQUAL * best
        assert (one["layout"]["tp"], one["layout"]["pp"], one["layout"]["ep"]) == (2, 2, 2)


def test_a_layout_is_told_from_the_best_and_what_would_fit_is_named(capsys):
    text = said(capsys, "--layout", "tp=4,fsdp=16,microbatches=1,policy=everything")
    assert "It does not fit: a device lacks" in text and "The nearest that fits has policy=" in text
    text = said(capsys, "--layout", "tp=8,fsdp=8")
    assert "Not typed, and chosen by search: " in text and " where that one has " in text and "tensor +" in text


def test_what_lacks_less_than_a_count_is_off_is_tight(capsys):
    """405B as it was trained on 16,384 H100s does not fit by our count, and ran: not so what lacks 20 GB."""
    for chips, more, told in ((16384, "dp=128,microbatches=16", "tight"), (8192, "dp=64,microbatches=32", "not")):
        words = f"train llama-3.1-405b --chips {chips}xH100 --sequences 2048 --length 8192 --json --layout".split()
        assert main([*words, f"tp=8,pp=16,zero=1,v=8,policy=everything,{more}"]) == 0
        (one,) = json.loads(capsys.readouterr().out)["layouts"]
        held = sum(one["memory"].values()) / 80e9
        assert (one["fits"], one["tight"]) == (held <= 1, 1 < held <= 1.079) == (False, told == "tight")


def test_another_maker_says_whose_shares_it_has(capsys):
    for of, words in (("8xMI300X", "in one domain"), ("16xTrn2", "in one domain"), ("8xH20", "in one domain")):
        assert main(["train", "llama-3-8b", "--chips", of, "--sequences", "64", "--length", "8192"]) == 0
        text = capsys.readouterr().out
        assert f"No measured step is of {of[of.find('x') + 1 :]}: it has the shares of peak of H100, and" in text
        assert ("makes small groups too fast" in text) == (of != "8xH20")
        assert words in text and "NV" not in text and "pods" not in text


def test_it_needs_numpy_alone():
    """As a program of its own it has JAX and matplotlib not even loaded."""
    run = f"import sys; from helpers.plan.__main__ import main; main({ASKED}); "
    code = run + "print(sorted({'jax', 'matplotlib', 'numpy'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "['numpy']" and not ran.stderr


BAD = [
    ("--chips 511xH100", "511 H100 are no whole number of domains of 8: take 504 or 512"),
    ("--chips 40xv5e --layout dp=40", "dp=40 pods=5 takes 40 chips and the slice has 8: divide an axis by 5"),
    ("--chips 9xv5e", "9 v5e are no slice, nor several slices alike: take 8 or 16"),
    ("--chips 131073xH100", "--chips is from 1 to 131,072 of them, and not 131,073"),
    ("--chips 48xv5e", "48 v5e (3 slices of 4x4) leaves each group whole ones of 128 sequences: give a multiple of 3"),
    ("--chips H100", "--chips is how many of which, such as 512xH100, and not 'H100'"),
    ("--chips 8xH100", "nothing fits on 8 H100: the best lacks 65.4 GB a chip for the step; 16 hold it"),
    ("--chips 64xH1000", "no chip is called 'H1000'"),
    ("--layout tp=x", "tp is a whole number from 1, not 'x'"),
    ("--layout sequence_parallel=no", "sequence_parallel is True or False, not 'no'"),
    ("--layout tensor=8", "--layout is names and values such as tp=8,fsdp=64, with names of dp, fsdp, tp"),
    ("--layout tp=7,fsdp=8", "takes 56 chips and the slice has 64"),
    ("--layout tp=2,tp=4", "--layout names tp twice: give it once"),
    ("--layout tp=8,fsdp=8,pods=2", "pods=2, and these chips are 1: leave it out"),
    ("--tokens -8", "--tokens, --sequences, --length and --top are 1 or more"),
    ("--tokens 0", "--tokens, --sequences, --length and --top are 1 or more"),
    ("--tokens 4M", "a whole number such as 8192, and not '4M': python -m helpers.plan train llama-3-70b --chips"),
    ("--price x", "argument --price: a number above 0, such as 2.5 or 1e12, and not 'x': python -m helpers.plan train"),
    ("--budget -1", "argument --budget: a number above 0, such as 2.5 or 1e12, and not '-1'"),
    ("--sequences 4", "not allowed with argument --tokens: python -m helpers.plan train llama-3-70b"),
    ("--config x.json", "give a public model or --config with the path of a config.json, one of the two"),
    ("--oversubscription 2", "slices of v5p hang on one network here: groups and oversubscription are of GPUs"),
    ("--chips 64xH100 --oversubscription 0.5", "oversubscription is 1 (none) or more, not 0.5"),
    ("--chips 64xH100 --group 3", "8 domains do not make whole groups of 3"),
    ("--what", "there is no --what in train: python -m helpers.plan train"),
    ("--tokens 100", "100 tokens are no whole number of sequences of 8192: the next is 8192"),
]


def test_bad_input_gets_a_sentence(capsys):
    wrong = []
    for more, sentence in BAD:
        code, got = main([*ASKED, *more.split()]), capsys.readouterr()
        ok = code == 2 and sentence in got.err and got.err.count("\n") == 1 and not got.out
        wrong += [] if ok else [(more, code, got)]
    assert not wrong


QWEN = (  # best_practice/qwen3 of Megatron-MoE-ModelZoo: TP 2, EP 32, PP 8, VPP 4, MBS 1, GBS 2048 on 256 H100, 128 microbatches
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 --expert-model-parallel-size 32 --expert-tensor-parallel-size 1 "
    "--num-virtual-stages-per-pipeline-rank 4 --micro-batch-size 1 --global-batch-size 2048 --use-distributed-optimizer"
)


def test_a_published_command_is_the_layout_that_ran():
    text, said = read_flags(QWEN, 256)
    given = unfolded(typed(text, 32), 256)
    assert given == {"tp": 2, "pp": 8, "ep": 16, "v": 4, "zero": 1, "microbatches": 128, "pods": 32}
    assert said == [f"Read from flags: {text}."]
    ran = Layout(tp=2, pp=8, ep=16, v=4, zero=1, microbatches=128, policy="everything")
    flags, unsaid = of_training("megatron-lm", ran, 2048)
    assert sorted(flags.split()) == sorted(QWEN.split()) and not unsaid


@pytest.mark.parametrize("framework", TRAINS)
def test_there_and_back_a_training_layout_is_the_same(framework):
    """Of what the framework can say; what is left out is said."""
    for seed in range(repeats(60, 1000)):
        draw = random.Random(seed)
        size = {axis: 2 ** draw.randint(0, 3) for axis in ("tp", "cp", "ep", "pp")}
        share = {draw.choice(("dp", "fsdp")): 2 ** draw.randint(0, 3)}
        v = draw.choice((1, 2)) if size["pp"] > 1 else 1
        policy = draw.choice(("everything", "matmuls", "block"))
        laid = Layout(**size, **share, v=v, microbatches=2 ** draw.randint(0, 3), policy=policy)
        sequences = laid.dp * laid.fsdp * laid.ep * laid.microbatches * 2
        flags, unsaid = of_training(framework, laid, sequences)
        given = unfolded(typed(read_flags(flags, laid.chips, sequences)[0], 1), laid.chips)
        again = Layout(**given)
        for name in ("tp", "cp", "ep", "pp", "microbatches"):
            assert getattr(again, name) == getattr(laid, name), (name, flags)
        assert unsaid == ("v=2" if framework == "torchtitan" and v > 1 else "")
        assert again.v == (1 if unsaid else v) and again.policy in (laid.policy, Layout.policy)


@pytest.mark.parametrize("framework", SERVES)
def test_there_and_back_a_deployment_is_the_same(framework):
    for tp, dp, wide in ((8, 1, False), (1, 8, True), (2, 4, True), (4, 2, False)):
        axes = {name: n for name, n in (("tp", tp), ("dp", dp), ("ep", tp * dp if wide else 1)) if n > 1}
        flags, unsaid = of_serving(framework, axes)
        text = read_flags(flags, 0)[0]
        assert not unsaid and {n: int(x) for n, x in (part.split("=") for part in text.split(",")) if x != "1"} == axes


def test_what_is_wrong_with_flags_is_said(capsys):
    words = "train llama-3-8b --chips 8xH100 --sequences 64 --length 4096".split()
    assert main([*words, "--layout=--tensor-model-parallel-size two"]) == 2
    assert "--tensor-model-parallel-size has a whole number behind it, and not 'two'" in capsys.readouterr().err
    assert main([*words, "--layout=--tensor-model-parallel-size 2 --lr 3e-4", "--flags", "torchtitan"]) == 0
    text = capsys.readouterr().out
    assert "Read from flags: tp=2; of --lr nothing." in text
    assert "For torchtitan: --parallelism.tensor_parallel_degree 2 " in text
