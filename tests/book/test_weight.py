"""The weight of pages: counted right on a small site, bounded on ours."""

from tools import weight

# KB with all a page names, 15 % over the heaviest of its kind: chapters, exercises, the page that searches with all prose of the
# book beside it, everything else
BOUNDS = {"book/ch": 259, "notebooks/": 126, "search": 345, "": 170}


def test_no_page_is_heavier_than_its_kind_may_be(site):
    found = weight.report(site, site.parent / "reports/weight.json")
    bound = {name: next(b for start, b in BOUNDS.items() if name.startswith(start)) for name in found}
    assert {name: size for name, size in found.items() if size > 1000 * bound[name]} == {}
