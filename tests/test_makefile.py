"""make's recipes, and README's lines for people without make, in folders of any name; what takes long is a stub that notes its call."""

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.scratch import ROOT
from tests.tiers import repeats

LETTERS = " üß課ж'\"$`\\#%&;()[]{}*?!~=,+@^|<>-x"
RECIPES = {
    "lab PORT=9000": ["-m autograder.own_work --port=9000 --ServerApp.port_retries=0"],
    "formgrader PORT=9000": ["-m jupyterlab --port=9000 --ServerApp.port_retries=0"],
    "check": ["-m autograder.grade_own"],
    "test": ["-m pytest -n 2 --dist loadgroup"],
    "exercise NEW=4.27": ["-m tools.new_exercise 4.27"],
    "exercise TRY=4.$$27": ["-m tools.try_exercise 4.$27"],
    "release": ["-m autograder.release"],
    "grade": ["-m autograder.grade ch01_rooflines"],
    "demo": ["-m tools.demo"],
    "book": ["-m autograder.release --course", "build . -W -n --keep-going"],
    "collect FROM=a\"'$$b.zip": ["-m autograder.collect ch01_rooflines --from a\"'$b.zip"],
}
STUB = """#!/bin/sh
echo "$0 $*" >>"$NOTES"
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  cp "$0" "$3/bin/python"
  cp "$0" "$3/bin/course"
  echo 'PATH="$PWD/.venv/bin:$PATH"' >"$3/bin/activate"
fi
"""


def names(count: int) -> list[str]:
    """What people and systems call folders, then drawn ones."""
    draw = random.Random(45)
    return [
        "Meine Kurse ü", "it's $HOME", "-x", "課程", "Course [2026] #1",
        *("".join(draw.choices(LETTERS, k=6)) for _ in range(count)),
    ]  # fmt: skip


class Clone:
    """A folder with what make reads, and a Python that only notes how it was called."""

    def __init__(self, folder: Path, tools: Path, uv: bool):
        self.folder, self.notes = folder, tools / "notes"
        folder.mkdir(parents=True)
        for name in (
            "Makefile",
            "autograder/teaching.mk",
            "tools/course.mk",
            "requirements.txt",
            "pyproject.toml",
            "README.md",
        ):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        (folder / "solutions").mkdir()
        (folder / "solutions/ch01_rooflines.md").touch()
        (tools / "bin").mkdir(parents=True)
        for program in ("python3", "uv")[: 1 + uv]:
            (tools / "bin" / program).write_text(STUB)
            (tools / "bin" / program).chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if k in ("HOME", "LANG", "LC_ALL")}
        self.environment = kept | {"PATH": f"{tools / 'bin'}:/usr/bin:/bin", "NOTES": str(self.notes)}

    def run(self, *words: str) -> list[str]:
        """The calls of Python that a command makes."""
        self.notes.write_text("")
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words} in {self.folder}: {done.stdout}{done.stderr}"
        return self.notes.read_text().splitlines()


@pytest.mark.parametrize("name", names(repeats(3, 60)))
@pytest.mark.skipif(not shutil.which("make"), reason="there is no make here")
def test_every_recipe_works_in_a_folder_of_any_name(tmp_path, name):
    uv = len(name) % 2 == 0
    clone = Clone(tmp_path / name / "course", tmp_path / "tools", uv)
    *_, own = clone.run("make", "env")
    installs = "uv pip install --python .venv/bin/python" if uv else ".venv/bin/python -m pip install"
    assert installs in own and own.endswith("--no-deps --no-build-isolation -e .")
    assert clone.run("make", "env") == []
    python = f"{clone.folder}/.venv/bin/python "
    for recipe, wanted in RECIPES.items():
        target, *setting = recipe.split(" ", 1)
        calls = [call.replace(" --allow-root", "") for call in clone.run("make", target, *setting)]
        assert all(call.startswith(python) for call in calls), calls
        assert len(calls) == len(wanted) and all(map(str.endswith, calls, wanted)), calls


@pytest.mark.parametrize("name", names(repeats(3, 60)))
def test_the_lines_without_make_work_in_a_folder_of_any_name(tmp_path, name):
    clone = Clone(tmp_path / name, tmp_path / "tools", uv=False)
    lines = re.search(r"Without make:\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
    calls = [call.removeprefix(str(clone.folder)) for call in clone.run("sh", "-e", "-c", lines)]
    assert calls[1:] == [
        ".venv/bin/python -m pip install -r requirements.txt",
        ".venv/bin/python -m pip install --no-deps --no-build-isolation -e .",
        "/.venv/bin/course ",
        "/.venv/bin/python -m pytest -n 2",
    ]
