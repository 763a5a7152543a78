"""The measured loads that the estimate of serving is fitted to: all priced, all cited, and no name of a source in any number."""

import json
import random
from dataclasses import fields, replace
from math import prod

import pytest

from helpers.costs.inference.serving_constants import ENGINES, GRAPHS, Engine, unknown
from helpers.costs.inference.serving_operations import Deployment
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.transformers.public_models import MODELS
from tests.helpers.costs.tables import walks
from tests.tiers import some
from tools import bench_serving as bench

DATA = json.loads(bench.DATA.read_text(encoding="utf-8"))
ROWS = bench.rows()
KINDS = {"gap", "request", "step", "prefill", "throughput", "prefilled"}


@pytest.fixture(scope="module")
def said():
    """What is predicted of each row."""
    return [bench.predicted(r.server, r.kind, r.prompt, r.answer, r.users, r.alike) for r in ROWS]


def test_every_row_is_priced(said):
    """Each measured number has a prediction of its kind, which is positive; half of them are within a fourth."""
    ratios = []
    for r, found in zip(ROWS, said):
        assert set(r.what) <= set(found) and all(x > 0 for x in (*found.values(), *r.what.values())), r.name
        ratios += [found[what] / y for what, y in r.what.items() if what != "first"]
    assert sum(0.75 < x < 1.25 for x in ratios) > len(ratios) / 2 and all(0.1 < x < 10 for x in ratios)


@walks(DATA["sources"])
def test_rows_are_of_what_the_course_has(source):
    """Chips, engines, fields of a deployment; and which inputs were taken as usual."""
    names = {f.name for f in fields(Deployment)}
    for r in (r for r in DATA["rows"] if r["source"] == source):
        assert r["chip"] in CHIPS and r["engine"] in ENGINES and set(r["at"]) <= names
        assert r["model"] in MODELS or r["model"] in DATA["models"]
        assert set(r.get("missing", ())) <= {"cache", "chips", "layout", "users"}
        assert all(r["at"][n] != getattr(Deployment(), n) for n in r["at"]) and len(set(r["measured"]) & KINDS) == 1
        assert (r["users"] is None) == ("users" in r.get("missing", ()))


def renamed(path, monkeypatch):
    """The rows with names of sources and rows shuffled."""
    data, draw = json.loads(json.dumps(DATA)), random.Random(0)
    for label in ("source", "id"):
        mixed = [r[label] for r in data["rows"]]
        draw.shuffle(mixed)
        for r, new in zip(data["rows"], mixed):
            r[label] = new
    path.write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(bench, "DATA", path)
    return bench.rows()


def test_no_name_of_a_source_reaches_the_estimate(said, tmp_path, monkeypatch):
    mixed = renamed(tmp_path / "serving.json", monkeypatch)
    assert [r.source for r in mixed] != [r.source for r in ROWS]
    some = range(0, len(mixed), 4)
    again = [bench.predicted((r := mixed[i]).server, r.kind, r.prompt, r.answer, r.users, r.alike) for i in some]
    assert again == [said[i] for i in some]
    assert [replace(r, source="", name="", what={}) for r in mixed] == [
        replace(r, source="", name="", what={}) for r in ROWS
    ]
    assert bench.free(mixed) == bench.free(ROWS)


@pytest.mark.slow("fits the constants to a part of the rows, twice")
def test_no_name_of_a_source_reaches_a_constant(tmp_path, monkeypatch):
    mixed = renamed(tmp_path / "serving.json", monkeypatch)
    assert bench.fit(ROWS[::40]) == bench.fit(mixed[::40])


def test_rows_taken_together_are_rows_taken_one_by_one(said):
    groups = bench.stacked(ROWS)
    assert sorted(i for places, _, _ in groups for i in places) == list(range(len(ROWS)))
    for places, r, numbers in some(groups, 12):
        for what, x in bench.predicted(r.server, r.kind, *numbers, r.alike).items():
            assert [said[i][what] for i in places] == pytest.approx(list(x + 0 * numbers[0]), rel=1e-9)


def test_an_unknown_engine_is_the_mean_of_those_with_graphs():
    for name in {f.name for f in fields(Engine)} - {"prompts_first", "measured"}:
        mean = prod(getattr(ENGINES[n], name) for n in GRAPHS) ** (1 / 3)
        assert getattr(ENGINES["unknown"], name) == pytest.approx(mean, rel=0.005)
    assert not ENGINES["unknown"].measured and unknown(ENGINES) == ENGINES["unknown"]
    assert all(e.measured for n, e in ENGINES.items() if n != "unknown")
