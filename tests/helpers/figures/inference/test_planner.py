"""The planner on its page against `helpers.costs`."""

import math
import random
from dataclasses import replace

import pytest

from helpers.costs.training.training_step import step
from helpers.costs.transformers.public_models import model
from helpers.figures.inference.planner import tiers, training, words as say
from helpers.figures.inference.planner.page import cells
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, sizes, unused
from helpers.live.words import reading
from tests.helpers.figures.standalone import follow, link, status
from tests.tiers import repeats
from tests.twins.settings import TPUS

NAME = "planner"
SET = """chosen => {
    const form = document.querySelector("form"), fields = form.elements;
    for (const [name, value] of Object.entries(chosen)) {
        fields[name].value = value;
        fields[name].dispatchEvent(new Event("input", { bubbles: true }));
    }
}"""
PLANS = """cases => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id), form = box.querySelector("form");
    const own = window.livePlanner(data, functions, box, { ...window.liveWords, text: String });
    const number = v => Number.isFinite(v) ? v : null;
    return cases.map(({ pick, ...chosen }) => {
        own.link(new URLSearchParams({ ...chosen, pick }));
        const { some, k, values, edge = [], sentence, wrong = "" } = own.plan(), line = r => [r.name, r.fits, r.words];
        if (!some) return { sentence };
        const serve = chosen.task === "serve", numbers = r => serve ? [r.speed, r.first, r.rate] : [r.seconds, r.memory];
        return { wrong, rows: some.map(r => [line(r), numbers(r)]), k, edge: edge.map(r => [line(r), numbers(r)]),
                 values: Object.fromEntries(Object.entries(values).map(([n, v]) => [n, number(v)])) };
    });
}"""
READ = """() => {
    const box = document.querySelector("figure"), text = c => c.textContent.trim(), seen = c => !c.closest("[hidden]");
    return {
        rows: [...box.querySelectorAll("[data-row]")].filter(seen).map(r => [...r.children].map(text)),
        said: Object.fromEntries([...box.querySelectorAll("[data-result]")].filter(seen).map(c => [c.dataset.result, text(c)])),
        bars: [...box.querySelectorAll("[data-bar]")].filter(g => g.style.display !== "none" && seen(g))
            .map(g => [...g.querySelectorAll("text")].map(text).join(" ")),
        wrong: box.querySelector("[data-of=own] p").textContent,
        tiers: [...box.querySelectorAll(".live-sent tr")].filter(seen).map(r => [...r.cells].filter(seen).map(text)),
        picked: [...box.querySelectorAll("[data-row] input")].filter(seen).findIndex(r => r.checked),
    };
}"""  # fmt: skip


def draw(figure, seed: int) -> dict[str, str]:
    """Some setting of all controls, TPUs and GPUs in turn; few of many chips, which take Python long; some models of other sizes."""
    r = random.Random(seed)
    at = {name: r.choice(options) for name, (_, options, _) in figure.menus.items()}
    at["chip"] = r.choice([label for label in figure.menus["chip"][1] if (label.split()[0] in TPUS) == (seed % 2 == 0)])
    at["n"] = str(2 ** min(r.randint(0, 11), r.randint(2, 11)))
    at["price"] = r.choice(["", "2.5", "0", "11"])
    at |= {
        "prompt": str(r.randint(1, 40000)),
        "answer": str(r.randint(1, 8000)),
        "chips": r.choice(["", "", "1", "8", "12", "64", "100"]),
    }
    at |= {"speed": r.choice(["", "20", "50", "0.5", "400"]), "wait": r.choice(["", "2", "0.5", "30"])}
    at |= {"users": r.choice(["", "", "1", "64", "1000"]), "asks": r.choice(["", "", "0.1", "10"])}
    at["budget"] = r.choice(["1000", "15.5", "1"])
    at["over"] = r.choice(["1", "1", "1.5", "4"])
    has = sizes(model(at["model"]))
    at |= {s: str(n) for s, n in has.items()}
    if r.random() < 0.3:
        at["L"] = str(r.choice([8, 12, 48, 61, 90]))
        at["D"] = str(r.choice([1000, 4096, 6144]))
    n, own = int(at["n"]), r.choice(["", "half", "half", "whole", "whole", "whole"])
    if own:
        tp = min(2 ** r.randint(0, 3), n)
        pp = min(2 ** r.randint(0, 3), n // tp)
        rest = max(1, n // (tp * pp) // (2 if own == "half" else 1))
        axis, more = (
            r.choice(["fsdp", "dp", "cp", "cp"]),
            r.choice(["", "", "", ",zero=1,policy=matmuls", " policy=everything", ",v=2"]),
        )
        at["own"] = f"tp={tp},pp={pp},{axis}={rest}{more}"
    return at | {"pick": r.choice(["", "", "own", "4", "1.1.1.64.1.1", "8.1.1.8.1.1", "8.1.1.1.1", "8.1.1.1.8"])}


def same(value, want: float) -> bool:
    return math.isnan(want) if value is None else math.isclose(value, want, rel_tol=1e-12, abs_tol=1e-300)


def numbers(task: str, row) -> tuple[float, ...]:
    """What a ranking knows of a line."""
    return (row.plan.speed, row.plan.load.first.mid, row.plan.rate) if task == "serve" else (row.seconds, row.memory)


def check(page, figure, chosen: dict) -> None:
    """The page says and draws what Python does."""
    plan, at = figure.plan(chosen), figure.chosen(chosen)
    assert status(page) == plan.sentence
    if not plan.rows:
        return
    seen, of = page.evaluate(READ), figure.chip_of(at).hbm_bytes
    first = plan.picked // say.ROWS * say.ROWS
    assert seen["rows"] == [[r.words, *cells(at["task"], r, of)] for r in plan.rows[first : first + say.ROWS]]
    assert seen["picked"] == plan.picked - first and seen["said"] == plan.said and seen["wrong"] == plan.wrong
    sent = tiers.table(figure.chip_of(at), plan.values) if at["task"] == "train" else []
    assert [[cell.split(" floor,")[0] for cell in row] for row in seen["tiers"]] == [list(row) for row in sent]
    assert seen["bars"] == [
        f"{label} {reading(plan.values[name], unit)}"
        for kind, unit in (("memory", "B"), ("time", "s"), ("first", "s"))
        for name, label in say.BARS[kind].get(at["task"], {}).items()
        if plan.values[name] > 0
    ]


def test_every_mesh_is_listed_once_with_the_numbers_of_its_step():
    for name, of, n, tokens, T in (("llama-3-8b", "v5e", 4, 2**18, 4096), ("mixtral-8x7b", "H100", 5, 2**20, 8192)):
        c, place = model(name), training.places(of)[n]
        rows = training.lines(training.found(c, place, tokens, T))
        assert len({r.name for r in rows}) == len(rows)
        for r in rows[:: len(rows) // 7 + 1]:  # the searched tables against one step, which checks its layout
            at = step(c, r.layout, tokens, T, place.slice)
            assert (at.estimate.mid, at.memory.total) == pytest.approx((r.seconds, r.memory), rel=1e-12)
            assert r.fits == (at.missing == 0)


def test_a_model_that_nobody_changed_is_the_public_one(figure):
    for name in figure.models:
        at = figure.chosen({"model": name})
        numbers = {f.name: f.number(at[f.name]) for f in figure.fields(at)}
        assert figure.config(at, numbers) == replace(model(name), name=""), name


def test_a_field_refuses_nonsense():
    chips = next(f for f in say.FIELDS if f.name == "chips")
    nonsense = "0;-1;1.5;1e3;many;4097;4,097;16,38;1,2345;1, 234;1,234 567;٣"
    for typed in nonsense.split(";"):
        with pytest.raises(ValueError, match="whole number from 1 to 4,096, or nothing, and not"):
            chips.number(typed)


def test_a_setting_that_cannot_be_says_why(figure):
    said = [figure.plan(x) for x in (
        {"N": "7"}, {"model": "mixtral-8x7b", "k": "9"}, {"model": "deepseek-v3", "L": "3"}, {"n": "4096", "chip": "v5e"},
        {"T": "131072", "tokens": "65536"}, {"price": "1,5"}, {"task": "serve", "wait": "0"},
    )]  # fmt: skip
    assert all(not p.rows for p in said)
    starts = (
        "N = 7 query",
        "A token cannot",
        "L = 3 layers",
        "v5e ends at 256",
        "A step of 65,536",
        "Price",
        "Seconds to the first token, at most: a number, with a point if need be, from 0.001 to 1,000,000, or nothing, and not “0”.",
    )
    assert [p.sentence.startswith(x) for p, x in zip(said, starts, strict=True)] == [True] * 7


@pytest.mark.slow
def test_the_page_shows_what_python_says(page, figure):
    assert page.locator("form").is_visible()
    check(page, figure, {})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for seed in range(repeats(8, 24)):
        chosen = draw(figure, seed)
        chosen["pick"] = "own" if "own" in chosen else ""
        chosen.setdefault("own", "")
        still = unused(model(chosen["model"]))
        page.evaluate(SET, {k: x for k, x in chosen.items() if k != "pick" and not (k in SIZES and k in still)})
        check(page, figure, chosen)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, chosen


@pytest.mark.slow
def test_two_hundred_settings_number_for_number(page, figure):
    cases = [draw(figure, seed) for seed in range(1000, 1000 + repeats(110, 220))]
    kinds, typed = {"fits": 0, "lacks": 0, "none": 0}, {"wrong": 0, "priced": 0, "none": 0}
    for chosen, got in zip(cases, page.evaluate(PLANS, cases), strict=True):
        plan = figure.plan(chosen)
        kinds["none" if not plan.rows else "fits" if plan.rows[plan.picked].fits else "lacks"] += 1
        if not plan.rows:
            assert got["sentence"] == plan.sentence, chosen
            continue
        assert got["wrong"] == plan.wrong, chosen
        typed["wrong" if plan.wrong else "priced" if any(r.name == "own" for r in plan.rows) else "none"] += 1
        for found, want in ((got["rows"], plan.rows), (got["edge"], plan.frontier)):
            assert [x for x, _ in found] == [[r.name, r.fits, r.words] for r in want], chosen
            assert all(
                same(x, y) for (_, row), r in zip(found, want) for x, y in zip(row, numbers(chosen["task"], r))
            ), chosen
        assert got["k"] == plan.picked
        for name, x in plan.values.items():
            assert same(got["values"][name], x), (chosen, name)
    assert min(kinds.values()) > repeats(10, 20) and min(typed.values()) > repeats(5, 10), (kinds, typed)


@pytest.mark.slow
def test_nonsense_keeps_the_last_result(page, figure):
    before = page.evaluate(READ)
    field = page.get_by_label("Price of a chip-hour")
    field.fill("1,5")
    assert status(page) == figure.plan({"price": "1,5"}).sentence
    assert field.get_attribute("aria-invalid") == "true" and page.evaluate(READ) == before
    field.fill("2.5")
    assert field.get_attribute("aria-invalid") == "false"
    check(page, figure, {"price": "2.5"})
    page.get_by_text("Change the model’s sizes").click()
    before = figure.plan({"D": "4096"})
    for typed in ("4,096", "4 096", "4\u202f096"):
        page.get_by_label("D, width").fill(typed)
        assert status(page) == before.sentence == figure.plan({"D": typed}).sentence, typed
    page.get_by_label("D, width").fill("40,96")
    assert status(page) == figure.plan({"D": "40,96"}).sentence
    assert page.get_by_label("D, width").get_attribute("aria-invalid") == "true"
    page.get_by_label("D, width").fill("8192")
    page.locator("[name=task]").select_option("serve")
    for typed in ("{x}", "1,5"):
        field.fill(typed)
        assert status(page) == figure.plan({"task": "serve", "price": typed}).sentence.replace("{", "").replace("}", "")
    field.fill("")
    page.locator("[name=task]").select_option("train")
    heads = page.get_by_label("N, query heads")
    heads.fill("7")
    assert status(page) == figure.plan({"N": "7"}).sentence and heads.get_attribute("aria-invalid") == "true"


@pytest.mark.slow
def test_another_layout_is_picked_by_keyboard_and_linked_to(page, figure, address):
    rows = figure.plan().rows
    page.locator("[data-row] input").first.focus()
    page.keyboard.press("ArrowDown")
    check(page, figure, {"pick": rows[1].name})
    page.get_by_role("button", name="Later").press("Enter")
    page.locator("[data-row] input").nth(3).check()
    chosen = {"pick": rows[say.ROWS + 3].name}
    check(page, figure, chosen)
    linked = link(page)
    follow(page, linked)
    check(page, figure, chosen)
