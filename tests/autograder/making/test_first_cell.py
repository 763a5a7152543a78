"""The first cell of a notebook: nothing where `helpers` is, an installation where it is not, a stop with a sentence where it is old."""

import contextlib
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
import yaml

import helpers
from autograder.engine.importable_helpers import view
from autograder.making import first_cell
from autograder.places import ROOT, SourceError

ADDRESS = "git+https://github.com/rooflines-to-racks/rooflines-to-racks@main"


@pytest.fixture
def without(monkeypatch, tmp_path):
    """A folder in which Python finds no `helpers`, and nothing is installed for real."""
    for name in [n for n in sys.modules if n.split(".")[0] == "helpers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    # an editable install brings a finder of its own
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "editable" not in getattr(f, "__module__", "")])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("the cell started a program"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [n for n in sys.modules if n.split(".")[0] == "helpers"]:
        del sys.modules[name]


def package(folder, version="9.9.9"):
    """An empty `helpers` of that version in a folder, beside a Matplotlib."""
    (folder / "helpers" / "costs").mkdir(parents=True)
    (folder / "helpers" / "costs" / "__init__.py").touch()
    (folder / "matplotlib.py").touch()
    text = f'__version__ = "{version}"\n' if version else ""
    (folder / "helpers" / "__init__.py").write_text(text, encoding="utf-8")


def test_nothing_happens_where_helpers_is(monkeypatch, capfd):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("the cell started a program"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("the cell started a program"))
    path, scope = list(sys.path), {}
    exec(first_cell.setup(), scope)
    assert scope.keys() == {"helpers", "__builtins__"} and sys.path == path
    assert capfd.readouterr() == ("", "")


def test_from_any_folder_of_the_course(without, monkeypatch, capsys):
    package(without / "course")
    with_jax(without / "course", "9.9.9")
    deep = without / "course" / "notebooks" / "ch01"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    exec(first_cell.setup(), {})
    assert sys.path[0] == str(without / "course")
    assert capsys.readouterr().out == ""


def test_elsewhere_it_is_installed_and_nothing_with_it(without, monkeypatch, capsys):
    asked = []

    def run(command, **_):
        asked.append(command)
        package(without / "site")
        with_jax(without / "site", "9.9.9")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    (without / "helpers").mkdir()  # a folder of that name is no package
    sys.path.insert(0, str(without))
    exec(first_cell.setup(), scope := {})
    assert scope["helpers"].__version__ == "9.9.9"
    assert asked[0][:4] == [sys.executable, "-m", "pip", "install"] and asked[0][-2:] == ["--no-deps", ADDRESS]
    assert len(asked) == 1 and capsys.readouterr().out.startswith("Installing the course's package `helpers`")


def test_where_it_cannot_be_installed_it_says_why_and_what_to_do(without, monkeypatch, capsys):
    failed = SimpleNamespace(returncode=1, stdout="", stderr="fatal: unable to access the repository")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(ModuleNotFoundError, match="open this notebook inside of the course's folder"):
        exec(first_cell.setup(), {})
    assert "unable to access the repository" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "old"), [(None, True), ("0.1.12", True), (helpers.__version__, False), ("0.10.0", False)]
)
def test_an_older_one_stops_with_what_to_do(without, version, old):
    package(without / "site", version)
    with_jax(without / "site", "9.9.9")
    stops = pytest.raises(ImportError) if old else contextlib.nullcontext()
    with stops as said:
        exec(first_cell.setup(), {})
    if old:
        said = str(said.value)
        assert f"needs `helpers` {helpers.__version__} and finds {version or '0.1'}: update the course's folder" in said
        assert said.endswith(f"%pip install --no-deps --force-reinstall {ADDRESS}")


def with_jax(folder, version):
    """What pip leaves behind of that JAX."""
    info = folder / f"jax-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: jax\nVersion: {version}\n", encoding="utf-8")


@pytest.mark.parametrize(("version", "old"), [
    (None, True), ("0.4.38", True), ("0.7.0", True), ("0.7.1", False), ("0.7.2", False), ("0.10.0", False), ("0.8.0.dev20251001", False),
])  # fmt: skip
def test_an_older_jax_stops_in_one_sentence(without, version, old):
    """Compared as numbers, without importing it; the name of the function that asks is gone afterwards."""
    package(without / "site")
    if version:
        with_jax(without / "site", version)
    stops = pytest.raises(ImportError) if old else contextlib.nullcontext()
    with stops as said:
        exec(first_cell.setup(), scope := {})
    if old:
        sentence, line = str(said.value).split("\n")
        assert sentence == (
            f"This notebook needs JAX {helpers.__oldest_jax__} or newer and finds {version or 'none'}: run the next line in a cell "
            "of its own, and then restart the kernel."
        )
        assert line == f'%pip install --upgrade "jax>={helpers.__oldest_jax__}"'
    else:
        assert scope.keys() == {"helpers", "__builtins__"}


def test_a_missing_matplotlib_stops_in_one_sentence(without, monkeypatch):
    package(without / "site")
    with_jax(without / "site", "9.9.9")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="needs Matplotlib, which is not here.*\n%pip install matplotlib"):
        exec(first_cell.setup(), {})


def test_the_version_stands_in_two_places_and_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == helpers.__version__
    assert all(n.isdecimal() for n in helpers.__version__.split("."))  # the cell compares numbers


def test_an_answer_s_sandbox_shows_the_version():
    scope = {}
    exec(view(("helpers.show",))["helpers"], scope)
    assert scope["__version__"] == helpers.__version__
    assert "import" not in view(("helpers.show",))["helpers"]


def test_the_address_is_that_of_the_book():
    book = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    assert f'"git+{book["url"]}@{book["branch"]}"' in first_cell.setup()


@pytest.mark.parametrize("wrong", [
    "title: no repository",
    "repository: {url: 'git@github.com:ada/course', branch: main}",
    "repository: {url: 'https://github.com/ada/course\\\"; import os', branch: main}",
    "repository: {url: https://github.com/ada/course, branch: 'main; true'}",
    "repository: {url: https://github.com/ada/course}",
])  # fmt: skip
def test_an_address_that_pip_could_misread_is_refused(wrong):
    with pytest.raises(SourceError, match="_config.yml needs a repository"):
        first_cell.address(wrong)
