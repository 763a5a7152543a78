"""Compiling for TPUs that are not here: what is stored, what is said without libtpu, and with it the compiler itself."""

import json
import os
import runpy
import subprocess
import sys
from math import prod
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from helpers.costs.sharding.sharded_array import Mesh, parse
from helpers.trace.compiled import aot_compile_tpu, compiled_program

ROOT = Path(__file__).parents[4]
STORED = json.loads((ROOT / "book/results/ch02_compiler.json").read_text(encoding="utf-8"))
CASES = STORED["cases"]
GRID = {"X": 4, "Y": 4}
needs_libtpu = pytest.mark.skipif(not aot_compile_tpu.available(), reason="libtpu is not installed: make env EXTRA=tpu")


def made(name):
    return compiled_program.from_json(CASES[name]["made"])


@pytest.mark.slow
def test_importing_and_asking_change_nothing_in_the_environment():
    code = (
        "import os; before = dict(os.environ)\n"
        "from helpers.trace.compiled import aot_compile_tpu as absent\n"
        "absent.available()\n"
        "print(sorted(k for k in os.environ if os.environ[k] != before.get(k)))"
    )
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TPU_SKIP_MDS_QUERY": "1", "TPU_LIBRARY_PATH": ""}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    left = set(json.loads(ran.stdout.replace("'", '"')))
    assert not left & set(aot_compile_tpu._TOLD) - {
        "TPU_SKIP_MDS_QUERY"
    }  # that one is JAX's own doing where libtpu is installed


def test_without_libtpu_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(aot_compile_tpu, "available", lambda: False)
    with pytest.raises(ModuleNotFoundError, match="make env EXTRA=tpu") as e:
        aot_compile_tpu.mesh("v5e:4x4", GRID)
    assert jax.__version__ in str(e.value) and "205 MB" in str(e.value) and "proprietary" in str(e.value)


def test_without_libtpu_the_stored_record_is_shown_and_says_so(monkeypatch):
    monkeypatch.setattr(aot_compile_tpu, "available", lambda: False)
    p = aot_compile_tpu.report(STORED, "case 2", jnp.matmul)
    assert p.collectives == made("case 2").collectives and STORED["date"] in str(p) and "Stored" in str(p)


@pytest.mark.parametrize("path", sorted((ROOT / "book/results").glob("*_compiler.json")), ids=lambda p: p.stem)
def test_every_stored_result_begins_with_how_it_was_made(path, tmp_path, monkeypatch):
    """As `store` writes it today, and by a script that is there."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    monkeypatch.setattr(aot_compile_tpu, "version", lambda package: f"{package} 1.2")
    aot_compile_tpu.store(str(tmp_path / f"{path.stem}.py"), cases={"a": 1})
    now = json.loads((tmp_path / path.name).read_text(encoding="utf-8"))
    assert list(now) == [*list(stored)[:4], "cases"] == ["command", "date", "machine", "versions", "cases"]
    assert now["command"] == stored["command"] and (ROOT / stored["command"].removeprefix("python ")).is_file()
    assert now["versions"].keys() == stored["versions"].keys() and now["cases"] == {"a": 1}


@pytest.mark.parametrize("name", CASES)
def test_memory_of_arguments_is_what_the_notation_says(name):
    case, p = CASES[name], made(name)
    if p.refused:
        return
    shards = 0
    for how, shape in zip(case["ins"], case["shapes"]):
        a = parse(how)
        shards += 2 * prod(a.local(dict(zip(a.dims, shape)), Mesh(case["mesh"])))
    assert p.memory.arguments >= shards  # a TPU pads small arrays
    if min(min(s) for s in case["shapes"]) >= 100:
        assert p.memory.arguments == pytest.approx(shards, rel=1e-3)
    assert p.memory.peak >= p.memory.arguments


def wire(p):
    return sum(c.wire for c in p.collectives)


def behind(p):
    """Collectives with a matmul between their start and their end."""
    return sum(bool(c.behind) for c in p.collectives)


def test_cases_of_the_script_are_those_of_the_file():
    script = runpy.run_path(str(ROOT / "book/results/ch02_compiler.py"))
    for name, (_, mesh, ins, out, shapes, _) in script["CASES"].items():
        case = CASES[name]
        assert (case["mesh"], case["ins"], case["out"], case["shapes"]) == (mesh, ins, out, shapes)
    assert list(script["CASES"]) == list(CASES)


@needs_libtpu
def test_the_compiler_still_says_what_is_stored():
    script = runpy.run_path(str(ROOT / "book/results/ch02_compiler.py"))
    for name, (f, *_, per_device) in script["CASES"].items():
        now, then = aot_compile_tpu.report(STORED, name, f, per_device=per_device), made(name)
        assert [(c.kind, c.axes, c.times, c.wire) for c in now.collectives] == [
            (c.kind, c.axes, c.times, c.wire) for c in then.collectives
        ], name
        assert bool(now.refused) == bool(then.refused) and now.note == ""


@needs_libtpu
def test_slices_and_meshes_that_do_not_fit_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="no slice 'v5e:3x3'"):
        aot_compile_tpu.mesh("v5e:3x3", GRID)
    with pytest.raises(ValueError, match="has 4 devices and the mesh .* takes 16"):
        aot_compile_tpu.mesh("v5e:2x2", GRID)
