"""Sphinx extension: a figure is a file of the site, and a tap on it shows it as large as it is.

A wide figure has letters of 4 to 5 pixels on a phone.  The link leads to the file; with JavaScript page.js opens it above the page.
A cell gives its figure as base64 text in the page; as a file it weighs a third less, chapter 6 20 KB, and its room is kept by its
width and height.  Nothing of the theme matters to it; what a cell gives is `helpers.plot.picture`'s and matplotlib's.
"""

import base64
import hashlib
import re
from pathlib import Path

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
    """Link the figures of one page."""
    if "body" in context and app.builder.format == "html":
        root = "../" * page.count("/") + "_images/"
        context["body"] = enlargeable(context["body"], root, Path(app.outdir) / "_images")


def setup(app) -> dict:
    app.connect("html-page-context", add, priority=906)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
