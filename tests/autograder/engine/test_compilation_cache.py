"""What the checker keeps of the programs that it compiles."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest
from jax._src import compilation_cache

from autograder.engine import checker
from tests.scratch import ROOT

RING = """
import os, sys
os.environ["XLA_FLAGS"] = " ".join(f"--xla_cpu_collective_call_{n}_timeout_seconds=3" for n in ("warn_stuck", "terminate"))
from helpers.kernels import mesh
mesh.devices()
from autograder.engine import checker
checker.keep_compiled(sys.argv[1])
from tests.helpers.kernels.attention.test_ring_attention import around, dense, given, mask_of
import numpy as np
for got, want in zip(around(8)(*given()), dense(*given(), mask_of())):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6)
"""


@pytest.mark.slow("compiles a program of eight devices")
def test_a_program_of_several_devices_runs_as_it_was_compiled(tmp_path):
    """This one ends the process if it is read from a disk."""
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", RING, tmp_path], cwd=ROOT, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[:2000]
    kept = [p.name for p in tmp_path.iterdir()]
    assert any(name.startswith("jit_dense-") for name in kept) and not any(
        name.startswith("jit_both-") for name in kept
    )


def test_a_program_for_a_machine_that_is_not_here_is_not_kept(monkeypatch):
    """Its executable, as of `aot_compile_tpu`, has no devices here."""
    kept, here = [], SimpleNamespace(local_devices=lambda: ["the only one"])
    monkeypatch.setattr(compilation_cache, "put_executable_and_time", lambda key, *rest: kept.append(key))
    monkeypatch.setattr(jax.config, "update", lambda *args: None)
    checker.keep_compiled("")
    for key, executable in (("elsewhere", SimpleNamespace()), ("here", here)):
        compilation_cache.put_executable_and_time(key, "f", executable, None, 1)
    assert kept == ["here"]
