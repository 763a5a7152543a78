"""Which JAX the course runs on: stated once, true of every chapter, and nothing that JAX imports only from some release on."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import helpers
from tests import scratch
from tests.skip_conditions import needs

ROOT = scratch.ROOT
TOPICS = sorted(p.stem for p in (ROOT / "solutions").glob("ch*.md"))


def sources() -> dict[str, str]:
    """Every module, and the code of every page, by path."""
    found = {}
    for folder in ("helpers", "autograder", "tests", "tools", "book"):
        for path in (ROOT / folder).rglob("*.py"):
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("book/ch*.md"), *ROOT.glob("solutions/*.md")):
        cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)
        bare = [
            re.sub(r"\A(---\n.*?^---\n|(:.*\n)+)", "", c, flags=re.S | re.M) for c in cells
        ]  # without a cell's options
        found[path.relative_to(ROOT).as_posix()] = "\n".join(bare)
    return found


def users(dotted: str) -> dict[str, ast.AST]:
    """The files whose code, not their comments, says a.b.c."""
    trees = {path: ast.parse(text) for path, text in sources().items() if dotted in text}
    says = lambda n: isinstance(n, ast.Attribute) and ast.unparse(n) == dotted  # noqa: E731
    return {path: tree for path, tree in trees.items() if any(map(says, ast.walk(tree)))}


def imported(tree: ast.AST) -> set[str]:
    return {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}


def test_who_uses_jax_export_imports_it():
    """`import jax` brings it from JAX 0.8 on only."""
    found = users("jax.export")
    assert len(found) > 5
    assert {path for path, tree in found.items() if "jax.export" not in imported(tree)} == set()


def test_no_page_uses_what_the_oldest_jax_lacks():
    """`jax.reshard` came with JAX 0.9; `jax.sharding.reshard` is the same function, in all of them."""
    assert users("jax.sharding.reshard") and not users("jax.reshard")


def test_the_oldest_jax_is_stated_once():
    pinned = re.findall(r"^jax==([\d.]+) ", (ROOT / "requirements.in").read_text(encoding="utf-8"), re.M)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (said,) = [s for s in readme.splitlines() if s.startswith("JAX comes with the rest")]
    assert re.findall(r"\d+\.\d+\.[\d.]*\d", said) == [*pinned, helpers.__oldest_jax__]
    number = lambda v: [int(n) for n in v.split(".")]  # noqa: E731
    assert all(number(helpers.__oldest_jax__) < number(v) for v in pinned)
    for notebook in ROOT.glob("notebooks/ch*/*.ipynb"):
        first = next(c for c in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code")
        assert f'stop_if_jax_is_older_than("{helpers.__oldest_jax__}")' in "".join(first["source"])


@pytest.fixture(scope="module")
def older(tmp_path_factory) -> dict[str, str]:
    """An environment of its own with the oldest JAX and, by links, this one's other packages."""
    to = tmp_path_factory.mktemp("older")
    pip = [sys.executable, *"-m pip install --quiet --no-deps --only-binary=:all: --target".split(), to / "jax"]
    done = subprocess.run(
        [*pip, f"jax=={helpers.__oldest_jax__}", f"jaxlib=={helpers.__oldest_jax__}"], capture_output=True, text=True
    )
    needs(
        done.returncode == 0, f"JAX {helpers.__oldest_jax__} cannot be had from the package index: {done.stderr[-300:]}"
    )
    links = to / "links"
    links.mkdir()
    for path in next(Path(sys.prefix).glob("lib/python3.*/site-packages")).iterdir():
        if not re.match(r"(__editable__|rooflines_to_racks|helpers|book|jax|jaxlib|libtpu)|.*\.pth$", path.name):
            (links / path.name).symlink_to(path)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    return env | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, to / "jax", links)))}


@pytest.mark.sample(quick=0, slow=1)  # all cells of a chapter and its exercises under another JAX: a minute
@pytest.mark.parametrize("topic", TOPICS)
def test_a_chapter_runs_on_the_oldest_jax(topic, older):
    python = Path(sys.executable).resolve()  # the interpreter, without this environment's packages
    run = lambda *args: subprocess.run([python, *args], cwd=ROOT, env=older, capture_output=True, text=True)  # noqa: E731
    assert run("-c", "import jax; print(jax.__version__)").stdout.strip() == helpers.__oldest_jax__
    done = run("-m", "tests.older_jax", topic)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
