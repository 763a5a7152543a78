"""Sphinx extension: what a page says otherwise than Sphinx and its cells have written it.

`repaired`, for no byte, saves hundreds of findings of axe-core: names of buttons in the book's contents, roles of the bibliography,
headings of tables.  `enlargeable`: a figure is a file of the site, which a tap shows as large as it is; on a phone a wide figure has
letters of 4 to 5 pixels.  A cell gives it as base64 text; a file weighs a third less, chapter 6 20 KB, and keeps its room.
Of the theme `generate_toctree_html` matters: without it a build stops, with other HTML than `<summary>` test_accessible_html fails.
"""

import base64
import hashlib
import re
from pathlib import Path

# (what is written, what should stand there)
REPAIRS = (
    (r'<th class="[^"]*head[^"]*">(?:<p></p>)?</th>', "<td></td>"),  # the corner of a table heads nothing
    (r'<th class="([^"]*head[^"]*)">(<p>(<math>(?:(?!</math>).)*</math>)</p></th>)', lambda m: _spoken(*m.groups())),
    (r' role="(?:doc-biblioentry|list)"', ""),  # one is deprecated, the other holds what a list may not
)


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
        body = re.sub(pattern, new, body, flags=re.DOTALL)
    return body


IMAGE = re.compile(r"(<a\b[^>]*>\s*|)(<img\b[^>]*>)")  # one in a link keeps its link
DATA = re.compile(r'src="data:image/svg\+xml;base64,([^"]+)"')
SIZE = re.compile(rb'<svg\b[^>]*?\swidth="([\d.]+)(pt|px)?" height="([\d.]+)')


def size(svg: bytes) -> tuple[int, int]:
    """Width and height of a drawing in pixels.

    >>> size(b'<svg width="300pt" height="150pt" viewBox="0 0 300 150">'), size(b'<svg class="x" width="640" height="200">')
    ((400, 200), (640, 200))
    """
    width, unit, height = SIZE.search(svg).groups()
    scale = 4 / 3 if unit == b"pt" else 1
    return round(float(width) * scale), round(float(height) * scale)


def enlargeable(body: str, root: str, images: Path) -> str:
    """The body of a page whose figures are links to files under `images`, which lies at `root`."""

    def linked(match):
        image = match[2]
        if data := DATA.search(image):
            svg = base64.b64decode(data[1])
            name = f"{hashlib.sha256(svg).hexdigest()[:12]}.svg"
            images.mkdir(parents=True, exist_ok=True)
            (images / name).write_bytes(svg)
            image = image.replace(data[0], 'src="{}{}" width="{}" height="{}"'.format(root, name, *size(svg)))
        source = re.search(rf'src="({re.escape(root)}[^"]+)"', image)
        return f'<a class="enlarge" href="{source[1]}">{image}</a>' if source and not match[1] else f"{match[1]}{image}"

    return IMAGE.sub(linked, body)


def add(app, page, template, context, doctree) -> None:
    """One page; and the buttons that open a chapter's pages in the contents of the book get a name."""
    if "body" in context and app.builder.format == "html":
        root = "../" * page.count("/") + "_images/"
        context["body"] = enlargeable(repaired(context["body"]), root, Path(app.outdir) / "_images")
    contents, named = context["generate_toctree_html"], '<summary aria-label="Pages of this chapter">'
    context["generate_toctree_html"] = lambda *kind, **how: str(contents(*kind, **how)).replace("<summary>", named)


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=906)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
