"""Work collected from the homes of a JupyterHub: the assignment's folder of each, and nothing else."""

import pytest

from autograder import collect
from autograder.places import SourceError

from .platforms import TOPIC
from .test_collect import CLASS, A, B, C, canvas_list, lies


def homes(tmp_path, files):
    for name, data in files.items():
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_bytes(data)
    return tmp_path / "home"


def test_of_homes_only_the_assignment_is_taken(what, tmp_path):
    """No private file of a student's, no notebook of another assignment, nothing behind a link."""
    home = homes(tmp_path, {f"ada/{TOPIC}/exercises.ipynb": A, "ada/.bashrc": b"x", "ada/ch02/exercises.ipynb": B,
                            "bob/thesis.txt": b"x", "elsewhere/exercises.ipynb": C})  # fmt: skip
    (home / "wei").mkdir()
    (home / "wei" / TOPIC).symlink_to(home / "elsewhere")
    with what.gradebook() as g:
        for m in CLASS:
            g.add_student(m.login)
    found = collect.collect(what, home)
    assert lies(what, "ada") == {"exercises.ipynb": A} and not lies(what, "bob") and not lies(what, "wei")
    assert found.missing == ["bob", "wei"] and not found.unclaimed


def test_a_home_of_nobody_in_the_class_is_named_and_kept(what, tmp_path):
    home = homes(
        tmp_path, {f"{s}/{TOPIC}/exercises.ipynb": d for s, d in (("ada", A), ("eve", B))} | {"eve/.bashrc": b"x"}
    )
    found = collect.collect(what, home, canvas_list(tmp_path))
    assert found.unclaimed == [f"eve/{TOPIC}/exercises.ipynb"] and [r.student for r in found.rows] == ["ada"]
    (kept,) = (what.root / collect.KEPT / TOPIC / "unclaimed").rglob("*.ipynb")
    assert kept.read_bytes() == B


def test_work_for_another_assignment_is_not_taken_for_this_one(what, tmp_path):
    home = homes(tmp_path, {"ada/ch02_sharded_matmuls/exercises.ipynb": A})
    with what.gradebook() as g:
        g.add_assignment("ch02_sharded_matmuls")
    with pytest.raises(SourceError, match=f"lies in the folder {TOPIC} of a folder with a student's id"):
        collect.collect(what, home, canvas_list(tmp_path))
    assert not lies(what, "ada")
