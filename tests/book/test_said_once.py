"""Where results come from is said once a page."""

from tests.book.conftest import extension

said_once = extension("said_once")


def test_chapter_2_says_it_once(site):
    page = (site / "book/ch02_sharding.html").read_text(encoding="utf-8")
    assert page.count("<p>Stored: compiled on") == 1 and page.count(said_once.AGAIN) > 3
