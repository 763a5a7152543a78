"""The weight of pages: counted right on a small site, bounded on ours."""

import gzip
import json

from tools import weight

# KB with all a page names, 15 % over the heaviest of its kind: chapters, exercises, the page that searches with all prose of the
# book beside it, everything else
BOUNDS = {"book/ch": 259, "notebooks/": 126, "search": 345, "": 170}


def test_a_file_named_twice_counts_once_and_other_hosts_count_nothing(tmp_path):
    (tmp_path / "a.js").write_text("x" * 5000)
    (tmp_path / "a.png").write_bytes(b"\x89PNG" + bytes(996))
    script, picture = '<script src="a.js?v=1"></script>', '<img alt="dark" src="a.png">'
    text = f'<html>{script}{script}{picture}<img alt="far" src="https://example.org/b.png"></html>'
    (tmp_path / "page.html").write_text(text)
    packed = sum(len(gzip.compress(t.encode(), 6, mtime=0)) for t in (text, "x" * 5000))
    assert weight.report(tmp_path, tmp_path / "out/weight.json") == {"page.html": packed + 1000}
    assert json.loads((tmp_path / "out/weight.json").read_text()) == {"page.html": packed + 1000}


def test_no_page_is_heavier_than_its_kind_may_be(site):
    found = weight.report(site, site.parent / "reports/weight.json")
    bound = {name: next(b for start, b in BOUNDS.items() if name.startswith(start)) for name in found}
    assert {name: size for name, size in found.items() if size > 1000 * bound[name]} == {}
