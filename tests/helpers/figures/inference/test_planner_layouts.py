"""The planner's layouts that are typed, and what it says of its numbers."""

import pytest

from helpers.costs.training.layout import MASTER, Layout
from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import words as say
from helpers.figures.inference.planner.training import places
from tests.helpers.figures.inference.test_planner import check
from tests.helpers.figures.standalone import follow, link, strays

NAME = "planner"
NAMES = (
    "A layout is names and values such as tp=8,fsdp=64, with names of tp, cp, ep, fsdp, dp, pp, zero, microbatches, v, "
    "policy, etp, and not “"
)
TYPED = {
    "tp=8,fsdp=8": "",
    "fsdp=64 policy=matmuls, microbatches=2": "",
    "tp=8,fsdp=4": "",
    "zero=1": "",
    "pp=8,v=4": "",
    "tp=3,fsdp=8": "These axes take 24 chips and there are 64: make their product 64.",
    "tp=8,fsdp=8,v=2": "v=2 stages on each device are of a pipeline: give pp.",
    "tp=8,fsdp=8,offload=optimizer": "offload has no price on this page: leave it out, or ask python -m helpers.plan train.",
    "tensor=8": NAMES + "tensor=8”.",
    "toString=8": NAMES + "toString=8”.",
    "tp=8,tp=4": "tp stands there twice: give it once.",
    "tp=8,zero=4": "zero is 0, 1, 2 or 3, and not “4”.",
    "tp=0": "tp is a whole number from 1, and not “0”.",
    "policy=some": "policy is everything, matmuls or block, and not “some”.",
    "ep=2,fsdp=32": "ep=2 does not divide the sizes of llama-3-70b: take one of 1.",
    "fsdp=64,microbatches=64": "128 sequences do not divide over dp · fsdp · ep = 64 times 64 microbatches: "
    "take more tokens a step, or fewer of these.",
}  # fmt: skip


def test_a_layout_that_is_typed_stands_among_the_others(figure):
    for text, wrong in TYPED.items():
        plan = figure.plan({"own": text, "pick": "own"})
        assert plan.wrong == wrong and (plan.rows[plan.picked].name == "own") == (not wrong), text
    plain, plan = figure.plan(), figure.plan({"own": "tp=8,fsdp=8", "pick": "own"})
    assert tuple(r for r in plan.rows if r.name != "own") == plain.rows  # it moves no other
    own = plan.rows[plan.picked]
    laid = Layout(tp=8, fsdp=8, microbatches=8, policy="everything", stored=MASTER)  # what is not typed, the fastest
    at = step(model("llama-3-70b"), laid, 2**20, 8192, places("v5p")[6].slice, "causal")
    assert (own.seconds, own.memory) == (at.estimate.mid, at.memory.total)
    ratio = own.seconds / min(r.seconds for r in plain.rows if r.fits)
    assert (
        f"is number {plan.picked + 1} of {len(plan.rows)}" in plan.sentence
        and f"{ratio:.2f} times the best" in plan.sentence
    )


def test_another_makers_chip_says_whose_shares_it_has(figure):
    for label in ("MI300X", "MI355X", "Trainium 2", "H20"):
        said = figure.plan({"chip": label, "n": "16"}).sentence
        assert ("makes small groups too fast" in said) == (label != "H20")
        assert (
            f"No measured step is of {label}: it has the shares of peak of H100, and a wider interval." in said
            and "NVIDIA" not in said
        )
        assert ("NVLink" in said) == (label == "H20")
    assert "No measured step" not in figure.plan({"chip": "H100"}).sentence
    high, mid = (
        step(model("llama-3-8b"), Layout(fsdp=8), 2**20, 8192, places(of)[3].slice).estimate
        for of in ("MI300X", "H100")
    )
    assert high.high / high.mid == pytest.approx(1.3 * mid.high / mid.mid)


@pytest.mark.slow("a browser reads the ranking anew for a dozen texts")
def test_a_layout_is_typed_and_refused_under_its_field(page, figure, address):
    field, under = page.get_by_label("A layout of yours"), page.locator("[data-of=own] p")
    for text, wrong in TYPED.items():
        field.fill(text)
        assert under.inner_text() == wrong and field.get_attribute("aria-invalid") == str(bool(wrong)).lower(), text
        check(page, figure, {"own": text, "pick": "own"})
    field.fill("tp=8,fsdp=8")
    check(page, figure, {"own": "tp=8,fsdp=8", "pick": "own"})
    field.blur()
    follow(page, link(page))
    assert strays(page) == ""
    check(page, figure, {"own": "tp=8,fsdp=8", "pick": "own"})
    page.locator("[data-row] input").first.check()
    first = figure.plan({"own": "tp=8,fsdp=8", "pick": "own"})
    name = first.rows[first.picked // say.ROWS * say.ROWS].name
    check(page, figure, {"own": "tp=8,fsdp=8", "pick": name})
    page.locator("[name=task]").select_option("serve")
    assert not field.is_visible()
    page.locator("[name=task]").select_option("train")
    page.get_by_label("A layout of yours").fill("")
    check(page, figure, {})
