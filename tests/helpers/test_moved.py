"""Old names of modules, fields and parameters, for one release."""

import sys
from importlib import import_module

import pytest

from helpers.costs.inference import serving_log
from helpers.costs.inference.engine_simulation import interleaved
from helpers.moved import MOVED, RENAMED


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_and_says_its_new_one(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(FutureWarning, match=f"{old} is {MOVED[old]} now"):
        module = import_module(old)
    new, names = {}, RENAMED.get(old, {})
    for place in MOVED[old].split(" and "):
        new |= vars(import_module(place))
    assert all(getattr(module, name) is new[names.get(name, name)] for name in (*new, *names) if name[:2] != "__")


def test_an_old_field_or_parameter_works_and_says_its_new_name():
    log = interleaved([(0, 8, 4), (0, 4, 2)], 2, prefill=lambda T: T, step=lambda B, S: 1)
    half = serving_log.percentiles(log, 50)
    with pytest.warns(FutureWarning, match="Percentiles.first is ttft now"):
        assert half.first == half.ttft
    with pytest.warns(FutureWarning, match="first of attainment is ttft now"):
        assert serving_log.attainment(log, first=12, gap=5) == serving_log.attainment(log, ttft=12, gap=5) == 1
    with pytest.raises(TypeError, match="later"):
        serving_log.goodput(log, later=12, gap=5)
