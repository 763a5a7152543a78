"""Searches that answer one question: for training the shell's and the page's; for serving the shell's and the page's."""

import json
import math
import random
from collections import Counter

import pytest

from helpers.costs.inference.serving_constants import ENGINES
from helpers.costs.inference.serving_operations import BITS, Deployment
from helpers.costs.inference.serving_plan import Target, plan
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import dp_fsdp_tp, layout_set
from helpers.costs.training.layout import Layout, groups
from helpers.costs.training.layout_search import ranking
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import serving
from helpers.figures.inference.planner.training import places
from helpers.plan.__main__ import parser
from helpers.plan.train import also
from tests.tiers import repeats
from tests.twins.settings import FAMILIES, SERVED, TPUS, chip_name, setting

NAME = "planner"
FIRST = 10
FOUND = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id);
    const own = window.livePlanner(data, functions, box, { ...window.liveWords, text: String });
    return cases.map(chosen => {
        own.link(new URLSearchParams({ ...chosen, own: "", pick: "" }));
        return (own.plan().some ?? []).filter(r => r.fits).slice(0, 10).map(r => [r.words, r.seconds]);
    });
}"""


def drawn(figure, seed: int, family: str) -> dict[str, str]:
    """A training step that shell and page can be asked for: any of the page's models, and chips of one family, up to 4,096."""
    draw = random.Random(seed)
    label = draw.choice([x for name, x in figure.chips.items() if name in FAMILIES[family]])
    name = next(name for name, x in figure.chips.items() if x == label)
    T = 2 ** draw.randint(10, 15)
    return {
        "task": "train",
        "model": draw.choice([name for name in figure.models if not model(name).unusual]),
        "chip": label,
        "n": str(draw.choice([m.chips for m in places(name) if m.chips <= 4096])),
        "tokens": str(max(2**14, min(2**26, T * 2 ** draw.randint(3, 11)))),
        "T": str(T),
        "keep": figure.menus["keep"][1][0],
    }


def told_by_shell(figure, asked: dict[str, str]) -> list:
    """The first layouts that `python -m helpers.plan train` lists, as the page words them; none where it refuses."""
    name = next(name for name, label in figure.chips.items() if label == asked["chip"])
    words = f"train {asked['model']} --chips {asked['n']}x{name} --tokens {asked['tokens']} --length {asked['T']}"
    options = parser().parse_args(f"{words} --top {FIRST} --json".split())
    try:
        listed = json.loads(options.run(options))["layouts"]
    except ValueError:
        return []
    out = []
    for one in listed:
        layout = Layout(**{k: x for k, x in one["layout"].items() if k not in ("pods", "policy")})
        words = f"{layout}, keeping {one['layout'].get('policy', Layout.policy)}{also(one['also'])}"
        out.append([words, one["seconds"]["mid"]])
    return out


@pytest.mark.slow("a browser, and the page of all models")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_finds_what_the_shell_finds(page, figure, family):
    """The first ten, in their order, with their seconds and with the splits that are no other design."""
    cases = [drawn(figure, seed, family) for seed in range(repeats(12, 250))]
    kinds = Counter()
    for asked, got in zip(cases, page.evaluate(FOUND, cases), strict=True):
        want = told_by_shell(figure, asked)
        assert [words for words, _ in got] == [words for words, _ in want], asked
        assert all(math.isclose(x, y, rel_tol=1e-12) for (_, x), (_, y) in zip(got, want)), asked
        kinds |= {"found": want != [], "none": want == [], "also": any("; also fsdp=" in words for words, _ in got)}
        kinds["HSDP"] |= any(" fsdp=" in words and "dp=" in words[:3] for words, _ in got)
    assert all(kinds.values()), kinds


def test_what_is_ranked_keeps_the_rules_of_a_step():
    for seed in range(repeats(12, 200)):
        s, draw = setting(seed), random.Random(seed)
        found = ranking(s.config, s.tokens, s.T, s.place.slice, Layout(pods=s.place.pods))
        for n in draw.sample(range(len(found)), min(40, len(found))):
            layout_set.check(s.config, found.layout(n), s.tokens, s.T, s.place.slice)


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
    for seed in range(repeats(10, 400)):
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
    """On a cube, where it does not matter which axes tp has: seconds of a layer's lines over the links of each layout."""
    for seed in range(repeats(40, 400)):
        draw = random.Random(seed)
        chip = CHIPS[draw.choice(TPUS)]
        side = draw.choice([n for n in (2, 4, 8, 16) if n <= min(chip.pod)])
        cube = Slice(chip, (side,) * chip.axes)
        B, D, F = (2 ** draw.randint(*ends) for ends in ((13, 24), (12, 15), (12, 17)))

        def taken(power, cube=cube, sizes=(B, D, F), side=side):
            X, Y = cube.chips // side**power, side**power
            along, W = groups(Layout(fsdp=X, tp=Y), cube), cube.chip.link_bandwidth
            out = 0.0
            for p in dp_fsdp_tp.cost("FSDP+TP", *sizes, X, Y):
                out += max(
                    p.flops / cube.chip.rate(),
                    p.bytes["X"] * along("fsdp").gather / W,
                    p.bytes["Y"] * along("tp").gather / W,
                )
            return out

        mesh = dp_fsdp_tp.best_mesh(B, D, F, cube)
        both = dp_fsdp_tp.times("FSDP+TP", B, D, F, mesh, chip, hop=0)
        assert sum(t.lower for t in both) == pytest.approx(min(map(taken, range(chip.axes + 1))), rel=1e-2), seed
