"""What a token costs on the page against `helpers.costs`."""

import math
import random

import pytest

from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.sharded_decode_step import decode, splits
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.token_price.decode_step import RESOURCES, ROLES, best, bound, enough, places, row, ways
from helpers.figures.inference.token_price.figure import AXES
from tests.helpers.figures.standalone import SET, check, same, shown, status
from tests.tiers import repeats

NAME = "serving"

NUMBERS = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id);
    const own = window.liveServing(data, functions, box, { ...window.liveWords, text: String });
    return cases.map(({ model, chip, widths, ...args }) => {
        const said = { model, chip, widths };
        const values = own.find({ ...args, ...data.controls.find(c => c.name === "widths").options[widths] }, said);
        return [values, said];
    });
}"""


def draw(figure, seed: int) -> dict:
    """Some setting of all controls; a batch that might fit more often than not."""
    r = random.Random(seed)
    grid = {s.name: s.grid for s in figure.sliders}
    return {
        "model": r.choice(figure.models),
        "chip": r.choice(list(figure.chips.values())),
        "widths": r.choice(list(figure.widths)),
        "n": 2 ** r.randint(0, 8) if r.random() < 0.3 else 2 ** r.randint(1, 5),
        "S": r.choice(grid["S"]),
        "B": min(r.choice(grid["B"]), r.choice(grid["B"])),
    }


@pytest.mark.parametrize("name, of, n, widths, B, S", [
    ("llama-3-70b", "v5p", 16, (1, 1), 24, 30000),
    ("gemma-3-27b", "H100", 8, (2, 1), 5, 5000),  # windows
    ("deepseek-v3", "v7", 16, (1, 2), 100, 8192),  # latent vectors, experts
    ("gpt-oss-120b", "v6e", 64, (2, 2), 3000, 1024),
])  # fmt: skip
def test_parts_of_a_step_are_what_costs_say(name, of, n, widths, B, S):
    s = places(chip(of), n)[-1]
    r = Replica(model(name), chip(of), n, *widths)
    for Y in ways(s):
        Z, step = n // Y, decode(r, s, Y, n // Y, B, S)
        got = row(r, s, Y, Z, B, S)
        assert (got["seconds"], got["lower"]) == (step.seconds, step.time.lower)
        bare = decode(Replica(model(name), chip(of), n, widths[0], 0), s, Y, Z, B, S)
        assert got["t_caches"] == pytest.approx(step.time.parts["hbm"] - bare.time.parts["hbm"], rel=1e-9)
        assert got["t_weights"] > 0 and got["t_rest"] > 0
        assert got["t_weights"] + got["t_caches"] + got["t_rest"] == pytest.approx(step.time.parts["hbm"])
        assert got["m_weights"] + got["m_caches"] + got["m_copies"] == pytest.approx(got["held"])
        role, resource = step.bound
        assert bound(step) == ROLES.index(role) * len(RESOURCES) + RESOURCES.index(resource)
        assert got["hours"] * 3600 * got["rate"] == pytest.approx(n * 1e6)


def test_the_largest_batch_fits_and_one_more_does_not():
    for name, of, n, S in (
        ("llama-3-8b", "v5e", 16, 8192),
        ("mixtral-8x7b", "H100", 4, 3000),
        ("kimi-k2", "v7", 16, 4096),
    ):
        s, r = places(chip(of), n)[-1], Replica(model(name), chip(of), n, 2, 2)
        most = best(r, s, 1, S).most
        assert most and best(r, s, most, S).fits and not best(r, s, most + 1, S).fits
        assert best(r, s, most, S).values["held"] <= chip(of).hbm_bytes < best(r, s, most + 1, S).values["held"]


def test_the_fewest_chips_fit_and_half_of_them_do_not():
    r = Replica(model("llama-3.1-405b"), chip("v5e"), 8, 2, 2)
    s = enough(r, chip("v5e"), 256, 4, 8192)
    assert s.chips == 64 and splits(r, s, "decode", 4, 8192)[0].fits
    assert not splits(r, places(chip("v5e"), 32)[-1], "decode", 4, 8192)[0].fits
    assert enough(r, chip("v5e"), 32, 4, 8192) is None


def test_forty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(10, 40)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        check(page, figure, chosen)


def test_three_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(75, 300))]
    kinds = {"fits": 0, "lacks": 0, "none": 0}
    for n, (chosen, (numbers, said)) in enumerate(zip(cases, page.evaluate(NUMBERS, cases), strict=True)):
        found = figure.found(chosen)
        want, told = figure.values(found), figure.said(found)
        if n % 25 == 0:
            want |= figure.drawn(found, chosen)
            assert set(want) == set(numbers)
        for name, x in want.items():
            assert same(numbers[name], x), (chosen, name)
        assert {n: said[n] for n in ("cut", "most", "bound", "critical")} == {
            n: told[n] for n in ("cut", "most", "bound", "critical")
        }
        kinds["fits" if found and found.fits else "lacks" if found else "none"] += 1
        if found and found.fits:  # the dot lies on the axes
            for axis, name in zip(AXES, ("seconds", "per_chip")):
                assert axis.low <= math.log10(found.values[name]) <= axis.high, chosen
    assert min(kinds.values()) > repeats(7, 30), kinds


def test_a_wrong_setting_says_what_would_be_right(page, figure):
    page.evaluate(SET, {"chip": "H100", "n": 2})
    assert "does not fit" in status(page) and status(page).endswith("Up to B = 7 fit. 4 chips would do.")
    assert shown(page)["seconds"] == "unknown" and shown(page)["held"] == "114 GB"
    assert page.locator('[data-mark="3"]').is_visible() and not page.locator('[data-mark="2"]').is_visible()
    page.evaluate(SET, {"n": 64})
    assert status(page) == "H100 ends at 8 chips here: take 8 or fewer, or another chip."
    page.evaluate(SET, {"model": "llama-2-13b", "chip": "v5e"})
    assert status(page) == "64 chips cannot share the 40 heads of llama-2-13b evenly: take 8 or fewer."
    page.evaluate(SET, {"model": "kimi-k2", "n": 1})
    assert "Not even B = 1 fits. No number of these chips" in status(page)
