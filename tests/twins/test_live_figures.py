"""JavaScript and Python: every live figure that computes in the browser has a test over settings that are drawn.

Films compute nothing there: Python has drawn all of their frames, and their script is empty.
"""

import importlib
import inspect
import re
from collections import Counter

import pytest

from helpers import figures
from tests.helpers.figures.test_as_data import DATA
from tests.twins.settings import TPUS

TESTED = dict.fromkeys(
    DATA, "test_as_data"
) | {  # whose `draw` and tests hold the page against Python, number for number
    "explorer": "sharding.test_explorer",
    "day": "training.test_cluster_of_the_day",
    "planner": "inference.test_planner",
}
FEW = {"rows"}  # places of a slider, all of which are drawn
# Figures of one kind of chip, or of none.
ALONE = {"rows": set(), "decoder": set(), "explorer": {"TPU"}}
DRAWS, SHARE = 100, 0.2  # settings number for number with FULL=1; of them of TPUs, and of GPUs: both at least


def test_every_figure_that_computes_is_here():
    every = {name: figures.figure(name) for name in figures.MODULES}
    assert {name for name, figure in every.items() if "figure_controls.js" in figure.runners} == set(TESTED)
    assert not any(figure.script() for name, figure in every.items() if name not in TESTED)


@pytest.mark.parametrize("name", TESTED)
def test_javascript_is_held_against_python_over_drawn_settings(name):
    module, figure = importlib.import_module(f"tests.helpers.figures.{TESTED[name]}"), figures.figure(name)
    most = 0
    for test in (f for key, f in vars(module).items() if key.startswith("test_")):
        text = inspect.getsource(test)
        if "draw(figure, seed)" in text and "page.evaluate(" in text:
            most = max(most, *map(int, re.findall(r"repeats\(\d+, (\d+)\)", text)))
    assert most >= DRAWS
    drawn = [module.draw(figure, seed) for seed in range(1000, 1020 if name in ALONE and name not in FEW else 1200)]
    places = len(figure.controls[0].grid) if name in FEW else 0.9 * len(drawn)
    assert len(set(map(str, drawn))) >= places and drawn[0] == module.draw(figure, 1000)
    chips = Counter(family(at[key]) for at in drawn for key in ("chip", "machine") if key in at)
    assert set(chips) == ALONE.get(name, {"TPU", "GPU"}) and all(n > SHARE * len(drawn) for n in chips.values()), chips


def family(text: str) -> str:
    """Of a chip or a machine as a menu names it.

    >>> family("v6e (Trillium)"), family("TPU v7 slices of 4×4×8"), family("H100, PCIe")
    ('TPU', 'TPU', 'GPU')
    """
    return "TPU" if set(text.split()) & {*TPUS} else "GPU"
