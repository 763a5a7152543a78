"""Sphinx extension: formulas are MathML, written when the book is built; no script sets them in the browser.

A page shows its formulas at once, without JavaScript, to a screen reader as to the eye.  Every browser since 2023 draws
MathML.  A good font for it is not on every phone, so the part of STIX Two Math that the book uses lies beside the pages.
"""

import re
import xml.etree.ElementTree as ET
from html import unescape
from importlib.metadata import distribution
from pathlib import Path

from docutils.nodes import SkipNode
from fontTools import subset
from latex2mathml.converter import convert
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

FONT = "stix-two-math.woff"
ALWAYS = "0123456789()[]{}|√∑∏"
BOXES = {"aligned": "split", "split": "split", "gathered": "matrix", "matrix": "matrix", "cases": "cases"}
PARTS = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
logger = logging.getLogger(__name__)


class BadFormula(ValueError):
    """A formula that cannot be written as MathML."""


def markup(tex: str, display: bool = False) -> str:
    r"""A formula as MathML.

    >>> markup(r"X_2 \ge 1")
    '<math><mrow><msub><mi>X</mi><mn>2</mn></msub><mo>≥</mo><mn>1</mn></mrow></math>'
    >>> markup(r"\nosuch{x}")
    Traceback (most recent call last):
    ...
    mathml.BadFormula: no MathML is known for \nosuch in: \nosuch{x}
    """
    try:
        found = convert(boxes(tex), display="block" if display else "inline")
    except Exception as e:  # its errors share no class
        raise BadFormula(f"{type(e).__name__} in: {tex}") from e
    found = re.sub(r"&#x([0-9A-Fa-f]+);", lambda m: _character(int(m[1], 16)), found)
    found = found.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "").replace(' display="inline"', "")
    if wrong := fault(found):
        raise BadFormula(f"{wrong} in: {tex}")
    return found


def _character(code: int) -> str:
    """A character as itself, but for those that markup needs."""
    return f"&#{code};" if chr(code) in "<>&" else chr(code)


def fault(formula: str) -> str | None:
    r"""What is wrong with MathML that was written for a formula: the converter passes over what it does not know.

    >>> fault(r"<math><mi>\nosuch</mi></math>"), fault("<math><mfrac><mn>1</mn></mfrac></math>")
    ('no MathML is known for \\nosuch', 'mfrac has 1 part, not 2')
    """
    if unknown := re.search(r"\\\w+|\\", formula):
        return f"no MathML is known for {unknown[0]}"
    try:
        tree = ET.fromstring(formula)
    except ET.ParseError:
        return "a column mark outside a table"
    for node in tree.iter():
        if (want := PARTS.get(node.tag, len(node))) != len(node):
            return f"{node.tag} has {len(node)} part{'s' * (len(node) != 1)}, not {want}"
    return None


def boxes(tex: str) -> str:
    r"""The formula with the converter's names for boxes of lines; a box that it does not know is refused.

    >>> boxes(r"\begin{aligned}a &= b\end{aligned}")
    '\\begin{split}a &= b\\end{split}'
    """
    for name in set(re.findall(r"\\begin\{(\w+\*?)\}", tex)):
        if name not in BOXES:
            raise BadFormula(f"no MathML is known for a box {name}, only for {', '.join(BOXES)}, in: {tex}")
        tex = tex.replace(f"\\begin{{{name}}}", f"\\begin{{{BOXES[name]}}}").replace(
            f"\\end{{{name}}}", f"\\end{{{BOXES[name]}}}"
        )
    return tex


def rows(tex: str) -> str:
    r"""Lines of a displayed formula without a box of their own get one.

    >>> rows(r"a \\ b"), rows("a")
    ('\\begin{aligned}a \\\\ b\\end{aligned}', 'a')
    """
    boxed = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", tex, flags=re.DOTALL)
    return rf"\begin{{aligned}}{tex}\end{{aligned}}" if r"\\" in boxed else tex


def _written(translator, node, display: bool) -> str:
    tex = node.astext().strip()
    try:
        return markup(rows(tex) if display else tex, display)
    except BadFormula as e:
        logger.warning("%s", e, location=node)
        return f"<code>{translator.encode(tex)}</code>"


def inline(translator, node) -> None:
    """A formula in a line."""
    translator.body.append(_written(translator, node, False))
    raise SkipNode


def displayed(translator, node) -> None:
    """A formula on lines of its own, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, _("Link to this equation"))
        translator.body.append("</span>")
    translator.body.append(_written(translator, node, True) + "</div>")
    raise SkipNode


def drawn(formula: str) -> set[str]:
    """Characters that a browser draws for a formula: a letter alone is slanted.

    >>> sorted(drawn("<mi>x</mi><mo>+</mo><mi>h</mi><mi>max</mi>"))
    ['+', 'a', 'h', 'm', 'x', 'ℎ', '𝑥']
    """
    found = set(unescape(re.sub(r"<[^>]*>", "", formula)))
    return found | {_slanted(letter) for letter in re.findall(r"<mi>(.)</mi>", formula)}


def _slanted(letter: str) -> str:
    """A letter as mathematics slants it; Unicode put one of them elsewhere."""
    for first, last, to in (("A", "Z", 0x1D434), ("a", "z", 0x1D44E), ("Α", "Ω", 0x1D6E2), ("α", "ω", 0x1D6FC)):
        if first <= letter <= last:
            return "ℎ" if letter == "h" else chr(to + ord(letter) - ord(first))
    return {"∂": "𝜕", "ϵ": "𝜖", "ϕ": "𝜙"}.get(letter, letter)


def font(characters: set[str], to: Path) -> None:
    """Write the part of STIX Two Math that draws these characters at every size."""
    source = Path(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf"))
    options = subset.Options(flavor="woff", hinting=False, layout_features=["ssty", "dtls", "flac"], name_IDs=["*"])
    loaded = subset.load_font(str(source), options)
    cut = subset.Subsetter(options)
    cut.populate(text="".join(sorted(characters)))
    cut.subset(loaded)
    subset.save_font(loaded, str(to), options)
    loaded.close()


def finish(app, error) -> None:
    """Cut the font to what the pages of this site draw."""
    if error or app.builder.format != "html":
        return
    characters = set(ALWAYS)
    for page in Path(app.outdir).rglob("*.html"):
        for formula in re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), re.DOTALL):
            characters |= drawn(formula)
    font(characters, Path(app.outdir) / "_static" / FONT)


def setup(app) -> dict:
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.connect("build-finished", finish, priority=920)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
