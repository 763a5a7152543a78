"""Sphinx extension: what axe-core rejects in the HTML of Sphinx, the bibliography and the theme's contents.

On five pages, in two sizes and both schemes, these are hundreds of findings of axe-core that are not there: names of
buttons in the book's contents, roles of the bibliography; the rest is headings of tables.  It costs no byte.  What a release of the
theme may change is `generate_toctree_html`, of pydata-sphinx-theme: without it a build stops, and with other HTML than `<summary>`
test_accessible_html fails.
"""

import re

# (what is written, what should stand there)
REPAIRS = [
    (r'<th class="[^"]*head[^"]*">(?:<p></p>)?</th>', "<td></td>"),  # the corner of a table heads nothing
    (
        r'<th class="([^"]*head[^"]*)">(<p>(<math>(?:(?!</math>).)*</math>)</p></th>)',
        lambda m: _spoken(*m.groups()),
    ),
    (r' role="(?:doc-biblioentry|list)"', ""),  # one is deprecated, the other holds what a list may not
]
REPAIRS = [(re.compile(pattern, re.DOTALL), new) for pattern, new in REPAIRS]


def _spoken(classes: str, after: str, formula: str) -> str:
    """A table heading that is a formula and nothing else, with words for it: α hbm. (axe-core counts no label there.)"""
    words = " ".join(re.sub(r"<[^>]*>", " ", formula).split())
    return f'<th class="{classes}"><span class="visually-hidden">{words}</span>{after}'


def repaired(body: str) -> str:
    """The body of a page as assistive technology can read it.

    >>> repaired('<th class="head"><p><math><mi>α</mi></math></p></th>')
    '<th class="head"><span class="visually-hidden">α</span><p><math><mi>α</mi></math></p></th>'
    """
    for pattern, new in REPAIRS:
        body = pattern.sub(new, body)
    return body


def add(app, page, template, context, doctree) -> None:
    """Repair one page, and name the buttons that open a chapter's pages in the contents of the book."""
    if "body" in context:
        context["body"] = repaired(context["body"])
    contents = context["generate_toctree_html"]
    context["generate_toctree_html"] = lambda *kind, **how: str(contents(*kind, **how)).replace(
        "<summary>", '<summary aria-label="Pages of this chapter">'
    )


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
