"""What a child sees of the course: listed modules, open data, stand-ins; no formula, no check, no test."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
import yaml

from autograder.engine import run_submission as engines, sandbox
from autograder.engine.importable_helpers import HELPERS, modules, view
from tests.autograder.engine.small import ANSWERS, LIMITS, notebook
from tests.autograder.engine.test_sandbox import LEVELS, host_of

LISTED = ("helpers.costs.rooflines.hardware", "helpers.kernels.mesh")
SECRET = ("helpers.costs.", "helpers.kernels.", "helpers.trace", "helpers.check")  # where answers could be read off


COMMON = re.compile(r"(from|import|class|@|#|\"\"\"|def __|raise AttributeError)")


def lines(source: str) -> set[str]:
    """The lines of a module that say something of their own."""
    return {x for line in source.splitlines() if len(x := line.strip()) > 24 and not COMMON.match(x)}


def test_no_line_of_a_formula_a_counter_or_a_check_is_in_it():
    sources = {n: p.read_text(encoding="utf-8") for n, p in modules().items()}
    shown = view(LISTED)
    real = {n for n in shown if shown[n] == sources[n] and lines(sources[n])}
    assert {"helpers.costs.rooflines.chips", "helpers.costs.rooflines.hardware", "helpers.kernels.mesh"} <= real
    assert not {n for n in real if n.startswith(("helpers.trace", "helpers.check"))}
    stand_ins = set().union(*(lines(shown[n]) for n in shown.keys() - real))
    secret = [n for n in sources if n.startswith(SECRET) and n not in real]
    assert len(secret) > 25
    for name in secret:
        assert not lines(sources[name]) & stand_ins, name
    assert lines(sources["helpers.kernels.mesh"]) <= lines(shown["helpers.kernels.mesh"])  # so the test above can fail


def test_every_module_imports_and_has_its_public_names(engine):
    """In the sandbox, by the way that a learner's import goes; also names that a package takes from its modules."""
    sources = {n: p.read_text(encoding="utf-8") for n, p in modules().items()}
    names = {n: re.findall(r"^(?:def|class) ([A-Za-z]\w*)", source, re.M) for n, source in sources.items()}
    for n in (n for n, source in sources.items() if "\n__all__ = " in source):
        names[n] += importlib.import_module(n).__all__
    assert {"lines", "canvas"} <= set(names["helpers.plot"])
    names = {n: found for n, found in names.items() if n not in ("helpers.check.compare", "helpers.plot.picture")}
    code = f"""
        import importlib
        missing = [f"{{n}}.{{x}}" for n, found in {names!r}.items() for x in found if not hasattr(importlib.import_module(n), x)]
        print("MISSING", missing)"""
    assert said(engine, code) == "MISSING []\n"


def said(engine, code: str) -> str:
    nb = notebook(ANSWERS, inspect.cleandoc(code))
    # A bundle with this cell would run it in the checker, too, whose modules other tests need.
    outputs = engine.grade(engines.bundle(notebook(ANSWERS)), nb, only=[]).outputs["own-1"]
    return "".join(o.get("text", str(o)) for o in outputs)


# what is off limits -> (where an answer imports from, what, how it would use it, and where that is defined if elsewhere)
CALLS = {
    "a function": ("helpers.costs.rooflines.roofline", "attainable", "attainable(1, 2, 3)", ""),
    "a simulator": ("helpers.kernels.sharding", "collectives", "collectives.all_gather(1)", ""),
    "a counter": ("helpers.trace", "count", "count(lambda x: x, 1)", "helpers.trace.jaxpr.walk.count"),
    "a counter, by its package": ("helpers", "trace", "trace.count(lambda x: x, 1)", "helpers.trace.jaxpr.walk.count"),
    "a record": ("helpers.costs.sharding.sharded_array", "Axis", "Axis(4)", ""),
    "a table": ("helpers.trace.jaxpr.equation_costs", "COLLECTIVES", "COLLECTIVES['x']", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_listed_says_that_it_is_off_limits(engine, name):
    """In the words of the notebook's own check, and as an exception that a check knows."""
    module, attribute, use, defined = CALLS[name]
    nb = notebook(ANSWERS | {"q2": f"from {module} import {attribute}\ndef double(x):\n    return {use}"})
    got = engine.grade(engines.bundle(nb), nb)
    assert got.scores == {"q1-check": 1, "q2-check": 0, "q3-check": 1}
    what, said = defined or f"{module}.{re.split(r'[([]', use)[0]}", " ".join(got.message("q2-check").split())
    assert re.search(rf"(?<![\w.]){re.escape(what)} is off limits inside an answer: write it out\.", said), said


def test_open_data_and_listed_modules_are_real(engine):
    code = """
        from helpers.costs.rooflines.chips import chip
        from helpers.costs.rooflines.hardware import Slice
        from helpers.costs.rooflines.torus import HOP
        from helpers.kernels import mesh
        print(Slice(chip("v5e"), (4, 4)).chips, HOP, mesh.mesh((4, 2), ("X", "Y")).shape["X"])"""
    nb = notebook(ANSWERS, inspect.cleandoc(code))
    nb.metadata["course"] = {"helpers": list(LISTED)}
    got = engine.grade(engines.bundle(nb), nb)
    assert got.outputs["own-1"][0].text == "16 1e-06 4\n"
    assert sum(got.scores.values()) == 3


def test_a_learners_own_cell_may_check_and_draw(engine):
    """Nothing comes of it, and no error either."""
    code = """
        from helpers import check, plot
        def own():
            a = check.Answer(1, points=3, rtol=1e-3)
            a.gives(1)
            a.equals(lambda x: x, x=check.ints(1, 9))
            return check.report("1.1", a)
        own(), check.run(own), check.solution("1.1")
        figure, ax = plot.canvas()
        ax.plot([1, 2])
        figure.savefig("own.png")
        print(check.passed("1.1"), plot.lines([1], {"a": [1]}, "x", "y", alt="One dot."), plot.Picture("", "A dot."))"""
    told = said(engine, code)
    assert told.splitlines()[-1] == "False [figure: One dot.] [figure: A dot.]"
    assert told.count("Checks run in another process") == 2


def test_no_file_of_the_course_is_there(engine):
    """Nor does the import system find a second `helpers`; of our own package, what answers need is there."""
    code = """
        import os, sys
        print(sorted({os.path.join(w, f) for w, _, files in os.walk("/course") for f in files}))
        print([p for p in sys.path if os.path.isdir(p + "/helpers") and os.listdir(p + "/helpers")])
        import helpers.costs.rooflines.roofline as r
        print(r.__loader__.get_source("helpers.costs.rooflines.roofline").count("def "))
        sys.meta_path[:] = sys.meta_path[1:]
        for name in [m for m in sys.modules if m.startswith("helpers")]:
            del sys.modules[name]
        try:
            import helpers.costs
            print("LEAK", helpers.__path__)
        except ImportError:
            pass"""
    files = ["__init__", "answer_process", "jax_internals", "linux_isolation", "wire", "wire_types", "zygote"]
    assert said(engine, code) == f"{[f'/course/engine/{f}.py' for f in files]}\n[]\n0\n"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.sample(quick=1, slow=1)
def test_a_course_below_what_is_shown_is_covered(level, monkeypatch):
    """Where /usr or the environment has the course in it, say as an installed package, that folder is empty."""
    course = Path(yaml.__file__).parent  # some package that nobody needs
    monkeypatch.setattr(sandbox, "HELPERS", course / "helpers")
    code = f"""
        import os
        try:
            print(os.listdir({str(course)!r}), os.path.exists({str(course.parent / "numpy")!r}))
            open({yaml.__file__!r})
            print("LEAK")
        except OSError as e:
            print(type(e).__name__)"""
    with engines.Engine(LIMITS, host_of(level)) as e:
        e.warm_zygote()
        monkeypatch.undo()
        told = said(e, code).splitlines()
    if level != "landlock":  # which cannot hide names
        assert told[0] == "[] True"
    assert told[-1] in ("FileNotFoundError", "PermissionError")


def test_an_unknown_module_is_a_sentence():
    with pytest.raises(ValueError, match="no module helpers.costs.nothing"):
        view(("helpers.costs.nothing",))
    assert HELPERS.name == "helpers"
