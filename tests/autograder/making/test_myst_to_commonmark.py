"""Every role and directive of the dialect in the notebooks' dialect, a core's list of its pages, and addresses of what moved."""

import json

import pytest

from autograder.making.further_down import anchors, expanded
from autograder.making.links import Links
from autograder.making.myst_to_commonmark import lint, plain, translate
from autograder.places import SourceError

HERE = "notebooks/ch01_sample/reading.ipynb"


@pytest.fixture
def links() -> Links:
    made = Links(cited={"austin2025": ("Austin et al. 2025", "https://example.org/")})
    made.add(
        HERE,
        "# Reading\n\n(sec-a)=\n## A section\n\n```{math}\n:label: eq-a\nx\n```\n\n```{math}\n:label: eq-b\ny\n```\n",
    )
    made.add("notebooks/ch01_sample/exercises.ipynb", "# Exercises\n\n(ex-1-1)=\n### Exercise 1.1 — One\n")
    made.add("book/notation.md", "# Notation\n")
    return made


@pytest.mark.parametrize(("source", "expected"), [
    ("(sec-a)=\n## A section", '<a id="sec-a"></a>\n\n## A section'),
    ("See {ref}`sec-a`.", "See [A section](#sec-a)."),
    ("See {ref}`this one <ex-1-1>`.", "See [this one](exercises.ipynb#ex-1-1)."),
    ("By {eq}`eq-b`,", "By [(2)](#eq-b),"),
    ("{doc}`notation`", "[Notation](../../book/notation.md)"),
    ("{doc}`do <../notebooks/ch01_sample/exercises>`", "[do](exercises.ipynb)"),
    ("{cite}`austin2025`", "[Austin et al. 2025](https://example.org/)"),
    ("```{math}\n:label: eq-b\ny\n```", '<a id="eq-b"></a>\n\n$$\ny\n\\tag{2}\n$$'),
    ("```{math}\ny\n```", "$$\ny\n$$"),
    (":::{note}\nA\n:::", "> **Note**\n>\n> A"),
    (":::{admonition} A `b`\n:class: tip\nC\n\nD\n:::", "> **A `b`**\n>\n> C\n>\n> D"),
    (":::{dropdown} `a` < b?\nC\n:::", "<details><summary><code>a</code> &lt; b?</summary>\n\nC\n\n</details>"),
    ("% for authors\ntext", "text"),
    ("`{eq}` and `` {ref}`x` `` stay", "`{eq}` and `` {ref}`x` `` stay"),
    ("```python\n% not a comment\n(x)=\n```", "```python\n% not a comment\n(x)=\n```"),
    ("| a | b |\n|---|---|\n| $x$ | {eq}`eq-a` |", "| a | b |\n|---|---|\n| $x$ | [(1)](#eq-a) |"),
])  # fmt: skip
def test_translation(links, source, expected):
    assert translate(source, links, HERE) == expected


def test_boxes_nest(links):
    text = "::::{tip}\n:::{dropdown} Why?\nSo.\n:::\n::::"
    assert translate(text, links, HERE) == "> **Tip**\n>\n> <details><summary>Why?</summary>\n>\n> So.\n>\n> </details>"


@pytest.mark.parametrize(("source", "said"), [
    ("a\n\n:::{figure} x.png\n:::", "f.md:3: the directive {figure}"),
    ("```{tableofcontents}\n```", "f.md:1: the directive {tableofcontents}"),
    ("text\n{term}`x`", "f.md:2: the role {term}"),
])  # fmt: skip
def test_unknown_is_named_with_its_line(source, said):
    with pytest.raises(SourceError) as error:
        lint(source, "f.md")
    assert said in str(error.value)


def test_code_may_hold_anything():
    lint(
        '```{code-cell} ipython3\nprint(":::{figure}", "{term}`x`")\n:::{figure}\n```\n`{term}` and `` {term}`x` ``',
        "f.md",
    )


@pytest.mark.parametrize("source", ["{ref}`nowhere`", "{eq}`eq-z`", "{doc}`nothing`", "{cite}`nobody1999`"])
def test_link_to_nothing(links, source):
    with pytest.raises(SourceError, match="nowhere|eq-z|nothing|nobody1999"):
        translate(source, links, HERE)


def test_block_must_end(links):
    with pytest.raises(SourceError, match="no closing :::"):
        translate(":::{note}\nnever", links, HERE)


def test_label_stands_once(links):
    with pytest.raises(SourceError, match="sec-a"):
        links.add("book/other.md", "(sec-a)=\n# Other\n")


def test_plain_text():
    assert plain(r"**At** $B \le 10$, `f` is [here](x.md): $\frac{a}{b}$.") == r"At B ≤ 10, f is here: \frac{a}{b}."


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
