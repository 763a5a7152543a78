"""The builder of decoders on the page against `helpers.costs`."""

import math
import random

from helpers.costs.transformers import parameters_and_flops, training_memory_bytes
from helpers.costs.transformers.public_models import MODELS, model
from helpers.figures.transformers.decoder_sizes.decoder import KEPT, RESULTS, SIZES, sizes, unused
from tests.helpers.figures.standalone import SET, follow, link, same, shown, status, strays
from tests.tiers import repeats

NAME = "decoder"
NUMBERS = """cases => {
    const [data, [counts]] = window.liveFigures[0], width = data.results.length + 1;
    return cases.map(([family, args]) => counts(...args).slice(family * width, (family + 1) * width));
}"""


def grid(figure, name: str) -> tuple[int, ...]:
    return next(s.grid for s in figure.sliders if s.name == name)


def keep(figure, policy: str) -> str:
    """What the menu calls a policy."""
    menu = next(m for m in figure.menus if m.name == "keep")
    return next(text for text, at in menu.options.items() if KEPT[at["policy"]] == policy)


def draw(figure, seed: int) -> dict:
    """A model, and none, some or all of its sizes changed; about one in three is impossible."""
    r = random.Random(seed)
    name = r.choice(figure.models)
    there, share = sizes(model(name)), r.choice([0, 0.2, 1])
    moved = {s.name: r.choice(s.grid) for s in figure.sliders if s.name not in SIZES}
    moved |= {s.name: r.choice(s.grid) for s in figure.sliders if s.name in there and r.random() < share}
    if "K" in moved and r.random() < 0.6:  # heads that share evenly
        n = moved.get("N", there["N"])
        moved["K"] = r.choice([s for s in grid(figure, "K") if n % s == 0])
    return {"start": name} | moved | {m.name: r.choice(list(m.options)) for m in figure.menus}


def test_models_fit_their_sliders_and_every_structure_is_there(figure):
    bounds = {s.name: (s.grid[0], s.grid[-1]) for s in figure.sliders}
    for name in figure.models:
        assert all(bounds[s][0] <= n <= bounds[s][1] for s, n in sizes(model(name)).items()), name
    there = [MODELS[name] for name in figure.models]
    assert any(c.mla and c.mla.q_rank is None for c in there) and any(c.mla and c.mla.q_rank for c in there)
    assert any(c.moe and c.moe.every > 1 for c in there) and any(c.sinks for c in there)
    assert {c.norms for c in there} == {1, 2, 4} and {c.qk_norm for c in there} == {"", "head", "full"}


def test_every_model_is_exactly_what_costs_say(figure):
    for name in figure.models:
        c, found = model(name), figure.values({"start": name, "T": 4096, "B": 3, "keep": keep(figure, "matmuls")})
        p, memory = parameters_and_flops.parameters(c), training_memory_bytes.training_memory(c, 3, 4096, "matmuls")
        assert (found["total"], found["active"]) == (p.total, p.active)
        assert (
            sum(found[f"p_{part}"] for part in ("embedding", "attention", "mlp", "experts", "shared"))
            + sum(found[f"p_{part}"] for part in ("router", "rest", "unembedding"))
            == p.total
        )
        assert found["cache"] == parameters_and_flops.kv_cache(c, 4096)
        assert found["memory"] == memory.total and found["m_activations"] == memory.activations
        assert math.isclose(found["forward"], parameters_and_flops.flops(c, 1, 4096, count="causal").forward / 4096)
        assert math.isclose(found["train"], training_memory_bytes.train_flops(c, 1, 4096, "matmuls", "causal") / 4096)


def test_every_model_reads_as_python_says(page, figure):
    for name in figure.models:
        page.get_by_label("Start from").select_option(name)
        assert shown(page) == figure.said({"start": name}) and status(page) == figure.sentence({"start": name})
        assert page.locator(".live-unused").inner_text() == figure.unused_text(name)
        disabled = page.locator("form input:disabled").evaluate_all("all => all.map(f => f.name)")
        assert tuple(disabled) == unused(model(name))


def test_sixty_settings_read_as_python_says(page, figure):
    for seed in range(repeats(15, 60)):
        chosen = draw(figure, seed)
        page.evaluate(SET, chosen)
        assert shown(page) == figure.said(chosen), chosen
        assert status(page) == figure.sentence(chosen), chosen


def test_fifteen_hundred_settings_number_for_number(page, figure):
    cases, wanted, impossible = [], [], 0
    for seed in range(1000, 1000 + repeats(300, 1500)):
        at = figure.chosen(draw(figure, seed))
        numbers = dict(at)
        for menu in figure.menus:
            numbers |= menu.options[at[menu.name]]
        family = figure.start.options[at["start"]]["family"]
        cases.append([family, [numbers[n] for n in ("D", "L", "N", "K", "H", "F", "V", "E", "k", "FE", "T", "B")]
                      + [numbers[n] for n in ("policy", "weight", "gradient", "state", "activation")]])  # fmt: skip
        wanted.append(figure.values(at))
    for case, want, (wrong, *got) in zip(cases, wanted, page.evaluate(NUMBERS, cases), strict=True):
        assert wrong == want["problem"], case
        impossible += bool(wrong)
        for r, value in zip(RESULTS, got, strict=True):
            assert same(math.nan if wrong else value, want[r.name]), (
                case,
                r.name,
            )  # Config itself refuses what is wrong
    assert repeats(20, 100) < impossible < repeats(200, 1000)


def test_the_keyboard_moves_one_size_and_the_others_stay_exact(page, figure):
    page.get_by_label("Start from").select_option("gpt-2-xl")
    assert status(page).startswith("gpt-2-xl: 1,557,611,200 parameters")
    assert 1600 not in grid(figure, "D") and {1536, 1664, 1792} < set(grid(figure, "D"))
    slider = page.get_by_label("D, width")
    slider.focus()
    for key, D in (("ArrowRight", 1664), ("ArrowRight", 1792), ("ArrowLeft", 1664), ("ArrowLeft", 1536)):
        page.keyboard.press(key)
        assert slider.get_attribute("aria-valuetext") == f"{D:,}"
        at = {"start": "gpt-2-xl", "D": D}
        assert shown(page) == figure.said(at) and status(page) == figure.sentence(at)
    assert status(page).startswith("Changed from gpt-2-xl: ")
    assert page.get_by_label("V, vocabulary").get_attribute("aria-valuetext") == "50,257"


def test_an_impossible_setting_says_what_would_do(page, figure):
    page.evaluate(SET, {"start": "llama-3-8b", "N": 28})
    assert set(shown(page).values()) == {"unknown"}
    assert "K = 7 would do, or N = 24" in status(page)
    page.evaluate(SET, {"start": "mixtral-8x7b", "k": 10})
    assert "k = 8 or less would do" in status(page)
    page.evaluate(SET, {"start": "mixtral-8x7b", "E": 1})
    assert "k = 2 of E = 1 expert, so" in status(page)
    page.evaluate(SET, {"start": "gpt-2", "T": 2048})
    assert status(page).endswith("T is beyond the 1,024 rows of its table of positions.")


def test_a_setting_can_be_linked_to(page, figure, address):
    page.get_by_label("Start from").select_option("deepseek-v3")
    page.get_by_label("L, layers").press("ArrowRight")
    page.get_by_label("Keep for backward").select_option("everything")
    page.keyboard.press("Tab")
    linked, said = link(page), status(page)
    assert linked.endswith("#live-decoder?start=deepseek-v3&L=64&keep=everything&precision=bf16%2C+moments+in+f32")
    follow(page, linked)
    assert status(page) == said == figure.sentence({"start": "deepseek-v3", "L": 64, "keep": "everything"})
    follow(page, f"{address}#live-decoder?D=1000&K=0&N=many&FE=128&start=gpt-2&T=4.5&B=3&keep=nonsense")
    assert strays(page) == "K = 0, N = many, FE = 128, T = 4.5, keep = nonsense"
    assert status(page) == figure.sentence({"start": "gpt-2", "D": 1000, "B": 3})
    follow(page, f"{address}#live-decoder?start=toString&L=20")
    assert strays(page) == "start = toString"
    assert status(page) == figure.sentence({"L": 20})
