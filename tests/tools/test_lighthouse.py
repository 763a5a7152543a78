"""The server that Lighthouse asks: what a page weighs on the wire is what `weight` says."""

import gzip
import urllib.error
import urllib.request

import pytest

from tools.lighthouse import heaviest, main, served


def test_the_server_compresses_text_and_nothing_else(tmp_path):
    (tmp_path / "a.html").write_text("<p>one</p>" * 100)
    (tmp_path / "b.png").write_bytes(bytes(100))
    with served(tmp_path) as at:
        with urllib.request.urlopen(f"{at}/a.html") as page:
            assert page.headers["Content-Encoding"] == "gzip" and page.headers["Content-Type"] == "text/html"
            assert gzip.decompress(page.read()).decode() == "<p>one</p>" * 100
        with urllib.request.urlopen(f"{at}/b.png") as picture:
            assert picture.headers["Content-Encoding"] is None and picture.read() == bytes(100)
        with pytest.raises(urllib.error.HTTPError) as gone:
            urllib.request.urlopen(f"{at}/gone.html")
        gone.value.close()


def test_the_heaviest_chapter(tmp_path):
    (tmp_path / "book").mkdir()
    for name, text in {"ch01": "x", "ch02": "xyz" * 50, "intro": "abcdef" * 100}.items():
        (tmp_path / f"book/{name}.html").write_text(f"<html>{text}</html>")
    assert heaviest(tmp_path) == "book/ch02.html"


def test_it_says_how_it_is_called(capsys):
    assert main([]) == 2 and main(["/nowhere"]) == 2
    assert "usage" in capsys.readouterr().out
