"""Zips and folders that break, lead elsewhere, or grow, and disks that fill: what is read is whole, and what is not is named."""

import dataclasses
import os
import shutil
import struct
import zipfile

import pytest

from autograder import collect
from autograder.grading.intake import FILE
from autograder.lms import archives, class_list, placing
from autograder.lms.archives import Unreadable, opened
from autograder.places import FULL, SourceError
from tests.autograder.disks import disk, fill  # noqa: F401  a fixture

from .platforms import TOPIC, canvas_name, zipped
from .test_collect import ADA, BOB, A, B, canvas_list, lies


def names(source):
    with opened(source) as archive:
        return ["/".join(e.path) for e in archive.entries], archive.refused


def copied(source, to):
    """What the only file gives."""
    with opened(source) as archive:
        archive.entries[0].copy(to)
    return to.read_bytes()


def test_files_of_a_zip_and_of_its_folder(tmp_path):
    files = {"a/b.ipynb": b"1", "c d.ipynb": b"2", "__MACOSX/._c d.ipynb": b"x", "a/.DS_Store": b"x",
             "a/.ipynb_checkpoints/b-checkpoint.ipynb": b"x"}  # fmt: skip
    source = zipped(tmp_path / "s.zip", files)
    with zipfile.ZipFile(source) as z:
        z.extractall(tmp_path / "folder")
    assert names(source) == (["a/b.ipynb", "c d.ipynb"], [])
    assert sorted(names(tmp_path / "folder")[0]) == ["a/b.ipynb", "c d.ipynb"]


def test_links_are_not_followed(tmp_path):
    link = zipfile.ZipInfo("a.ipynb")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as z:
        z.writestr(link, "/etc/passwd")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.ipynb").symlink_to("/etc/passwd")
    (tmp_path / "folder" / "b").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "folder" / "c")
    for source in (tmp_path / "s.zip", tmp_path / "folder"):
        with opened(source) as archive:
            for entry in archive.entries:
                with pytest.raises(Unreadable, match="is a link|no plain file"):
                    entry.copy(tmp_path / "out")
    assert sorted(names(tmp_path / "folder")[0]) == ["a.ipynb", "b", "c"] and not (tmp_path / "out").exists()


def test_a_bomb_stops_at_the_limit(tmp_path):
    source = zipped(tmp_path / "s.zip", {"a.ipynb": bytes(FILE + 1), "b.ipynb": bytes(FILE)})
    assert source.stat().st_size < 300_000
    with opened(source) as archive:
        with pytest.raises(Unreadable, match="more than 100 MB"):
            archive.entries[0].copy(tmp_path / "a")
        assert archive.entries[1].copy(tmp_path / "b") == FILE
    assert not (tmp_path / "a").exists()


def test_a_declared_size_is_not_believed(tmp_path):
    """The directory says 5 bytes, the data are a bomb."""
    source = zipped(tmp_path / "s.zip", {"a.ipynb": bytes(FILE * 2)})
    data = source.read_bytes().replace(struct.pack("<L", FILE * 2), struct.pack("<L", 5))
    source.write_bytes(data)
    with opened(source) as archive:
        try:
            assert archive.entries[0].copy(tmp_path / "a") <= 5
        except Unreadable:
            assert not (tmp_path / "a").exists()


def damaged(tmp_path):
    source = zipped(tmp_path / "s.zip", {"a.ipynb": os.urandom(5000)})
    data = bytearray(source.read_bytes())
    data[2000] ^= 255
    source.write_bytes(data)
    return source


def locked(tmp_path):
    """As if a password were needed: the flag in both headers."""
    data = bytearray(zipped(tmp_path / "s.zip", {"a.ipynb": b"1"}).read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "s.zip").write_bytes(data)
    return tmp_path / "s.zip"


def another_method(tmp_path):
    """Deflate64, which Windows uses for large files."""
    data = bytearray(zipped(tmp_path / "s.zip", {"a.ipynb": b"1"}).read_bytes())
    at = data.index(b"PK\x01\x02")
    data[8:10] = data[at + 10 : at + 12] = struct.pack("<H", 9)
    (tmp_path / "s.zip").write_bytes(data)
    return tmp_path / "s.zip"


@pytest.mark.parametrize(
    "make, why", [(damaged, "cannot be read"), (locked, "password"), (another_method, "cannot be read")]
)
def test_one_file_that_cannot_be_read_says_so(make, why, tmp_path):
    with opened(make(tmp_path)) as archive, pytest.raises(Unreadable, match=why):
        archive.entries[0].copy(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_what_is_no_zip(tmp_path, monkeypatch):
    for name, data, said in (("a.7z", b"7z\xbc\xaf\x27\x1c", "is 7z, not zip: unpack it"), ("a.rar", b"Rar!\x1a", "is rar"),
                             ("a.zip", b"PK\x03\x04half", "no whole zip"), ("b.zip", b"", "no whole zip")):  # fmt: skip
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SourceError, match=said), opened(tmp_path / name):
            pass
    with pytest.raises(SourceError, match="cannot be read: no such file"), opened(tmp_path / "none.zip"):
        pass
    monkeypatch.setattr(archives, "MOST", 2)
    many = zipped(tmp_path / "m.zip", dict.fromkeys("abc", b""))
    with pytest.raises(SourceError, match="it holds 3 files"), opened(many):
        pass


@pytest.mark.parametrize("name", ["Zoë_1_assignsubmission_file_.ipynb", "张伟.ipynb"])
def test_names_in_utf_8_without_its_flag(name, tmp_path):
    """What Windows and old tools make; zipfile would read them as those of DOS."""
    data = zipped(tmp_path / "s.zip", {name: b"1"}).read_bytes()
    for at in (6, data.index(b"PK\x01\x02") + 8):
        data = data[: at + 1] + bytes([data[at + 1] & ~8]) + data[at + 2 :]
    (tmp_path / "s.zip").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "s.zip") as z:
        assert z.namelist() != [name]
    assert names(tmp_path / "s.zip") == ([name], [])
    assert copied(tmp_path / "s.zip", tmp_path / "out") == b"1"


def test_long_names_are_read_whole_and_keep_their_end_on_disk(tmp_path):
    long = "张" * 300 + ".ipynb"
    (found,), _ = names(zipped(tmp_path / "s.zip", {long: b"1"}))
    assert found == long
    short = placing.free(tmp_path, (found, found)).relative_to(tmp_path)
    assert all(len(p.encode()) <= 200 and p.endswith("张.ipynb") for p in short.parts)


STAGES = {
    "class list": (class_list.ClassList, "save"),
    "gradebook": (collect, "enter"),
    "files": (collect, "_take"),
    "placing": (placing.Folder, "place"),
}


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
@pytest.mark.parametrize("stage", STAGES)
def test_a_disk_that_fills(stage, what, disk, tmp_path, monkeypatch, capsys):  # noqa: F811
    shutil.copytree(what.root, disk / "course")
    course = dataclasses.replace(what, scratch=disk / "course")
    monkeypatch.setattr(collect, "Class", lambda topic: course)
    given, first = canvas_list(tmp_path), zipped(tmp_path / "1.zip", {canvas_name(ADA, "exercises.ipynb"): A})
    assert collect.main([TOPIC, "--from", str(first), "--class", str(given)]) == 0
    files = {canvas_name(ADA, "exercises.ipynb"): B * 100, canvas_name(BOB, "exercises.ipynb"): B * 100}
    argv = [TOPIC, "--from", str(zipped(tmp_path / "2.zip", files))]
    capsys.readouterr()
    holder, name = STAGES[stage]
    real = getattr(holder, name)

    def late(*args, **kwargs):
        fill(disk)
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(holder, name, late)
        status = collect.main(argv)
    said = capsys.readouterr()
    assert (status, said.err.splitlines(), said.out) == (1, [FULL], "")
    assert A in [p.read_bytes() for p in course.root.rglob("*.ipynb")]
    os.remove(disk / "filler")
    assert collect.main(argv) == 0
    assert lies(course, "ada") == lies(course, "bob") == {"exercises.ipynb": B * 100}
    assert class_list.saved(course.root, TOPIC)[0].students
