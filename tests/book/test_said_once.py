"""Where results come from is said once a page."""

import doctest
import importlib.util

from tests.book.conftest import ROOT

spec = importlib.util.spec_from_file_location("said_once", ROOT / "book/_ext/said_once.py")
said_once = importlib.util.module_from_spec(spec)
spec.loader.exec_module(said_once)


def test_doctests():
    assert doctest.testmod(said_once).failed == 0


def test_chapter_2_says_it_once(site):
    page = (site / "book/ch02_sharding.html").read_text(encoding="utf-8")
    assert page.count("<p>Stored: compiled on") == 1 and page.count(said_once.AGAIN) > 3
