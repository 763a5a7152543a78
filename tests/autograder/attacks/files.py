"""What can lie in submitted/ where a notebook should: each function hands something in, in a folder of its own.

`FILES` get a zero with a sentence. `KEPT` are odd as well, but a notebook is there and is graded.
"""

import json
import os
import socket
from pathlib import Path

NAME = "exercises.ipynb"


def corrupt_json(folder: Path, text: str, course: Path):
    (folder / NAME).write_text(text[: len(text) // 2])


def trailing_commas(folder, text, course):
    (folder / NAME).write_text(text.rstrip().removesuffix("}") + ",}")


def empty_file(folder, text, course):
    (folder / NAME).touch()


def spaces_only(folder, text, course):
    (folder / NAME).write_text(" \n" * 1000)


def binary_file(folder, text, course):
    (folder / NAME).write_bytes(bytes(range(256)) * 400)


def zip_file(folder, text, course):
    (folder / NAME).write_bytes(b"PK\x03\x04" + text.encode()[:5000])


def a_web_page(folder, text, course):
    (folder / NAME).write_text("<!DOCTYPE html><html><script>alert(1)</script></html>")


def a_python_file(folder, text, course):
    (folder / NAME).write_text("def seconds(V, W):\n    return V / W\n")


def deep_json(folder, text, course):
    (folder / NAME).write_text("[" * 200_000 + "]" * 200_000)


def deep_metadata(folder, text, course):
    (folder / NAME).write_text('{"cells": [], "metadata": ' + '{"a":' * 90_000 + "1" + "}" * 90_001)


def not_an_object(folder, text, course):
    (folder / NAME).write_text("[1, 2, 3]")


def no_cells(folder, text, course):
    (folder / NAME).write_text('{"nbformat": 4, "metadata": {}}')


def cells_of_a_wrong_type(folder, text, course):
    (folder / NAME).write_text('{"nbformat": 4, "cells": {"0": {"cell_type": "code", "source": "1"}}}')


def endless_number(folder, text, course):
    (folder / NAME).write_text('{"nbformat": ' + "9" * 100_000 + "}")


def huge_notebook_100mb(folder, text, course):
    with open(folder / NAME, "w") as f:
        f.write(text.rstrip().removesuffix("}") + ', "x": "')
        for _ in range(100):
            f.write("x" * 1_000_000)
        f.write('"}')


def sparse_terabyte(folder, text, course):
    with open(folder / NAME, "wb") as f:
        f.truncate(10**12)


def a_hundred_thousand_cells(folder, text, course):
    one = {"cell_type": "code", "source": "1", "metadata": {}, "outputs": []}
    (folder / NAME).write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": [one] * 100_000}))


def no_notebook_dir(folder, text, course):
    pass


def notebook_is_a_folder(folder, text, course):
    (folder / NAME).mkdir()
    (folder / NAME / NAME).write_text(text)


def symlink_to_source(folder, text, course):
    (folder / NAME).symlink_to(course / "source" / folder.name / NAME)


def symlink_exfil(folder, text, course):
    (folder / NAME).symlink_to("/etc/passwd")


def symlink_to_a_neighbour(folder, text, course):
    (folder / NAME).symlink_to(Path("..", "..", "s000-honest", folder.name, NAME))


def symlink_to_itself(folder, text, course):
    (folder / NAME).symlink_to(NAME)


def symlink_to_nowhere(folder, text, course):
    (folder / NAME).symlink_to("/nowhere/at/all")


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
    (folder / "a.ipynb").write_text(text)
    (folder / "b.ipynb").write_text(text.replace("V / W", "V // W"))


FILES = [
    corrupt_json, trailing_commas, empty_file, spaces_only, binary_file, zip_file, a_web_page, a_python_file, deep_json, deep_metadata,
    not_an_object, no_cells, cells_of_a_wrong_type, endless_number, huge_notebook_100mb, sparse_terabyte, a_hundred_thousand_cells,
    no_notebook_dir, notebook_is_a_folder, symlink_to_source, symlink_exfil, symlink_to_a_neighbour, symlink_to_itself,
    symlink_to_nowhere, folder_is_a_link, fifo, socket_file, device, several_notebooks,
]  # fmt: skip


# -- graded on the notebook that is there

EVIL = "open({!r}, 'w').write('x')\n"


def _beside(folder, text, course, *names):
    (folder / NAME).write_text(text)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(EVIL.format(str(course.parent / "proof" / folder.parent.name)))


def shadow_ipykernel_launcher(folder, text, course):
    _beside(folder, text, course, "ipykernel_launcher.py", "sitecustomize.py", "usercustomize.py", "ipython_config.py")


def shadow_numpy_module(folder, text, course):
    _beside(
        folder,
        text,
        course,
        "numpy.py",
        "jax/__init__.py",
        "helpers/__init__.py",
        "helpers/check.py",
        "json.py",
        "site.py",
    )


def config_files(folder, text, course):
    _beside(
        folder,
        text,
        course,
        "nbgrader_config.py",
        "jupyter_config.py",
        "jupyter_nbconvert_config.py",
        ".env",
        "conftest.py",
    )


def other_databases(folder, text, course):
    _beside(
        folder, text, course, "gradebook.db", "grades.csv", "submission_secret.txt", "feedback.html", "exercises.html"
    )


def links_beside(folder, text, course):
    (folder / NAME).write_text(text)
    (folder / "notes.txt").symlink_to("/etc/passwd")
    (folder / "data").symlink_to(course / "source")
    (folder / "loop").symlink_to(".")


def many_files_beside(folder, text, course):
    (folder / NAME).write_text(text)
    for i in range(2000):
        (folder / f"file-{i}.txt").touch()
    deep = folder.joinpath(*["d" * 100] * 20)
    deep.mkdir(parents=True)
    os.mkfifo(folder / "pipe")


def other_notebooks_beside(folder, text, course):
    (folder / NAME).write_text(text)
    for name in ("reading.ipynb", "other.ipynb", "exercises (1).ipynb", "Exercises.ipynb", "exercises.ipynb.bak"):
        (folder / name).write_text('{"broken')
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "exercises-checkpoint.ipynb").write_text("{")


def hard_link(folder, text, course):
    """Two students, one file: it is read as any other."""
    other = folder.parent.parent.parent / f"linked-{folder.parent.name}"
    other.write_text(text)
    os.link(other, folder / NAME)


def executable_and_read_only(folder, text, course):
    (folder / NAME).write_text(text)
    (folder / NAME).chmod(0o4555)


def _stamp(folder, text, content):
    (folder / NAME).write_text(text)
    (folder / "timestamp.txt").write_bytes(content)


def timestamp_of_the_future(folder, text, course):
    _stamp(folder, text, b"9999-12-31 23:59:59.999999 UTC")


def timestamp_of_garbage(folder, text, course):
    _stamp(folder, text, bytes(range(256)) * 10)


def timestamp_with_a_formula(folder, text, course):
    _stamp(folder, text, b'=HYPERLINK("http://evil")')


def timestamp_of_a_month_13(folder, text, course):
    _stamp(folder, text, b"2026-13-45 99:99:99 UTC")


def timestamp_of_a_year_0(folder, text, course):
    _stamp(folder, text, b"0000-00-00 00:00:00")


def timestamp_of_an_odd_zone(folder, text, course):
    _stamp(folder, text, b"2026-01-01 00:00:00 EVIL/../../etc")


def timestamp_huge(folder, text, course):
    _stamp(folder, text, b"2026-01-01 00:00:00 UTC" + b" " * 30_000_000)


def timestamp_link(folder, text, course):
    (folder / NAME).write_text(text)
    (folder / "timestamp.txt").symlink_to("/etc/hostname")


def timestamp_pipe(folder, text, course):
    (folder / NAME).write_text(text)
    os.mkfifo(folder / "timestamp.txt")


def timestamp_folder(folder, text, course):
    (folder / NAME).write_text(text)
    (folder / "timestamp.txt").mkdir()


def secret_link(folder, text, course):
    (folder / NAME).write_text(text)
    (folder / "submission_secret.txt").symlink_to("/etc/passwd")


def secret_pipe(folder, text, course):
    (folder / NAME).write_text(text)
    os.mkfifo(folder / "submission_secret.txt")


# Names that a browser, a mail program or a person gives.


def renamed_by_a_browser(folder, text, course):
    (folder / "exercises (1).ipynb").write_text(text)


def renamed_to_text(folder, text, course):
    (folder / "exercises.ipynb.txt").write_text(text)


def renamed_by_the_student(folder, text, course):
    (folder / "Homework 1, FINAL (2).ipynb").write_text(text)


def upper_case(folder, text, course):
    (folder / "EXERCISES.IPYNB").write_text(text)


def in_a_folder(folder, text, course):
    (folder / "homework").mkdir()
    (folder / "homework" / NAME).write_text(text)


def copy_of_the_whole_folder(folder, text, course):
    (folder / folder.name).mkdir()
    (folder / folder.name / NAME).write_text(text)
    (folder / folder.name / "notes.md").write_text("mine")


KEPT = [
    shadow_ipykernel_launcher, shadow_numpy_module, config_files, other_databases, links_beside, many_files_beside,
    other_notebooks_beside, hard_link, executable_and_read_only, timestamp_of_the_future, timestamp_of_garbage,
    timestamp_with_a_formula, timestamp_of_a_month_13, timestamp_of_a_year_0, timestamp_of_an_odd_zone, timestamp_huge, timestamp_link,
    timestamp_pipe, timestamp_folder, secret_link, secret_pipe, renamed_by_a_browser, renamed_to_text, renamed_by_the_student,
    upper_case, in_a_folder, copy_of_the_whole_folder,
]  # fmt: skip
