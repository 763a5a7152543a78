"""The builder of decoders against `helpers.costs`, and what it says of impossible ones."""

import math

from helpers.costs.transformers import parameters_and_flops, training_memory_bytes
from helpers.costs.transformers.public_models import MODELS, model
from helpers.figures.transformers.decoder_sizes.decoder import PARTS, sizes, unused
from helpers.figures.transformers.decoder_sizes.figure import KEEP, MODELS as CHOSEN
from tests.helpers.figures.standalone import SET, follow, link, shown, status, strays

NAME = "decoder"


def test_models_fit_their_sliders_and_every_structure_is_there(figure):
    bounds = {c.name: (c.grid[0], c.grid[-1]) for c in figure.controls if hasattr(c, "grid")}
    for name in CHOSEN:
        assert all(bounds[s][0] <= n <= bounds[s][1] for s, n in sizes(model(name)).items()), name
    there = [MODELS[name] for name in CHOSEN]
    assert any(c.mla and c.mla.q_rank is None for c in there) and any(c.mla and c.mla.q_rank for c in there)
    assert any(c.moe and c.moe.every > 1 for c in there) and any(c.sinks for c in there)
    assert {c.norms for c in there} == {1, 2, 4} and {c.qk_norm for c in there} == {"", "head", "full"}


def test_every_model_is_exactly_what_costs_say(figure):
    for name in CHOSEN:
        c, found = model(name), figure.values({"start": name, "T": 4096, "B": 3, "keep": KEEP["matmuls"]})
        p, memory = parameters_and_flops.parameters(c), training_memory_bytes.training_memory(c, 3, 4096, "matmuls")
        assert (found["total"], found["active"]) == (p.total, p.active)
        assert sum(found[f"p_{part}"] for part in PARTS) == p.total
        assert found["cache"] == parameters_and_flops.kv_cache(c, 4096)
        assert found["memory"] == memory.total and found["m_activations"] == memory.activations
        assert math.isclose(found["forward"], parameters_and_flops.flops(c, 1, 4096, count="causal").forward / 4096)
        assert math.isclose(found["train"], training_memory_bytes.train_flops(c, 1, 4096, "matmuls", "causal") / 4096)


def test_a_model_disables_what_it_does_not_use(page, figure):
    for name in CHOSEN:
        page.get_by_label("Start from").select_option(name)
        assert shown(page).items() <= figure.said({"start": name}).items()
        still = page.locator("form input:disabled").evaluate_all("all => all.map(f => [f.name, f.ariaValueText])")
        assert still == [[size, "not used"] for size in unused(model(name))]


def test_one_size_moves_and_the_others_stay_exact(page):
    page.get_by_label("Start from").select_option("gpt-2-xl")
    assert status(page).startswith("gpt-2-xl: 1,557,611,200 parameters")
    slider = page.get_by_label("D, width")
    for key, D in (("ArrowRight", "1,664"), ("ArrowLeft", "1,536")):  # 1,600 is no place of the slider
        slider.press(key)
        assert slider.get_attribute("aria-valuetext") == D
    assert status(page).startswith("Changed from gpt-2-xl: ")
    assert page.get_by_label("V, vocabulary").get_attribute("aria-valuetext") == "50,257"


def test_an_impossible_setting_says_what_would_do(page):
    page.evaluate(SET, {"start": "llama-3-8b", "N": 28})
    assert set(shown(page).values()) == {"unknown"}
    assert "K = 7 would do, or N = 24" in status(page)
    page.evaluate(SET, {"start": "mixtral-8x7b", "k": 10})
    assert "k = 8 or less would do" in status(page)
    page.evaluate(SET, {"start": "mixtral-8x7b", "E": 1})
    assert "k = 2 of E = 1 expert, so" in status(page)
    page.evaluate(SET, {"start": "gpt-2", "T": 2048})
    assert status(page).endswith("T is beyond the 1,024 rows of its table of positions.")


def test_a_link_has_what_was_moved(page, figure, address):
    page.get_by_label("Start from").select_option("deepseek-v3")
    page.get_by_label("L, layers").press("ArrowRight")
    page.get_by_label("Keep for backward").select_option("everything")
    page.keyboard.press("Tab")
    linked = link(page)
    assert linked.endswith(
        "#live-decoder?start=deepseek-v3&L=64&T=8192&B=1&keep=everything&precision=bf16%2C+moments+in+f32"
    )
    follow(page, f"{address}#live-decoder?D=1000&K=0&N=many&FE=128&start=gpt-2&T=4.5&B=3&keep=nonsense")
    assert strays(page) == "K = 0, N = many, FE = 128, T = 4.5, keep = nonsense"
    assert status(page) == figure.told({"start": "gpt-2", "D": 1000, "B": 3})
