"""A layout as it is typed: shell and page read it by one grammar, and the page's JavaScript by the same, which it is given."""

import random

import pytest

from helpers.costs.training.layout import AXES, GRAMMAR, MASTER, Layout
from helpers.costs.training.layout_search import KEPT
from helpers.costs.training.partial_layout import completed_layout, unfolded
from helpers.figures.inference.planner import training
from helpers.figures.training.layout_search.candidates import whole
from helpers.plan import train
from tests.tiers import repeats
from tests.twins.settings import setting

NAME = "planner"
SEPARATORS = (",", " ", ", ", "  ", ",,", " ,")
NONSENSE = "tensor=8 toString=8 tp =8 tp= fsdp=8.0 dp=-1 cp=0 zero=4 zero=-0 ep=two tp=8=8 pp=1e1".split()
# Arabic three, squared.
ODD = ("policy=some", "policy=Block", "policy=nothing", "tp=12345678", "fsdp=\u0663", "dp=\u00b2")
READ = """texts => {
    const [data, functions] = window.liveFigures[0], box = document.getElementById(data.id);
    const own = window.livePlanner(data, functions, box, { ...window.liveWords, text: String });
    return texts.map(text => {
        own.link(new URLSearchParams({ own: text, pick: "own" }));
        const { some, k, wrong = "" } = own.plan();
        return [wrong, some[k].words];
    });
}"""


def typed(seed: int, chips: int = 64) -> str:
    """Axes whose product is a number of chips, two times in three, and what else a layout may say; a mistake in one of four."""
    draw = random.Random(seed)
    left, parts = chips if draw.random() < 0.7 else 2 * chips, []
    for axis in draw.sample(AXES, draw.randint(1, 3)):
        size = draw.choice([2**n for n in range(left.bit_length())])
        parts, left = [*parts, f"{axis}={size}"], left // size
    given = {part.split("=")[0] for part in parts}
    if left > 1 and draw.random() < 0.8:
        parts.append(f"{draw.choice([axis for axis in AXES if axis not in given])}={left}")
    parts += draw.sample(
        [f"zero={draw.randint(0, 3)}", f"microbatches={2 ** draw.randint(0, 3)}", f"policy={draw.choice(KEPT)}"],
        draw.randint(0, 2),
    )
    if draw.random() < 0.25:
        more = ("v=2", "etp=1", "sequence_parallel=False", "tp=00", "microbatches=007")
        parts.append(draw.choice((draw.choice(NONSENSE), parts[0], *more)))
    draw.shuffle(parts)
    return draw.choice(("", " ", ",")) + "".join(part + draw.choice(SEPARATORS) for part in parts)


def only_in_the_shell(text: str) -> bool:
    """Whether it names what the page refuses on purpose, with a sentence that says so."""
    return any(f"{name}=" in text for name in GRAMMAR.keys() - training.TYPED.keys())


def test_shell_and_page_price_and_refuse_the_same():
    """On drawn chips, steps and models: what breaks a rule breaks it for both."""
    kinds = {"priced": 0, "refused": 0}
    for seed in range(repeats(50, 2000)):
        s = setting(seed)
        text = typed(seed, s.place.chips)
        if only_in_the_shell(text):
            continue
        try:
            given = unfolded(train.typed(text, s.place.pods), s.place.chips)
            want = completed_layout(
                s.config, given, s.tokens, s.T, s.place.slice, Layout(pods=s.place.pods, stored=MASTER)
            ).layout
        except ValueError:
            want = None
        try:
            case = tuple(whole(s.config).values()), s.place, s.tokens, s.T, "it"
            got = training.own(text, s.config, *case).layout
        except ValueError:
            got = None
        assert got == want, (text, s)
        kinds["priced" if got else "refused"] += 1
    assert min(kinds.values()) > repeats(10, 400), kinds


@pytest.mark.slow("a browser, and the page of all models")
def test_javascript_reads_and_refuses_what_python_does(page, figure):
    texts = [typed(seed) for seed in range(repeats(60, 600))] + [*ODD]
    accepted = 0
    for text, (wrong, words) in zip(texts, page.evaluate(READ, texts), strict=True):
        plan = figure.plan({"own": text, "pick": "own"})
        assert (wrong, words) == (plan.wrong, plan.rows[plan.picked].words), text
        accepted += plan.rows[plan.picked].name == "own"
    assert accepted > len(texts) / 10
