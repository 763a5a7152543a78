"""Runs a chapter under the JAX that is here: `python -m tests.older_jax ch02_sharding` prints what fails, as a list in JSON.

All cells of its reading, and its exercises, solved, with their hidden checks. `tests/test_jax_versions.py` starts it where an older
JAX than ours is installed.
"""

import json
import sys

from autograder.making import in_process_grading
from autograder.places import Tree


def failures(topic: str) -> list[str]:
    """One line for each cell of the reading that raises, and for each exercise without full points."""
    tree, found = Tree(), []
    reading = json.loads((tree.notebooks / topic / "reading.ipynb").read_text(encoding="utf-8"))["cells"]
    scope = {"__name__": "__main__", "display": lambda *things: None}
    for n, cell in enumerate(c for c in reading if c["cell_type"] == "code"):
        _, _, fault = in_process_grading.execute("".join(cell["source"]), f"<reading {n}>", scope)
        if "Traceback" in fault:
            found.append(f"{topic}, reading, code cell {n}: {fault.strip()[-800:]}")
    for name, verdict in in_process_grading.judge(in_process_grading.solved(topic)).items():
        if verdict.score < verdict.points:
            found.append(f"{topic}, {name}: {verdict.message[-800:]}")
    return found


if __name__ == "__main__":
    import matplotlib

    matplotlib.use("agg")
    print(json.dumps([line for topic in sys.argv[1:] for line in failures(topic)]))
