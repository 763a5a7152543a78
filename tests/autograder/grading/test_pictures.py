"""Pictures in a submission: real ones are taken under names of ours, up to a limit; of all others a note says why not."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output

from autograder import course
from autograder.grading import intake, pictures
from autograder.grading.nbgrader_steps import safe_markdown
from autograder.grading.rebuild import rebuild


class Attributes(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self):
        super().__init__()
        self.found, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.found += [(k, v or "") for k, v in attrs]


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", b"\0\0\0\1\0\0\0\1\x08\0\0\0\0")
    + chunk(b"IDAT", zlib.compress(b"\0\0"))
    + chunk(b"IEND", b"")
)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
KINDS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0" + b"j" * 40,
    "image/gif": b"GIF89a" + b"g" * 40,
    "image/webp": b"RIFF\x10\0\0\0WEBPVP8 " + b"w" * 40,
    "image/svg+xml": b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- by hand -->\n" + SVG,
}


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def attached(text: str, **named) -> dict:
    """A cell with these attachments; a name has dots for underscores."""
    held = {k.replace("_", "."): v for k, v in named.items()}
    return {"cell_type": "markdown", "metadata": {}, "source": text, "attachments": held}


def taken(*cells: dict) -> list[intake.Cell]:
    return intake.cells({"cells": list(cells)})


def submitted(released, **changes) -> dict:
    """The release with other keys in cell ch01-q03."""
    nb = json.loads(nbformat.writes(released))
    next(c for c in nb["cells"] if c["id"] == "ch01-q03").update(changes)
    return nb


def page(nb) -> str:
    """As the Formgrader shows it."""
    return HTMLExporter(config=course.config(), template_name="basic").from_notebook_node(nb)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("declared", ["image/png", "text/html", "image/svg+xml"])
def test_the_first_bytes_decide(kind, declared):
    [cell] = taken(attached("![x](attachment:a.png)", a_png={declared: b64(KINDS[kind])}))
    [(name, held)] = cell.pictures.items()
    assert held == {kind: b64(KINDS[kind])} and pictures.NAME.fullmatch(name)
    assert cell.text == f"![x](attachment:{name})" and cell.left_out == ()


@pytest.mark.parametrize(("held", "said"), [
    ({"image/svg+xml": b64(b"<!DOCTYPE svg [<!ENTITY a 'lol'>]>" + SVG)}, "WebP or SVG"),
    ({"image/png": b64(b"<script>alert(1)</script>")}, "it is no PNG"),
    ({"image/png": b64(PNG)[:-3] + "!!!"}, "it is no PNG"),
    ({"image/png": "é" * 40}, "it is no PNG"),
    ({"image/png": "\ud800"}, "it is no PNG"),
    ({"image/png": {"deep": [PNG.hex()]}}, "it is no PNG"),
    ({}, "it is no PNG"), ([], "it is no PNG"), (7, "it is no PNG"),
    ({"image/png": b64(PNG + b"\0" * pictures.LARGEST)}, "at most 4 MB"),
    ({"image/png": "A" * 10_000_000}, "at most 4 MB"),
    (None, "is not in the notebook"),
])  # fmt: skip
def test_others_are_left_out_with_a_word(held, said):
    [cell] = taken(attached("![x](attachment:a.png)", a_png=held))
    assert cell.pictures == {} and len(cell.left_out) == 1 and said in cell.left_out[0]
    assert f"<em>{cell.left_out[0]}</em>" in safe_markdown(cell.text)  # who reads the answer sees it


@pytest.mark.parametrize("attachments", [None, [], "x", 5, {"a.png": None}])
def test_attachments_of_any_shape(attachments):
    cell = attached("![x](attachment:a.png)") | {"attachments": attachments}
    assert taken(cell)[0].pictures == {}


def test_base64_in_lines():
    lines = [b64(PNG)[:20] + "\n", b64(PNG)[20:] + "\n", None]
    assert taken(attached("![](attachment:a.png)", a_png={"image/png": lines}))[0].pictures


@pytest.mark.parametrize(("name", "said"), [
    ("image.png", "![x](attachment:image.png)"),
    ("my picture (1).png", "![x](attachment:my%20picture%20(1).png)"),
    ("my picture.png", "![x](<attachment:my picture.png>)"),
    ("größe.png", "![x](attachment:gr%C3%B6%C3%9Fe.png)"),
    ("a.png", "![x][1]\n\n[1]: attachment:a.png"),
    ("a.png", '<img alt="x" width=200 src="attachment:a.png">'),
    ("a.png", "<img src='attachment:a.png' alt='x' />"),
])  # fmt: skip
def test_names_of_editors(name, said):
    [cell] = taken(attached(said) | {"attachments": {name: {"image/png": b64(PNG)}}})
    assert len(cell.pictures) == 1 and cell.left_out == ()
    assert f'<img src="data:image/png;base64,{b64(PNG)}" alt="x">' in safe_markdown(cell.text, cell.pictures)


def test_colabs_pictures_are_taken_out_of_the_text(released):
    """Colab writes a picture into the text, which is longer than any text that is read."""
    large = PNG + b"\0" * 200_000
    nb = submitted(released, source=f"Latency.\n\n![x](data:image/png;base64,{b64(large)})\n\nAs drawn.")
    made, notes = rebuild(nb, released)
    cell = next(c for c in made.cells if c.id == "ch01-q03")
    assert cell.source == "Latency.\n\n![x](attachment:picture-1.png)\n\nAs drawn." and notes == []
    assert f"data:image/png;base64,{b64(large)}" in page(made)


@pytest.mark.parametrize("times", [1, 1_000])
def test_drawings_are_pictures(times):
    """In the text, as base64 beside it, and as they are."""
    drawn = b64(SVG * times)
    cells = taken(
        attached(f"![x](data:image/svg+xml;base64,{drawn})"),
        attached("![x](attachment:a.svg)", a_svg={"image/svg+xml": drawn}),
        attached("![x](attachment:a.svg)", a_svg={"image/svg+xml": (SVG * times).decode()}),
    )
    for cell in cells:
        assert f'<img src="data:image/svg+xml;base64,{drawn}" alt="x">' in safe_markdown(cell.text, cell.pictures)


@pytest.mark.filterwarnings("default")
def test_written_answers_and_own_cells_show_theirs(released):
    """In the cell for it, in an own cell that stays, and in one whose text is put into the answer."""
    held = {"image.png": {"image/png": b64(PNG)}}
    for filled in ("As drawn. ![x](attachment:image.png)", "YOUR ANSWER HERE"):
        nb = submitted(released, source=filled, attachments=held)
        nb["cells"].append(attached("My own ![y](attachment:image.png)") | {"attachments": held})
        made, _ = rebuild(nb, released)
        nbformat.validate(made)
        shown = Attributes()
        shown.feed(page(made))
        sources = [v for k, v in shown.found if k == "src"]
        assert sources == [f"data:image/png;base64,{b64(PNG)}"] * (2 if "drawn" in filled else 1)


def test_what_the_text_does_not_name_is_not_taken(released):
    held = {"a.png": {"image/png": b64(PNG)}}
    made, notes = rebuild(submitted(released, source="Latency.", attachments=held), released)
    assert not any("attachments" in c for c in made.cells) and notes == []


def test_limits_of_a_submission():
    large = {"a.png": {"image/png": b64(PNG + b"\0" * 3_000_000)}}
    cells = taken(*[attached("![](attachment:a.png)") | {"attachments": large}] * 4)
    assert [len(c.pictures) for c in cells] == [1, 1, 0, 0]
    assert cells[2].left_out == ("Pictures beyond 8 MB in all were left out.",)
    [many] = taken(attached("![](attachment:a.png)\n" * 5_000, a_png={"image/png": b64(PNG)}))
    assert len(many.pictures) == pictures.MOST and many.left_out == ("Pictures beyond 40 were left out.",)
    [named] = taken(attached(" ".join(f"![](attachment:{i}.png)" for i in range(5_000))))
    assert len(named.left_out) == pictures.SAID


def test_thousands_that_are_none(monkeypatch):
    """No more than the limit are decoded, whatever becomes of them."""
    tried = []
    decode = base64.b64decode
    monkeypatch.setattr(base64, "b64decode", lambda *a, **k: tried.append(1) or decode(*a, **k))
    held = {f"{i}.png": {"image/png": "A" * 1000} for i in range(5_000)}
    taken(attached(" ".join(f"![](attachment:{i}.png)" for i in range(5_000))) | {"attachments": held})
    assert len(tried) == pictures.MOST


BREAKING = ['x" onerror="alert(1)', "x'><script>alert(1)</script>", "x.png)](javascript:alert(1)", "../../x.png", "x\n\n<b>",
            "a" * 5_000]  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", BREAKING)
@pytest.mark.parametrize("shape", ["![x](attachment:{})", "![x](<attachment:{}>)", '<img src="attachment:{}">'])
@pytest.mark.sample(quick=5)
def test_names_cannot_break_out(released, name, shape):
    held = {name: {'image/png" onload="alert(2)': b64(PNG)}}
    made, notes = rebuild(submitted(released, source=shape.format(name), attachments=held), released)
    seen = Attributes()
    seen.feed(page(made))
    assert not [k for k, _ in seen.found if k.startswith("on")] and "script" not in seen.tags
    assert all(v.startswith("data:image/png;base64,") for k, v in seen.found if k == "src")
    assert all(re.fullmatch(r"[\w .()?,:-]{,200}", n) for n in notes)


@pytest.mark.filterwarnings("default")
def test_a_polyglot_is_a_picture_or_nothing(released):
    """A GIF that is a program as well is shown as a GIF, which runs nothing."""
    both = b"GIF89a/*" + b"\0" * 20 + b"*/=1;alert(1)//<script>alert(2)</script>"
    held = {"a": {"text/html": b64(both)}}
    made, _ = rebuild(submitted(released, source="![x](attachment:a)", attachments=held), released)
    seen = Attributes()
    seen.feed(page(made))
    assert [v for k, v in seen.found if k == "src"] == [f"data:image/gif;base64,{b64(both)}"]
    assert "script" not in seen.tags


def test_text_cannot_multiply_a_picture():
    """What a student writes in place of our names is shown once at most."""
    held = {"picture-1.png": {"image/png": b64(PNG)}}
    text = "![](attachment-picture-1.png)\n" * 300
    assert safe_markdown(text, held).count("base64") == 1
    assert safe_markdown(text, {"picture-1.png": {"text/html": b64(PNG)}}).count("base64") == 0
    assert safe_markdown(text, {"picture-1.png": {"image/png": '" onload="x'}}).count("onload") == 0


@pytest.mark.filterwarnings("default")
def test_outputs_have_no_attachments():
    cell = new_code_cell("", outputs=[new_output("display_data", {"text/markdown": "![x](attachment:picture-1.png)"})])
    assert '<img alt="x"' in page(new_notebook(cells=[cell]))


@pytest.mark.parametrize("hostile", ["attachment:(" * 9_000, "<img " * 20_000, '<img src="' * 9_000, "<img src=attachment:" * 5_000,
                                     "data:image/" * 9_000, "<attachment:" * 9_000], ids=lambda s: s[:12])  # fmt: skip
def test_hostile_references_end(hostile):
    """Every pattern passes over a text once; a test that hangs fails by its limit."""
    [cell] = taken(attached(hostile * 20))
    assert cell.pictures == {}
