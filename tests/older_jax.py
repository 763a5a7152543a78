"""Runs a chapter under the JAX that is here: `python -m tests.older_jax ch02_sharding` prints what fails, as a list in JSON.

All cells of its core and of its pages further down, and its exercises, solved, with their hidden checks. `tests/test_jax_versions.py`
starts it where an older JAX than ours is installed.
"""

import json
import sys

from autograder.making import in_process_grading
from autograder.places import Tree, reading_of, topic_of


def failures(topic: str) -> list[str]:
    """One line for each cell to read that raises, and for each exercise without full points."""
    tree, found = Tree(), []
    for path in (tree.notebooks / reading_of(p.stem) for p in tree.readings if topic_of(p.stem) == topic):
        code = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        scope = {"__name__": "__main__", "display": lambda *things: None}
        for n, cell in enumerate(code):
            _, _, fault = in_process_grading.execute("".join(cell["source"]), f"<{path.stem} {n}>", scope)
            if "Traceback" in fault:
                found.append(f"{topic}, {path.stem}, code cell {n}: {fault.strip()[-800:]}")
    for name, verdict in in_process_grading.judge(in_process_grading.solved(topic)).items():
        if verdict.score < verdict.points:
            found.append(f"{topic}, {name}: {verdict.message[-800:]}")
    return found


if __name__ == "__main__":
    import matplotlib

    from helpers.kernels import mesh

    matplotlib.use("agg")
    mesh.devices()  # eight, before a page further down starts JAX with one
    print(json.dumps([line for topic in sys.argv[1:] for line in failures(topic)]))
