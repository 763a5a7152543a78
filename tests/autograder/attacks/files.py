"""What can lie in submitted/ where a notebook should: each function hands something in, in a folder of its own.

`FILES` get a zero with a sentence. `KEPT` are odd as well, but a notebook is there and is graded.
"""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from tests.autograder.attacks.edits import named

NAME = "exercises.ipynb"
Put = Callable[[Path, str, Path], None]
"""(the student's folder, the text of an honest notebook, the course)"""


def write(path: Path, data: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


ONE_CELL = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": []}
CONTENTS = {
    "corrupt_json": lambda text: text[: len(text) // 2],
    "empty_file": lambda text: "",
    "binary_file": lambda text: bytes(range(256)) * 400,
    "a_web_page": lambda text: "<!DOCTYPE html><html><script>alert(1)</script></html>",
    "deep_json": lambda text: "[" * 200_000 + "]" * 200_000,
    "deep_metadata": lambda text: '{"cells": [], "metadata": ' + '{"a":' * 90_000 + "1" + "}" * 90_001,
    "cells_of_a_wrong_type": lambda text: '{"nbformat": 4, "cells": {"0": {"cell_type": "code", "source": "1"}}}',
    "huge_notebook_100mb": lambda text: text.rstrip().removesuffix("}") + ', "x": "' + "x" * 100_000_000 + '"}',
    "a_hundred_thousand_cells": lambda text: json.dumps({"nbformat": 4, "metadata": {}, "cells": [ONE_CELL] * 100_000}),
}
"""Name -> what the file holds."""

LINKS = {
    "symlink_to_source": "{course}/source/{topic}/exercises.ipynb",
    "symlink_exfil": "/etc/passwd",
    "symlink_to_a_neighbour": "../../s000-honest/{topic}/exercises.ipynb",
    "symlink_to_itself": NAME,
}
"""Name -> where it leads."""


def content(make: Callable[[str], str | bytes]) -> Put:
    return lambda folder, text, course: write(folder / NAME, make(text))


def link(target: str) -> Put:
    return lambda folder, text, course: (folder / NAME).symlink_to(target.format(course=course, topic=folder.name))


def sparse_terabyte(folder, text, course):
    with open(folder / NAME, "wb") as f:
        f.truncate(10**12)


def no_notebook_dir(folder, text, course):
    pass


def notebook_is_a_folder(folder, text, course):
    write(folder / NAME / NAME, text)


def folder_is_a_link(folder, text, course):
    folder.rmdir()
    folder.symlink_to(course / "source" / folder.name)


def fifo(folder, text, course):
    os.mkfifo(folder / NAME)


def socket_file(folder, text, course):
    here = os.getcwd()
    os.chdir(folder)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(NAME)
    finally:
        os.chdir(here)


def device(folder, text, course):
    try:
        os.mknod(folder / NAME, 0o020666, os.makedev(1, 5))  # /dev/zero never ends
    except PermissionError:
        os.mkfifo(folder / NAME)


def several_notebooks(folder, text, course):
    write(folder / "a.ipynb", text)
    write(folder / "b.ipynb", text.replace("V / W", "V // W"))


FILES: dict[str, Put] = (
    {name: content(make) for name, make in CONTENTS.items()}
    | {name: link(target) for name, target in LINKS.items()}
    | named(sparse_terabyte, no_notebook_dir, notebook_is_a_folder, folder_is_a_link, fifo, socket_file, device)
    | named(several_notebooks)
)


# -- graded on the notebook that is there

EVIL = "open({!r}, 'w').write('x')\n"
BESIDE = {
    "shadow_ipykernel_launcher": "ipykernel_launcher.py sitecustomize.py usercustomize.py ipython_config.py",
    "shadow_numpy_module": "numpy.py jax/__init__.py helpers/__init__.py helpers/check.py json.py site.py",
    "config_files": "nbgrader_config.py jupyter_config.py jupyter_nbconvert_config.py .env conftest.py",
    "other_databases": "gradebook.db grades.csv submission_secret.txt feedback.html exercises.html",
}
"""Name -> files with code that an import, or nbgrader, would run or take for its own."""

STAMPS = {
    "timestamp_of_the_future": b"9999-12-31 23:59:59.999999 UTC",
    "timestamp_of_garbage": bytes(range(256)) * 10,
    "timestamp_with_a_formula": b'=HYPERLINK("http://evil")',
    "timestamp_of_an_odd_zone": b"2026-01-01 00:00:00 EVIL/../../etc",
    "timestamp_huge": b"2026-01-01 00:00:00 UTC" + b" " * 30_000_000,
}

RENAMED = {
    "renamed_by_a_browser": "exercises (1).ipynb",
    "renamed_to_text": "exercises.ipynb.txt",
    "renamed_by_the_student": "Homework 1, FINAL (2).ipynb",
    "upper_case": "EXERCISES.IPYNB",
    "in_a_folder": f"homework/{NAME}",
}
"""Names that a browser, a mail program or a person gives."""

ODD = {
    "timestamp_link": lambda folder: (folder / "timestamp.txt").symlink_to("/etc/hostname"),
    "timestamp_pipe": lambda folder: os.mkfifo(folder / "timestamp.txt"),
    "timestamp_folder": lambda folder: (folder / "timestamp.txt").mkdir(),
    "secret_link": lambda folder: (folder / "submission_secret.txt").symlink_to("/etc/passwd"),
    "secret_pipe": lambda folder: os.mkfifo(folder / "submission_secret.txt"),
    "executable_and_read_only": lambda folder: (folder / NAME).chmod(0o4555),
}
"""What is not as it should be in a folder with a good notebook."""


def beside(names: str) -> Put:
    def put(folder, text, course):
        write(folder / NAME, text)
        for name in names.split():
            write(folder / name, EVIL.format(str(course.parent / "proof" / folder.parent.name)))

    return put


def stamped(data: bytes) -> Put:
    return lambda folder, text, course: (write(folder / NAME, text), write(folder / "timestamp.txt", data))


def renamed(name: str) -> Put:
    return lambda folder, text, course: write(folder / name, text)


def odd(change: Callable[[Path], None]) -> Put:
    return lambda folder, text, course: (write(folder / NAME, text), change(folder))


def links_beside(folder, text, course):
    write(folder / NAME, text)
    (folder / "notes.txt").symlink_to("/etc/passwd")
    (folder / "data").symlink_to(course / "source")
    (folder / "loop").symlink_to(".")


def many_files_beside(folder, text, course):
    write(folder / NAME, text)
    for i in range(2000):
        (folder / f"file-{i}.txt").touch()
    deep = folder.joinpath(*["d" * 100] * 20)
    deep.mkdir(parents=True)
    os.mkfifo(folder / "pipe")


def other_notebooks_beside(folder, text, course):
    write(folder / NAME, text)
    for name in ("reading.ipynb", "other.ipynb", "exercises (1).ipynb", "Exercises.ipynb", "exercises.ipynb.bak"):
        write(folder / name, '{"broken')
    write(folder / ".ipynb_checkpoints" / "exercises-checkpoint.ipynb", "{")


def hard_link(folder, text, course):
    """Two students, one file: it is read as any other."""
    other = folder.parent.parent.parent / f"linked-{folder.parent.name}"
    write(other, text)
    os.link(other, folder / NAME)


def copy_of_the_whole_folder(folder, text, course):
    write(folder / folder.name / NAME, text)
    write(folder / folder.name / "notes.md", "mine")


KEPT: dict[str, Put] = (
    {name: beside(names) for name, names in BESIDE.items()}
    | {name: stamped(data) for name, data in STAMPS.items()}
    | {name: renamed(to) for name, to in RENAMED.items()}
    | {name: odd(change) for name, change in ODD.items()}
    | named(links_beside, many_files_beside, other_notebooks_beside, hard_link, copy_of_the_whole_folder)
)
