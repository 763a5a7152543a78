"""Code that wants points, other people's files, or the end of the run, against the engine alone: it gets nothing.

The code is that of `tests/autograder/attacks`, where the whole of it meets the whole pipeline; here a few kinds of each sort
stand before answers, behind them, and in place of one.
"""

import os
import textwrap

import pytest

from autograder.engine import run_submission as engines, sandbox
from tests.autograder.attacks import breaks, forge, kinds, outside, protocol, shell
from tests.autograder.engine.small import ANSWERS, WRONG, notebook
from tests.skip_conditions import needs

SECRET = "a-file-of-the-host"


def named(table: dict, **names: str) -> dict[str, str]:
    """Code of a table under names of our own."""
    return {name.replace("_", "-"): kinds.clean(table[key]) for name, key in names.items()}


FORGE = (
    named(forge.PATCHES, patch_the_check="patch_assert_allclose", patch_builtins="builtins_patch", late_thread="thread_patches_helper_late")
    | named(shell.SHELL, display_a_point="displayhook_before_error", late_output="atexit_and_del", signals="signals_after_the_cell")
    | named(protocol.WIRES, answer_the_checker_itself="session_lies", unasked_replies="replies_before_they_are_asked")
    | named(protocol.WIRES, garbage_on_every_descriptor="write_to_every_fd", endless_frame="frame_that_never_ends")
    | {"equal-to-everything": kinds.clean(forge.VALUES["eq_override"]["before"]) + f"\n{forge.VALUES['eq_override']['every']}"}
    | {"look-at-the-caller": kinds.clean(forge.PATCHES["frame_constants"]["every"]) + "\ndouble = table"}
    | {"odd-exception": kinds.clean(forge.PATCHES["bare_base_exception"]["every"]) + "\ndouble = seconds"}
    | {"strange-callables": kinds.clean(protocol.WIRES["long_names"]["every"]) + "\ndouble = table"}
)  # fmt: skip
GIVEN = "L, COURSE, CANARY = 'LE' 'AK', HOME, PROOF\n"
LEAK = {
    name: GIVEN + code
    for name, code in (
        named(outside.LEAK, files="read_outside_file", environment="read_config_secrets", network="network_loopback",
              sockets="unix_socket_to_host", processes="see_other_processes", own_process="read_own_process")
        | named(outside.ESCAPE, write="write_outside", links="links_out_of_the_job", commands="subprocess_keeps_the_walls")
    ).items()
}  # fmt: skip
BREAK = (
    named(breaks.CRASH, exit="os_exit", segfault="segfault", kill_everything="kill_everything", close_descriptors="close_fds",
          recursion="deep_recursion", replaced="exec_another", aborts="abort")
    | named(breaks.RESOURCE, loop="infinite_loop", deaf_loop="infinite_loop_uninterruptible", stop="stop_self", memory="alloc_30gb",
            fork_bomb="fork_bomb", disk="write_10gb", files="many_files", output="print_50mb_one_line", rich_output="rich_output_50mb")
    | named(outside.ESCAPE, orphan="orphan_that_ignores_signals")
    | {"great-value": kinds.clean(protocol.WIRES["huge_value"]["every"]) + "\ndouble = seconds"}
    | {"deep-value": kinds.clean(protocol.WIRES["deep_value"]["every"]) + "\ndouble = seconds"}
)  # fmt: skip


def cases(code: dict) -> list:
    """Names; those that the clock ends, which takes a minute, are long tests."""
    waits = {"stop", "endless-frame"} & code.keys()
    return [pytest.param(n, marks=pytest.mark.slow("the clock ends it")) if n in waits else n for n in code]


def graded(engine, small, code: str, answers: dict):
    return engine.grade(small, notebook(answers, textwrap.dedent(code).strip()), values="secret")


def honest(engine, small):
    result = engine.grade(small, notebook(ANSWERS), values="secret")
    assert sum(result.scores.values()) == 3, result


def printed(result) -> str:
    return "".join(str(o) for outputs in result.outputs.values() for o in outputs)


@pytest.mark.parametrize("name", cases(FORGE))
@pytest.mark.sample(quick=3, slow=4)
def test_nothing_is_won(engine, small, name):
    """What an own cell does to the process leaves wrong answers wrong, whether it stands before or after them."""
    code = FORGE[name]
    assert sum(graded(engine, small, code, WRONG).scores.values()) == 0
    last = {k: f"{v}\n{code}" for k, v in WRONG.items()}
    assert sum(graded(engine, small, "pass", last).scores.values()) == 0
    honest(engine, small)


@pytest.mark.parametrize("name", LEAK)
def test_nothing_leaks(engine, small, name, tmp_path):
    proof = tmp_path / "proof"
    proof.write_text(SECRET)
    code = f"HOME, PROOF = {str(sandbox.HELPERS.parent)!r}, {str(proof)!r}\n{LEAK[name]}"
    result = graded(engine, small, code, ANSWERS)
    assert "LEAK" not in printed(result)
    assert not any(o.output_type == "error" for o in result.outputs["own-1"]), printed(result)
    assert sum(result.scores.values()) == 3
    assert proof.read_text() == SECRET


@pytest.mark.parametrize("name", cases(BREAK))
@pytest.mark.sample(quick=2, slow=4)
def test_nothing_breaks(engine, small, name):
    """The right answers after it still count where they can, no wrong one does, and the next submission is whole."""
    right = graded(engine, small, BREAK[name], ANSWERS)
    assert set(right.scores) == {"q1-check", "q2-check", "q3-check"}
    assert sum(right.scores.values()) == 3, right
    assert sum(graded(engine, small, BREAK[name], WRONG).scores.values()) == 0
    assert len(printed(right)) < 3_000_000
    honest(engine, small)


@pytest.mark.parametrize("name", ["exit", "loop", "segfault", "kill-everything", "stop", "great-value", "deep-value"])
@pytest.mark.sample(quick=1, slow=2)
def test_a_breaking_answer_costs_its_own_points_only(engine, small, name):
    code = textwrap.indent(BREAK[name], "    ")
    answers = ANSWERS | {"q2": f"def double(x):\n{code}\n    return speed if 'value' not in {name!r} else double(x)"}
    result = engine.grade(small, notebook(answers), values="secret")
    assert result.scores == {"q1-check": 1, "q2-check": 0, "q3-check": 1}, result
    assert result.message("q2-check")
    honest(engine, small)


def test_nothing_stays_alive(engine, small):
    """After a submission that left an orphan, its group has no more processes than the warm interpreter."""
    honest(engine, small)
    group = engine.zygote.sandbox.group.folders
    needs(group, "no cgroup can be made here to count processes in")
    graded(engine, small, BREAK["orphan"], ANSWERS)
    alone = len((group[0] / "cgroup.procs").read_text().split())
    assert alone <= 3
    assert os.path.exists(group[0])


@pytest.mark.parametrize(
    "error", ["StopIteration", "StopAsyncIteration", "GeneratorExit", "IndexError", "KeyError", "AttributeError"]
)
@pytest.mark.sample(quick=2, slow=1)
def test_an_exception_that_python_itself_waits_for_wins_nothing(engine, error):
    """An answer that raises StopIteration ends a `map` of the check, and `all` of nothing is true."""
    check = (
        "a = check.Answer(double, points=1)\n    a.law('twice', lambda f: all(map(lambda x: f(x) == 2 * x, [1, 2])))"
    )
    nb = notebook({"q2": f"def double(x):\n    raise {error}"}, checks={"q2-check": check})
    assert engine.grade(engines.bundle(nb), nb).scores == {"q2-check": 0}
