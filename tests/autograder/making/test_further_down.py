"""A core's list of its pages, and addresses of what moved: on the site and in the notebook, from the same source."""

import json

import pytest

from autograder.making.further_down import anchors, expanded
from autograder.places import SourceError

CORE = """(ch-a)=
# A chapter

(sec-one)=
(sec-two)=
## One time

```{math}
:label: eq-one
x
```

## Further down

```{further}
rings: how a ring turns.
```
"""
PAGE = "(sec-ch01-rings)=\n# Further down: rings\n\n(sec-ring)=\n## A ring\n\n```{math}\n:label: eq-ring\ny\n```\n"
KNOWN = {
    "ch-a": ["a-chapter"],
    "sec-one": ["two-times", "equation-eq-one", "equation-eq-gone"],
    "sec-two": ["one-time"],
    "sec-ring": ["a-ring", "equation-eq-ring", "live-ring"],
}


@pytest.fixture
def core(tmp_path):
    """The path of a core with one page further down and addresses from before."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/addresses.json").write_text(json.dumps({"ch01_a": KNOWN}), encoding="utf-8")
    (tmp_path / "ch01_a_rings.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "ch01_a.md"


def test_every_page_has_a_line_that_carries_what_moved_there(core):
    entry = (
        '* <span id="sec-ring"></span><span id="a-ring"></span><span id="equation-eq-ring"></span><span id="live-ring"></span>'
        "{doc}`Rings <ch01_a_rings>`: how a ring turns. ({ref}`sec-ring`)"
    )
    assert entry in expanded(core, CORE).split("\n")
    own = '* <a id="sec-ring"></a><a id="eq-ring"></a>{doc}`Rings <ch01_a_rings>`: how a ring turns. ({ref}`sec-ring`)'
    assert own in expanded(core, CORE, notebook=True).split("\n")


def test_a_heading_that_is_called_otherwise_keeps_its_address(core):
    put = '<span id="two-times"></span><span id="equation-eq-gone"></span>'
    assert f"## One time\n\n{put}\n" in expanded(core, CORE)
    assert '## One time\n\n<a id="eq-gone"></a>\n' in expanded(core, CORE, notebook=True)


def test_every_address_is_there_once(core):
    site, book = expanded(core, CORE), expanded(core, CORE, notebook=True)
    for i in (i for label, ids in KNOWN.items() for i in (label, *ids)):
        assert (i in anchors(site)) + site.count(f'id="{i}"') == 1
        if i.startswith(("sec-", "ch-", "equation-")):
            assert (i in anchors(book)) + book.count(f'<a id="{i.removeprefix("equation-")}"') == 1


def test_other_sources_stay_as_they_are(core):
    assert expanded(core.parent / "ch01_a_rings.md", PAGE) == PAGE


@pytest.mark.parametrize(("text", "says"), [
    (CORE.replace("(sec-two)=\n", ""), 'An address of the course, "sec-two", leads nowhere'),
    (CORE.replace("rings: ", "ring: "), r"lists \['ring'\] further down, and there is \['rings'\]"),
    (CORE.replace("rings: how a ring turns.", "Rings"), '"Rings" is no line such as'),
])  # fmt: skip
def test_what_leads_nowhere_is_refused(core, text, says):
    with pytest.raises(SourceError, match=says):
        expanded(core, text)
