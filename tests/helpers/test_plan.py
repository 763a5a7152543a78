"""The command that answers for a model on chips."""

import json
import subprocess
import sys

import pytest

from helpers import plan
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import layout_search
from helpers.costs.training.layout import Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model

ASKED = ["train", "llama-3-70b", "--chips", "64xv5p", "--tokens", "1048576", "--length", "8192"]


def said(capsys, *more) -> str:
    assert plan.main([*ASKED, *more]) == 0
    return capsys.readouterr().out


def test_the_table_is_what_the_search_finds(capsys):
    best = layout_search.search(model("llama-3-70b"), 2**20, 8192, Slice(chip("v5p"), (4, 4, 4)), top=3).best
    lines = said(capsys, "--top", "3").splitlines()
    assert [line.split("  ")[-1] for line in lines[2:5]] == [str(at.layout) for at in best]
    assert lines[6].startswith(f"{best[0].layout}: estimate ")


def test_a_layout_that_is_named_is_priced_as_the_functions_price_it(capsys):
    one = json.loads(
        said(capsys, "--layout", "fsdp=16,tp=4,microbatches=8", "--json", "--price", "4", "--budget", "1e12")
    )
    laid = Layout(fsdp=16, tp=4, microbatches=8)
    at = step(model("llama-3-70b"), laid, 2**20, 8192, Slice(chip("v5p"), (4, 4, 4)), count="causal")
    assert one["layout"] == {"fsdp": 16, "tp": 4, "microbatches": 8}
    assert one["seconds"] == {
        "low": at.estimate.low,
        "mid": at.estimate.mid,
        "high": at.estimate.high,
        "floor": at.math,
    }
    assert one["memory"] == vars(at.memory) and one["fits"] == (not at.missing) and 0 < one["mfu"] <= one["hfu"] < 1
    assert one["tokens_per_second"] == pytest.approx(2**20 / at.estimate.mid)
    assert (
        one["price"]
        == pytest.approx(one["days"] * 24 * 64 * 4)
        == pytest.approx(1e12 / one["tokens_per_second"] / 3600 * 64 * 4)
    )


def test_llama_3_1_as_it_was_trained_can_be_said(capsys):
    """126 layers on 16 stages."""
    words = ["train", "llama-3.1-405b", "--chips", "8192xH100", "--tokens", "16777216", "--length", "8192"]
    assert plan.main([*words, "--layout", "tp=8,pp=16,fsdp=64,microbatches=32"]) == 0
    assert "uneven" in capsys.readouterr().out


def test_it_needs_numpy_alone():
    """As a program of its own it has JAX and matplotlib not even loaded."""
    code = f"import sys; from helpers import plan; plan.main({ASKED}); print(sorted({{'jax', 'matplotlib', 'numpy'}} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "['numpy']" and not ran.stderr


@pytest.mark.parametrize(
    "more, words",
    [
        (("--chips", "511xH100"), "511 H100 are no slice or whole number of 8: take 504"),
        (("--chips", "H100"), "--chips is how many of which, such as 512xH100, and not 'H100'"),
        (
            ("--chips", "8xH100"),
            "nothing fits on 8xH100: the best lacks 30.1 GB a chip; the fewest that hold the step are 16",
        ),
        (("--chips", "64xH1000"), "no chip is called 'H1000'"),
        (("--layout", "tp=x"), "tp is a whole number, not 'x'"),
        (("--layout", "sequence_parallel=no"), "sequence_parallel is True or False, not 'no'"),
        (("--layout", "tensor=8"), "--layout is names and values such as tp=8,fsdp=64, with names of dp, fsdp, tp"),
        (("--layout", "tp=8"), "tp=8 takes 8 chips and the slice has 64: multiply an axis by 8"),
        (("--layout", "tp=7,fsdp=8"), "takes 56 chips and the slice has 64"),
        (("--tokens", "-8"), "--tokens, --length and --top are 1 or more"),
        (("--tokens", "100"), "100 tokens are no whole number of sequences of 8192: the next is 8192"),
    ],
)
def test_bad_input_gets_a_sentence(capsys, more, words):
    assert plan.main([*ASKED, *more]) == 2
    got = capsys.readouterr()
    assert words in got.err and got.err.count("\n") == 1 and not got.out
