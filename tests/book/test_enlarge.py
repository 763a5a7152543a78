"""Figures are files that the page links to."""

import base64
import re

from tests.book.conftest import extension

enlarge = extension("enlarge")

SVG = b'<svg width="300pt" height="150pt"><text>x</text></svg>'
CELL = f'<figure><img alt="What to see" src="data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"></figure>'


def test_a_figure_of_a_cell_becomes_a_file_once_and_keeps_its_room(tmp_path):
    body = enlarge.enlargeable(CELL + CELL, "../_images/", tmp_path / "_images")
    (file,) = (tmp_path / "_images").iterdir()
    assert file.read_bytes() == SVG and body.count(f'<a class="enlarge" href="../_images/{file.name}"><img') == 2
    assert 'alt="What to see"' in body and 'width="400" height="200"' in body and "base64" not in body


def test_an_image_in_a_link_and_one_from_elsewhere_stay_as_they_are(tmp_path):
    body = '<a href="x.html"><img alt="a" src="../_images/a.png"></a><img alt="b" src="../_static/b.png">'
    assert enlarge.enlargeable(body, "../_images/", tmp_path) == body
    assert enlarge.enlargeable('<img alt="a" src="../_images/a.png">', "../_images/", tmp_path).startswith("<a class")


def test_every_figure_of_the_site_can_be_enlarged(site):
    pages = [p.read_text(encoding="utf-8") for p in site.glob("book/*.html")]
    figures = [image for page in pages for image in re.findall(r'<figure class="picture">.{0,60}', page)]
    assert len(figures) > 30 and all('<a class="enlarge" href="../_images/' in f for f in figures)
    named = {name for page in pages for name in re.findall(r'class="enlarge" href="../_images/([^"]+)', page)}
    assert named <= {path.name for path in (site / "_images").iterdir()}
