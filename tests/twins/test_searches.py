"""Searches that answer one question: for training the shell's, the page's and the chapter's figure's; for serving the shell's and
the page's."""

import math
import random
from functools import cache

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_operations import BITS, Deployment
from helpers.costs.inference.serving_plan import Target, plan
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import dp_fsdp_tp, layout_search, training_step
from helpers.costs.training.layout import Layout, wires
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import serving, training as page
from helpers.figures.training.layout_search import candidates as figure
from tests.tiers import repeats
from tests.twins.settings import FAMILIES, SERVED, TPUS, chip_name, of_family, setting

WORST = {"TPU": 1.2, "GPU": 1.8}  # times the shell's seconds that the page's first layout takes today, at most
UNLIKE = {"TPU": 0.1, "GPU": 0.4}  # share of settings in which they differ today, at most


@cache
def seconds(seed: int) -> dict[str, float]:
    """What the first layout of each search takes; infinite where it finds none that fits."""
    s = setting(seed)
    place, case = s.place, (s.config, s.tokens, s.T)
    shell = layout_search.search(*case, place.slice, Layout(pods=place.pods), top=1).best
    ranked = [row for row in page.ranked(case[0], place, *case[1:]) if row.fits]
    best = figure.best(case[0], place, *case[1:])
    return {
        "shell": float(shell[0].estimate.mid) if shell else math.inf,
        "page": ranked[0].seconds if ranked else math.inf,
        "figure": float(best.step.estimate.mid) if best.fitting else math.inf,
    }


def apart(seeds, one: str, other: str) -> dict[int, float]:
    """Seeds whose two searches differ, with by how many times."""
    found = {seed: (seconds(seed)[one], seconds(seed)[other]) for seed in seeds}
    return {seed: x / y for seed, (x, y) in found.items() if not math.isclose(x, y, rel_tol=1e-9)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_finds_what_the_figure_finds(family):
    assert apart(of_family(family, repeats(12, 500)), "page", "figure") == {}


@pytest.mark.xfail(strict=True, reason="a fifth of settings on GPUs, up to 1.76 times: two searches until they are one")
def test_the_page_finds_what_the_shell_finds_on_gpus():
    assert apart(of_family("GPU", repeats(12, 500)), "page", "shell") == {}


@pytest.mark.slow("some 2 % of settings differ, so that it takes many to see one")
@pytest.mark.xfail(strict=True, reason="2 % of settings on TPUs, up to 1.1 times: two searches until they are one")
def test_the_page_finds_what_the_shell_finds_on_tpus():
    assert apart(of_family("TPU", repeats(80, 500)), "page", "shell") == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_page_and_shell_are_no_further_apart_than_they_were(family):
    """Nor does one find a layout where the other has none. The page's is faster by as much as a rank may set simplicity before speed."""
    seeds = of_family(family, repeats(12, 500))
    found = apart(seeds, "page", "shell")
    assert all(1 / 1.02 < times < WORST[family] for times in found.values()), (
        found
    )  # within a percent the simplest is first
    assert len(found) <= UNLIKE[family] * len(seeds)


NEAR = {
    "llama-3-70b": ("v5p", 6, 2**20, 8192),
    "mixtral-8x7b": ("v5e", 7, 2**18, 4096),
    "deepseek-v3": ("v7", 6, 2**20, 4096),
}


@pytest.mark.parametrize("name", NEAR)
def test_the_figure_stays_near_the_shell_on_tpus(name):
    """Nearer than drawn settings are: three that were chosen by hand."""
    of, n, tokens, T = NEAR[name]
    c, place = model(name), figure.places(of)[n]
    every = layout_search.search(c, tokens, T, place.slice, top=1).best[0]
    assert figure.best(c, place, tokens, T).step.estimate.mid <= 1.03 * every.estimate.mid


def test_what_the_page_tries_keeps_the_rules_of_a_step():
    for seed in range(repeats(12, 200)):
        s, draw = setting(seed), random.Random(seed)
        rows = figure.candidates(s.config, s.place.chips, s.tokens, s.T).astype(int).tolist()
        for row in draw.sample(rows, min(40, len(rows))):
            layout = Layout(**dict(zip(layout_search.SEARCHED, row)), pods=s.place.pods)
            training_step.check(s.config, layout, s.tokens, s.T, s.place.slice)


def asked(seed: int) -> tuple:
    """A question to a search of deployments: a model, chips, lengths, a target, an engine and types."""
    draw = random.Random(seed)
    name, of = draw.choice(SERVED), chip_name(draw, seed)
    longest = min(model(name).positions or 20_000, 20_000) // 2
    promises = (None, 10, 50, 200), (None, 0.3, 2), (None, 8, 64, 1000), (None, 0.5, 10)
    return (
        model(name), of, draw.choice((*(None,) * 5, 1, 4, 8, 12, 64, 256)), draw.randint(50, longest), draw.randint(20, longest),
        Target(*map(draw.choice, promises)), ENGINES[draw.choice([*ENGINES])],
        Deployment(weights=draw.choice([*BITS]), cache=draw.choice(("bf16", "int8"))),
    )  # fmt: skip


def test_the_page_finds_the_deployment_that_the_shell_finds():
    """And its frontier, and whether it keeps what is asked; the shell refuses what the page has no line for."""
    kinds = {"kept": 0, "missed": 0, "none": 0}
    for seed in range(repeats(20, 400)):
        c, of, chips, prompt, answer, target, *rest = asked(seed)
        found = serving.search(c, of, serving.Asked(prompt, answer, chips, target), *rest)
        if found is None:
            with pytest.raises(ValueError, match="do not fit on"):
                plan(c, CHIPS[of], chips, prompt, answer, target, *rest)
        else:
            want, first = plan(c, CHIPS[of], chips, prompt, answer, target, *rest), found.rows[0]
            assert (first.plan, first.fits) == (want.best, want.kept), seed
            assert tuple(row.plan for row in found.frontier) == want.frontier, seed
        kinds["none" if found is None else "kept" if want.kept else "missed"] += 1
    assert min(kinds.values()) > 0, kinds


def test_the_best_mesh_of_a_layer_is_the_best_of_the_layouts_with_fsdp_and_tp():
    """On a cube, where it does not matter which axes tp has: seconds of a layer's lines over the wires of each layout."""
    for seed in range(repeats(40, 400)):
        draw = random.Random(seed)
        chip = CHIPS[draw.choice(TPUS)]
        side = draw.choice([n for n in (2, 4, 8, 16) if n <= min(chip.pod)])
        cube, B, D, F = (
            Slice(chip, (side,) * chip.axes),
            *(2 ** draw.randint(*ends) for ends in ((13, 24), (12, 15), (12, 17))),
        )

        def taken(power, cube=cube, sizes=(B, D, F), side=side):
            X, Y = cube.chips // side**power, side**power
            over = wires(Layout(fsdp=X, tp=Y), cube)
            out = 0.0
            for p in dp_fsdp_tp.cost("FSDP+TP", *sizes, X, Y):
                out += max(
                    p.flops / cube.chip.rate(), p.bytes["X"] * over["fsdp"].gather, p.bytes["Y"] * over["tp"].gather
                )
            return out

        mesh = dp_fsdp_tp.best_mesh(B, D, F, cube)
        both = dp_fsdp_tp.times("FSDP+TP", B, D, F, mesh, chip, hop=0)
        assert sum(t.lower for t in both) == pytest.approx(min(map(taken, range(chip.axes + 1))), rel=1e-2), seed
