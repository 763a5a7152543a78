"""The course's own formulas are closed while an answer runs, and open again after it."""

from importlib import import_module
from inspect import signature

import jax
import numpy as np
import pytest

from helpers import check, trace
from helpers.costs.rooflines import roofline
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from tests.helpers.check.told import answer, told


def refused(f, *args):
    a = check.Answer(f, points=1)
    a.gives(..., *args)
    points, messages = a.evaluate()
    return points == 0 and any("is off limits inside an answer: write it out" in m for m in messages)


def test_formulas_are_closed_under_every_name():
    from helpers.costs.rooflines.roofline import critical_batch as mine

    def imported_inside(*args):
        from helpers.costs.rooflines.torus import diameter

        return diameter(*args)

    assert refused(roofline.critical_batch, 512, 512, 1e14, 1e12)
    assert refused(lambda: mine(512, 512, 1e14, 1e12))
    assert refused(lambda: roofline.matmul(1, 2, 3).flops)
    assert refused(imported_inside, Slice(chip("v5e"), (4, 4)))


def test_methods_and_properties_are_closed():
    from helpers.costs.rooflines.gpu_machine import SM

    assert refused(lambda: SM().resident_blocks(1024))
    assert refused(lambda: roofline.Work(1, 2).intensity)


def test_simulators_and_counters_are_closed():
    from helpers.kernels.rooflines.systolic_array import cycles, frames

    assert refused(lambda: cycles([1], 2, 3))
    assert refused(lambda: len(list(frames((np.ones((2, 2)), np.ones((2, 2)))))))  # a generator
    assert refused(lambda: trace.count(lambda x: x, 1.0))


PROGRAMS = """
    attention.masks.plan attention.flash_attention.flash attention.pallas_flash_attention_tpu.flash experts.routers.choose
    inference.speculative_decoding.accept racks.two_tier_collectives.all_reduce sharding.sharded_matmul.case1
    training.data_parallel_and_fsdp.hsdp_step training.pipeline_parallel.ticks transformers.decoder_layers.mlp
""".split()
"""One of each package and each form: of masks, of kernels, of steps."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_closed(name):
    """Those of packages within `kernels`, too."""
    module, _, function = f"helpers.kernels.{name}".rpartition(".")
    parameters = signature(getattr(import_module(module), function)).parameters.values()
    needed = {p.name: 1 for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    assert refused(lambda: getattr(import_module(module), function)(**needed))


def test_a_jitted_formula_is_closed():
    assert refused(lambda: jax.jit(roofline.critical_batch_limit)(1e14, 1e12))


def test_who_catches_the_refusal_is_refused_all_the_same():
    def careful(C, W):
        try:
            return roofline.critical_batch_limit(C, W)
        except Exception:
            return roofline.critical_batch_limit(C, W)

    assert refused(careful, 1e14, 1e12)


def test_private_formulas_are_closed_too(capsys):
    from helpers.costs.sharding.collectives import _steps
    from helpers.costs.sharding.sharded_array import Axis

    a = check.Answer(lambda n: _steps(Axis(n), 2), points=1)
    a.gives(2, 4)
    earned, said = told(capsys, a)
    assert earned == 0 and "off limits inside an answer" in said


def test_data_and_arithmetic_stay_open_and_everything_opens_again(capsys):
    from helpers.numeric import maximum

    assert told(capsys, answer(lambda: maximum(1.0, chip("v5e").alpha_hbm()), 243.2))[0] == 2
    assert told(capsys, answer(lambda: Slice(chip("v5e"), (16, 16)).hosts, 32))[0] == 2
    assert refused(lambda: roofline.critical_batch_limit(1e14, 1e12))
    assert roofline.critical_batch_limit(1e14, 1e12) == 100  # and again afterwards


def test_formulas_open_again_after_an_exception_and_for_references(capsys):
    def broken(C, W):
        raise RuntimeError

    a = check.Answer(broken, points=1)
    a.gives(1, 1.0, 1.0)
    assert "RuntimeError" in told(capsys, a)[1]
    a = check.Answer(lambda C, W: C / W, points=1)
    a.equals(roofline.critical_batch_limit, C=check.floats(1, 9), W=check.floats(1, 9))
    assert told(capsys, a)[0] == 1
