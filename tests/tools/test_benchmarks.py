"""The benchmark of the accelerator, as far as it goes without one: what it predicts, what it stores, and what becomes of failures."""

import json
import sys

import jax
import pytest

from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.config import Config
from tests.durations import processors
from tools import accelerator, bench_attention, bench_hardware as bench, bench_startup, hardware_cases as hardware

TINY = hardware.Sizes((1, 4), 32, (2,), 2, (512,), Config(16, 1, 2, 1, 8, 32, 40), ((2, 8),), (16,), 16)
FIELDS = {"what", "sizes", "floor_s", "bound", "estimate_s", "measured_s"}


def test_a_driver_s_name_finds_the_chip_and_no_other():
    names = {"NVIDIA H100 80GB HBM3": "H100", "NVIDIA H200": "H200", "NVIDIA GB200": "GB200", "TPU v5 lite": "v5e"}
    names |= {"NVIDIA A100-SXM4-40GB": "A100-40GB", "NVIDIA H100 PCIe": "H100-PCIe", "TPU v5": "v5p", "TPU v6e": "v6e"}
    assert {kind: accelerator.named(kind).name for kind in names} == names
    others = "NVIDIA L4", "NVIDIA GH200 480GB", "NVIDIA H200 NVL", "TPU v3", "TPU7x", "cpu"
    assert not any(map(accelerator.named, others))


def test_what_refuses_is_a_row_and_the_others_go_on(monkeypatch, tmp_path):
    """A part that cannot be had, an operation that fails, one that runs, one whose time is over; stored after each."""
    seen = []  # in the file when the second part begins

    def lacking(sizes, at):
        raise ImportError("no such kernel\nin this JAX")

    def failing(sizes, at):
        seen.append(json.loads((tmp_path / "hardware_cpu.json").read_text())["rows"])
        empty = hardware.Case("empty", {}, lambda: next(iter(())))  # an error without a text
        return [hardware.Case("division", {}, lambda: 1 / 0), empty, next(hardware.launch(sizes, at))]

    monkeypatch.setattr(bench, "PARTS", (lacking, failing, hardware.matmul))
    shares = {"lacking": 300, "failing": 300, "matmul": -600}
    stored = bench.measure(jax.devices("cpu")[0], None, tmp_path, TINY, shares)["rows"]
    errors = ["ImportError: no such kernel", "ZeroDivisionError: division by zero", "StopIteration"]
    assert [r.get("error") for r in stored] == [*errors, None, bench.LATE, bench.LATE]
    assert seen == [stored[:1]] and stored[3]["measured_s"] > 0 and "division by zero" in bench.line(stored[1])


def test_without_an_accelerator_it_says_so_and_stores_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "accelerator", lambda: None)
    monkeypatch.setattr(bench, "STORE", tmp_path)
    assert bench.main([]) == 0 and not list(tmp_path.iterdir())
    assert capsys.readouterr().out == bench.NONE + "\n" and sum(bench.SHARES.values()) < bench.SECONDS <= 480


@pytest.mark.slow("compiles two programs of every part: 10 s of processor")
def test_all_parts_run_on_what_is_taken_for_an_accelerator(capsys, monkeypatch, tmp_path):
    here = {"accelerator": lambda: jax.devices("cpu")[0], "named": lambda kind: chip("H100"), "STORE": tmp_path}
    for name, value in (here | {"PROGRAM": 1e-4, "ROUNDS": 0.0}).items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench_attention, "TOKENS", 16)
    monkeypatch.setattr(bench_attention, "WIDTH", 16)
    assert bench.main([], TINY) == 0
    stored = json.loads((tmp_path / "hardware_H100.json").read_text(encoding="utf-8"))
    assert len([*tmp_path.iterdir()]) == 1 and stored["command"] == bench.COMMAND and stored["card"] == "cpu"
    assert list(stored["clocks"]) == [part.__name__ for part in hardware.PARTS] == list(bench.SHARES)
    assert [r for r in stored["rows"] if not FIELDS < set(r) or not r["measured_s"] or r["spread"] < 1] == []
    assert [r["what"] for r in stored["rows"]] == [c.what for part in bench.PARTS for c in part(TINY, chip("H100"))]
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(stored["rows"])


@pytest.mark.parametrize("path", sorted(bench.STORE.glob("hardware_*.json")), ids=lambda p: p.stem)
def test_what_is_stored_was_measured_by_this_program(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["command"] == bench.COMMAND and stored["versions"]["jax"] and stored["card"] != "cpu"
    assert all(FIELDS < set(r) and (r["measured_s"] or r["error"]) for r in stored["rows"])
    assert {r["what"] for r in stored["rows"]} > {"dispatch", "matmul", "decode step", "quantised matmul"}


def test_costs_import_in_under_a_fifth_of_a_second():
    """Of a processor, the least of three: a busy machine is no fault of theirs."""

    def taken(code: str) -> float:
        began = processors()
        bench_startup.seconds([sys.executable, "-c", code])
        return processors() - began

    least = {code: min(taken(code) for _ in range(3)) for code in (bench_startup.COSTS, "pass")}
    assert least[bench_startup.COSTS] - least["pass"] < 0.2


@pytest.mark.slow
def test_the_planner_keeps_its_promise():
    assert bench_startup.planning()[1] > 1000
