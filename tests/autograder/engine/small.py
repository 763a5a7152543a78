"""A small assignment to attack."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from autograder.engine import sandbox

LIMITS = sandbox.Limits(cell=2, check=5, submission=40, clock=10, memory=2_000_000_000, processes=100)

SETUP = "import math\n\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\n\nfrom helpers import check"
ANSWERS = {
    "q1": "speed = 42.5",
    "q2": "def double(x):\n    return 2 * x",
    "q3": "def table(n):\n    return {'square': n * n, 'list': [n, n + 1], 'array': np.arange(n, dtype=float)}",
}
WRONG = {
    "q1": "speed = 1",
    "q2": "def double(x):\n    return x",
    "q3": "def table(n):\n    return {'square': 0, 'list': [], 'array': None}",
}
CHECKS = {
    "q1-check": "a = check.Answer(speed, points=1)\n    a.gives(42.5)",
    "q2-check": "a = check.Answer(double, points=1)\n    a.gives(6, 3)\n"
                "    a.equals(lambda x: 2 * x, x=check.floats(1, 1e6))",
    "q3-check": "a = check.Answer(table, points=1)\n"
                "    a.gives({'square': 9, 'list': [3, 4], 'array': np.array([0., 1, 2])}, 3)\n"
                "    a.equals(lambda m: {'square': m ** 2, 'list': [m, m + 1], 'array': np.arange(m)}, m=check.ints(5, 50))",
}  # fmt: skip


def cell(source: str, grade_id: str, solution: bool = False, grade: bool = False, points: float = 1):
    m = dict(schema_version=3, grade_id=grade_id, solution=solution, grade=grade, locked=not solution, task=False)
    return new_code_cell(source, id=grade_id, metadata={"nbgrader": m | ({"points": points} if grade else {})})


def checked(name: str, body: str, points: float = 1):
    function = name.replace("-", "_")
    source = f'def {function}():\n    {body}\n    return check.report("0.1", a)\n\n\ncheck.run({function})'
    return cell(source, name, grade=True, points=points)


def notebook(answers: dict, before: str | None = None, checks: dict = CHECKS) -> nbformat.NotebookNode:
    """A submission: an own cell before the answers, the answers, each followed by its check."""
    cells = [cell(SETUP, "setup")]
    if before is not None:
        cells.append(new_code_cell(before, id="own-1"))
    for name, source in answers.items():
        cells += [cell(source, name, solution=True), checked(f"{name}-check", checks[f"{name}-check"])]
    return new_notebook(cells=cells)
