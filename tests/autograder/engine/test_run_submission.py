"""The engine gives what nbgrader would, on right and wrong submissions, and goes on when parts of it are killed."""

import dataclasses
import os
import signal

import nbformat
import pytest

from autograder.engine import run_submission as engines, sandbox
from autograder.engine.cell_names import key_of
from autograder.making import bank, in_process_grading
from helpers import check
from tests.autograder.engine.small import ANSWERS, CHECKS, LIMITS, WRONG, notebook

TOPIC = "ch01_rooflines"


@pytest.fixture(scope="module")
def chapter():
    return in_process_grading.solved(TOPIC)


@pytest.fixture(scope="module")
def patient(walls):
    """An engine for whole chapters, on a machine that may be busy."""
    with engines.Engine(host=walls) as e:
        yield e


def changed(chapter, kind: str, k: int):
    changes = bank.kth(getattr(bank, kind)(TOPIC), k)
    return bank.applied(chapter, changes) if changes else None


@pytest.mark.parametrize(("kind", "k"), [("variants", 0), ("variants", 1), ("mutants", 0), ("mutants", 3)])
@pytest.mark.sample(quick=1)
def test_a_chapter_scores_as_in_one_process(patient, chapter, kind, k):
    nb = changed(chapter, kind, k)
    wanted = in_process_grading.judge(nb)
    got = patient.grade(engines.bundle(chapter), nb)
    assert not got.notes
    assert got.scores == {name: v.score for name, v in wanted.items()}
    for name, v in wanted.items():  # the engine counts tries anew for each submission
        assert got.message(name) == v.message.partition("\n  After three tries")[0].strip(), name


def test_a_blank_chapter_earns_nothing(patient, chapter):
    got = patient.grade(engines.bundle(chapter), in_process_grading.blank(chapter))
    assert not any(got.scores.values())
    assert "not done yet" in got.message("ch01-q04-check")
    assert got.outputs["ch01-setup"] == []  # `helpers` is there: nothing to install, nothing to say


def test_the_course_s_own_cells_count_not_the_submission_s(engine, small):
    nb = notebook(WRONG)
    for cell in nb.cells:
        if cell.metadata.nbgrader.grade:
            cell.source = "1"
    assert not any(engine.grade(small, nb).scores.values())


def test_a_check_without_its_cell_is_a_zero_with_a_sentence(engine, small):
    nb = notebook(ANSWERS)
    nb.cells.pop()
    got = engine.grade(small, nb)
    assert got.scores == {"q1-check": 1, "q2-check": 1, "q3-check": 0}
    assert got.message("q3-check").endswith(".")


def test_outputs_are_those_of_a_notebook(engine, small):
    before = "print('said')\nimport sys; print('warned', file=sys.stderr)\ndisplay('shown')\n%matplotlib inline\n6 * 7"
    nb = notebook(ANSWERS | {"q3": "1 / 0"}, before)
    got = engine.grade(small, nb)
    for cell in nb.cells:
        cell.outputs = got.outputs[key_of(cell)]
    nbformat.validate(nb)
    own = got.outputs["own-1"]
    assert [o.output_type for o in own] == ["stream", "stream", "display_data", "execute_result"]
    assert own[-1].data["text/plain"] == "42"
    assert got.outputs["q3"][0].ename == "ZeroDivisionError"
    assert (
        got.message("q3-check")
        == "Exercise q3-check: the answer's cell did not end well. ZeroDivisionError: division by zero"
    )


def test_the_same_seed_gives_the_same_outputs(engine, small):
    nb = notebook(ANSWERS | {"q2": "import random\ndef double(x):\n    return random.random()"})
    assert engine.grade(small, nb, "a").outputs == engine.grade(small, nb, "a").outputs


def test_seeds_differ_by_student_and_attempt_and_need_the_secret():
    seeds = {
        engines.seed(*x)
        for x in [("s", "a", "ada", 1), ("s", "a", "ada", 2), ("s", "a", "bob", 1), ("t", "a", "ada", 1)]
    }
    assert len(seeds) == 4
    assert engines.seed("s", "a", "ada", 1) in seeds
    assert len({seed.partition("-")[0] for seed in seeds}) == 2, "those of a class have one part in common"


def test_one_submission_leaves_nothing_to_the_next(engine, small):
    engine.grade(small, notebook(ANSWERS, "import builtins\nbuiltins.left = np.left = 1\nopen('left', 'w').write('x')"))
    got = engine.grade(
        small,
        notebook(
            ANSWERS, "import os\nprint([hasattr(np, 'left'), os.path.exists('left'), 'left' in dir(__builtins__)])"
        ),
    )
    assert got.outputs["own-1"][0].text == "[False, False, False]\n"


def test_after_a_killed_cell_the_good_ones_are_there_again(engine, small):
    nb = notebook(ANSWERS | {"q2": "import os\nos._exit(1)"}, "kept = 40")
    nb.cells[-2].source += "\nspeed = kept + 2.5"
    got = engine.grade(small, nb)
    assert got.scores == {"q1-check": 1, "q2-check": 0, "q3-check": 1}
    assert "ended its own process" in got.outputs["q2"][0].text


@pytest.mark.slow("waits for the limit")
def test_the_whole_notebook_has_a_limit_too(small, walls):
    limits = dataclasses.replace(LIMITS, submission=1)
    with engines.Engine(limits, walls) as e:
        got = e.grade(small, notebook(ANSWERS, "while True: pass"))
        assert "whole notebook" in got.message("q3-check")
        assert not any(got.scores.values())


def test_a_closed_engine_leaves_nothing_behind(small, walls):
    with engines.Engine(LIMITS, walls) as e:
        e.grade(small, notebook(ANSWERS))
        boxes = [e.zygote.sandbox, e.checker.sandbox]
        folders = [f for box in boxes for f in box.group.folders]
        assert all(f.exists() for f in folders)
    assert not any(f.exists() for f in folders)
    assert all(box.process.poll() is not None for box in boxes)


@pytest.mark.parametrize("victim", ["zygote", "checker"])
@pytest.mark.parametrize("at", ["q1", "q2-check", "q3"])
@pytest.mark.sample(quick=1, slow=1, kind="victim")
def test_killing_a_part_of_the_engine_costs_nobody_a_point(engine, small, monkeypatch, victim, at):
    run, killed = engines.Run.cell, []

    def cell(self, id, source):
        if id == at and not killed:
            engine.warm_zygote(), engine.open_checker(small)
            os.kill(getattr(engine, victim).sandbox.process.pid, signal.SIGKILL)
            killed.append(id)
        run(self, id, source)

    monkeypatch.setattr(engines.Run, "cell", cell)
    assert sum(engine.grade(small, notebook(ANSWERS)).scores.values()) == 3
    assert killed


@pytest.mark.parametrize("victim", ["zygote", "checker"])
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.sample(quick=1)
def test_a_part_that_died_between_two_submissions_is_replaced(engine, small, victim, other):
    engine.grade(small, notebook(ANSWERS))
    peer = getattr(engine, victim).sandbox.process
    peer.kill()
    peer.wait()
    again = notebook({"q1": ANSWERS["q1"]} if other else ANSWERS, before=f"'after the {victim}'")
    assert engine.grade(engines.bundle(again), again).scores["q1-check"] == 1


def test_a_given_cell_that_fails_is_the_course_s_fault(engine):
    nb = notebook(ANSWERS)
    nb.cells[0].source += "\nnowhere"
    with pytest.raises(ValueError, match="given cell setup fails: NameError"):
        engine.grade(engines.bundle(nb), nb)


def test_a_host_that_cannot_isolate_is_refused():
    none = sandbox.Host(user_namespaces=False, bubblewrap=False, landlock=3, seccomp=True, cgroup="", root=False)
    with pytest.raises(engines.Refused, match="neither user namespaces"):
        engines.Engine(LIMITS, none)


SHARDED = """a = check.Program(product, 1, {"X": 4, "Y": 2}, ["A[I, J_X]", "B[J_X, K_Y]"], "C[I, K_Y]", sizes=dict(I=64, J=128, K=32))
    a.wrong("gather nothing", AllGather=1)
    a.sends(AllReduce=1)
    a.equals(lambda A, B: A @ B, I=8, J=16, K=8)"""
PRODUCT = "def product(a, b):\n    return jax.lax.psum(a @ b, 'X')"
OTHERS = {
    "local": ("def product(a, b):\n    return a @ b", "nothing"),
    "wrong-axis": ("def product(a, b):\n    return jax.lax.psum(a @ b, 'Z')", "names the mesh axis Z"),
    "twice": ("def product(a, b):\n    return 2 * jax.lax.psum(a @ b, 'X')", "2 times too large"),
    "callback": ("def product(a, b):\n    out = jax.lax.psum(a @ b, 'X')\n"
                 "    return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(out.shape, out.dtype), out)", "calls back into Python"),
    "solver": ("def product(a, b):\n    return jax.lax.psum(a @ b, 'X') + jnp.linalg.qr(jnp.ones((4, 4)))[0][0, 0].astype(a.dtype)",
               "cannot carry out lapack"),
    "endless": ("def product(a, b):\n    out = jax.lax.psum(a @ b, 'X')\n"
                "    return jax.lax.while_loop(lambda x: x[0, 0] < 1e30, jnp.sin, out)", "used more than 5 s of a processor"),
    "constant": ("def product(a, b):\n    return jnp.zeros((a.shape[0], b.shape[1]), a.dtype)", "nothing"),
    "undone": ("def product(a, b):\n    raise NotImplementedError", "not done yet"),
    "host-values": ("def product(a, b):\n    return a @ b if a.sum() > 0 else a @ b", "looks at numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["right", *OTHERS])
@pytest.mark.sample(quick=5)
def test_a_sharded_answer_is_judged_by_its_program(engine, name):
    answer, said = OTHERS.get(name, (PRODUCT, "1 of 1 points"))
    nb = notebook({"q4": answer}, checks={"q4-check": SHARDED})
    got = engine.grade(engines.bundle(nb), nb, "secret")
    assert got.scores["q4-check"] == (name == "right"), got.message("q4-check")
    assert said in " ".join(got.message("q4-check").split())


COUNTED = """a = check.Answer(chain, points=1)
    from helpers import trace
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((1, 64), (64, 64), (64, 64))]
    a.law("from the left", lambda f: trace.count(f, *shapes).matmul_flops == 2 * 2 * 64 * 64)
    a.law("a slope of one", lambda f: jax.grad(lambda x: f(x, jnp.eye(2), jnp.eye(2)).sum())(jnp.ones((1, 2))).sum() == 2)"""


@pytest.mark.parametrize(
    ("answer", "points"),
    [
        ("def chain(a, b, c):\n    return a @ b @ c", 1),
        ("@jax.jit\ndef chain(a, b, c):\n    return jnp.einsum('ij,jk,kl->il', a, b, c)", 1),
        ("def chain(a, b, c):\n    return a @ (b @ c)", 0),
        ("def chain(a, b, c):\n    return jax.lax.fori_loop(0, 3, lambda i, x: x / 2 + x / 2, a) @ b @ c", 1),
        ("def chain(a, b, c):\n    return jax.lax.while_loop(lambda x: x[0, 0] < 0, lambda x: x / 2, a) @ b @ c", 0),
        ("def chain(a, b, c):\n    return jnp.sort(a)[:, ::-1] @ b[jnp.arange(len(b))] @ c.at[0].add(0)", 1),
    ],
    ids=["left", "jitted", "right", "loop", "no-slope", "sorted"],
)
@pytest.mark.sample(quick=3)
def test_a_check_that_traces_an_answer_sees_its_operations(engine, answer, points):
    nb = notebook({"q5": answer}, checks={"q5-check": COUNTED})
    assert in_process_grading.judge(nb)["q5-check"].score == points
    got = engine.grade(engines.bundle(nb), nb)
    assert got.scores["q5-check"] == points, got.message("q5-check")


DIGITS = "''.join(filter(str.isdigit, repr(seen)))"
CUT = SHARDED.replace('["A[I, J_X]", "B[J_X, K_Y]"]', "cut")
WAYS = {  # in which an answer puts out what an earlier one was called with
    "printed": "print(seen)\nseen",
    "error": "raise ValueError(seen)",
    "ends": "if seen: import os; print(seen, flush=True); os._exit(1)",
    "value": "def table(n):\n    return {'square': repr(seen[-1]), 'list': seen, 'array': np.array(seen)}",
    "text": "def table(n):\n    raise ValueError(repr(seen))",
    "type": f"def table(n):\n    raise type('E' + {DIGITS}, (Exception,), {{}})()",
    "kind": f"def table(n):\n    return type('E' + {DIGITS}[:30], (), {{}})()",
    "name": "def table(n):\n    return 0\ntable.__name__ = table.__qualname__ = repr(seen[-1:])",
    "off limits": f"def table(n):\n    raise PermissionError('helpers.a' + {DIGITS} + ' is off limits inside an answer: write it out')",
    "line": "import linecache\ndef table(n):\n    linecache.cache['<q3>'] = (1, None, [f'{seen}\\n'] * 9, '<q3>')\n    raise ValueError",
    "shape": "def table(n):\n    return {'square': 9, 'list': [3, 4], 'array': np.zeros((0, *(int(x * 1e6) for x in seen[-4:])))}",
    "fetched": f"class D(dict):\n    def values(self):\n        raise ValueError({DIGITS})\ntable = D(a=1)",
    "beside": (f"def table(n):\n    raise type('E' + {DIGITS}, (NameError,), {{}})(seen)", "a = check.Answer(table(3), points=1)"),
    "inner": (f"def table(n):\n    def f(x): return 0\n    f.__name__ = 'E' + {DIGITS}\n    return f",
              "a = check.Answer(table(3), points=1)\n    a.gives(1, 3)"),
    "axis": (f"def cut():\n    return [jax.P('X' + {DIGITS}), jax.P()]\n{PRODUCT}", CUT),
    "dimension": (f"def cut():\n    return ['A[I, J' + {DIGITS}[:50] + '_X]', 'B[J_X, K_Y]']\n{PRODUCT}", CUT),
    "program": (f"""import gc, jax.export
S = next(type(o) for o in gc.get_objects() if type(o).__name__ == "Session")
whole = S.program
def program(self, **asked):
    found = whole(self, **asked)
    if "whole" in asked:
        found = jax.export.deserialize(bytearray(found["program"]))
        found = {{"program": bytes(dataclasses.replace(found, fun_name={DIGITS}[:99], platforms=("tpu",)).serialize())}}
    return found
import dataclasses
S.program = program
def product(a, b):
    out = jax.lax.psum(a @ b, 'X')
    return out + jnp.fft.fft(out.astype('complex64')).real.astype(out.dtype)""", SHARDED),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(quick=3)
def test_what_checks_asked_comes_back_to_nobody(engine, way, monkeypatch):
    answer, judges = (WAYS[way], CHECKS["q3-check"]) if isinstance(WAYS[way], str) else WAYS[way]
    answers = ANSWERS | {"q2": "seen = []\ndef double(x):\n    seen.append(x)\n    return 2 * x", "q3": answer}
    nb = notebook(answers, checks=CHECKS | {"q3-check": judges})
    nb.cells.append(notebook({}, before="print('mine', seen)\nseen").cells[-1])
    got = engine.grade(engines.bundle(nb), nb, "class-ada")
    monkeypatch.setenv("COURSE_VALUES", "class-ada")
    asked = [d["x"] for d in check.with_edges("0.1 0", {"x": check.floats(1, 1e6)})]
    assert got.scores["q2-check"] == 1 and got.scores["q3-check"] == 0
    assert "mine []" in str(got.outputs["own-1"])
    told = str((got.outputs, got.notes)).replace(".", "")
    assert not [x for x in asked if repr(x).replace(".", "")[:7] in told]


def test_calls_that_travel_together_are_those_that_were_made_one_by_one(engine):
    """An answer that changes what it gave before, and one that fails for the third case."""
    cases = "a = check.Answer({}, points=1)\n    a.gives([1.0], 1.0)\n    a.gives([1.0, 2.0], 2.0)\n    a.gives([1.0, 2.0, 3.0], 3.0)"
    answers = {
        "q1": "kept = []\ndef grow(x):\n    kept.append(x)\n    return kept",
        "q2": "def short(x):\n    return [1.0, 2.0][:int(x)] if x < 3 else 1 / 0",
    }
    names = {"q1-check": cases.format("grow"), "q2-check": cases.format("short")}
    nb = notebook(answers, checks=names)
    got = engine.grade(engines.bundle(nb), nb)
    assert got.scores == {"q1-check": 1, "q2-check": 0}
    assert "short(3) raised ZeroDivisionError" in got.message("q2-check")
