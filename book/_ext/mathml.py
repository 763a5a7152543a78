"""Sphinx extension: formulas are MathML, written when the book is built; no script sets them in the browser.

A page shows its formulas at once, without JavaScript, to a screen reader as to the eye: chapter 4 weighs 225 KB with them, 490 KB with
MathJax from the same host.  Every browser since 2023 draws MathML; the part of STIX Two Math that the book uses lies beside the pages.
Sphinx has no renderer of this kind, and Docutils' converter knows 493 of the book's 511 formulas.  Nothing of the theme matters to it;
a release of latex2mathml may write another tree, which test_mathml compares.
"""

import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from importlib.metadata import distribution
from pathlib import Path

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from style_sheet import cut_font

FONT = "stix-two-math.woff"
ALWAYS = "0123456789()[]{}|√∑∏"
BOXES = {"aligned": "split", "split": "split", "gathered": "matrix", "cases": "cases"}
FUNCTIONS = {"exp", "lim", "ln", "log", "max", "min"}
SPACED = {"mi", "mn", "mfrac", "msub", "msup"}  # what stands off from the function before it; a bracket does not
SIGNS = {"∞": "mi", "…": "mi", "⟺": "mo", "≔": "mo"}
PARTS = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
LONG = 17  # em: what a phone of 360 pixels has room for, with some to spare
RELATIONS, ADDED = "=≤≥<>≈∝→⟶←⟺≔", "+−·"
OPENING, CLOSING = set("([{"), set(")]}")
# A formula in a line, and what touches it.
WHOLE = re.compile(r"([(\[“]?)<math>(?:(?!</math>).)*</math>([.,;:?!)\]”%’]+|-\w+)?")
ITALIC = [chr(c) for c in (0x210E, *range(0x1D434, 0x1D455), *range(0x1D456, 0x1D468), *range(0x1D6E2, 0x1D71C))]
SLANTED = {chr(int(unicodedata.decomposition(letter).split()[1], 16)): letter for letter in ITALIC}
"""Letters as mathematics slants them, Latin and Greek; Unicode put the h elsewhere."""
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
    tex_of_lines = boxes(tex)
    try:
        written = convert(tex_of_lines, display="block" if display else "inline")
        written = written.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "").replace(' display="inline"', "")
        tree = ET.fromstring(written)
    except ET.ParseError:
        raise BadFormula(f"a column mark outside a table in: {tex}") from None
    except Exception as e:  # the converter's errors share no class
        raise BadFormula(f"{type(e).__name__} in: {tex}") from e
    for node in tree.iter():  # the converter passes over what it does not know
        if "\\" in (node.text or ""):
            raise BadFormula(f"no MathML is known for {node.text} in: {tex}")
        if (want := PARTS.get(node.tag, len(node))) != len(node):
            raise BadFormula(f"{node.tag} has {len(node)} part{'s' * (len(node) != 1)}, not {want} in: {tex}")
    for node in reversed(list(tree.iter())):  # parts before what holds them
        _mend(node)
    return ET.tostring(tree, encoding="unicode").replace(" />", "/>")


def _mend(node: ET.Element) -> None:
    r"""Change in place what browsers do not draw as TeX does: they know the part of MathML that is called Core.

    A browser puts space on both sides of whatever is marked as a sign, so a number or a function may not be one.

    >>> markup(r"-\infty"), markup(r"\max x")
    ('<math><mrow><mo>−</mo><mi>∞</mi></mrow></math>', '<math><mrow><mi>max</mi><mspace width="0.167em"/><mi>x</mi></mrow></math>')
    """
    if node.tag in ("mi", "mo"):
        node.tag = "mi" if node.text in FUNCTIONS else SIGNS.get(node.text, node.tag)
    elif node.tag == "mover" and node[1].tag == "mpadded":  # Chromium does not stretch an arrow over its label
        node[:] = [ET.Element("mo"), node[1][0]]
        node[0].text = "⟶"
    elif node.tag == "msub" and node[0].text == "lim":
        node.tag = "munder"
    elif node.tag == "mtable" and not node[0][0].attrib:  # gathered lines are as large as aligned ones
        node.set("displaystyle", "true")
    for before, sign in zip(node, node[1:], strict=False):  # after another sign it is a number's own
        if (before.tag, sign.tag) == ("mo", "mo") and sign.text in "+−" and before.text not in ")]}|":
            sign.set("form", "prefix")
    bars = [child for child in node if child.tag == "mo" and child.text == "|"]
    for i, bar in enumerate(bars):
        bar.attrib = {"stretchy": "false", "form": "postfix" if i % 2 else "prefix"}
    for i, child in reversed(list(enumerate(node))):
        if child.tag == "mspace" and child.get("width", "").startswith("negative"):  # none is drawn
            node.remove(child)
        elif node.tag == "mrow" and _function(child) and i + 1 < len(node) and node[i + 1].tag in SPACED:
            node.insert(i + 1, ET.Element("mspace", width="0.167em"))


def _function(node: ET.Element) -> bool:
    """Whether it is a function's name, with or without an index."""
    return (node[0] if node.tag in ("msub", "munder") else node).text in FUNCTIONS


def boxes(tex: str) -> str:
    r"""The formula with the converter's names for boxes of lines; a box that it does not know is refused.

    The converter would print the space asked for after a line, as in ``\\[4pt]``; the style sheet parts lines instead.

    >>> boxes(r"\begin{aligned}a &= b \\[4pt] c &= [4]\end{aligned}")
    '\\begin{split}a &= b \\\\ c &= [4]\\end{split}'
    """
    tex = re.sub(r"\\\\\s*\[[\d.]+(?:pt|em|ex)\]", r"\\\\", tex)
    tex = tex.replace(":=", "≔")
    tex = re.sub(r"\b\d+(?:\.\d+)?e\d+\b", r"\\text{\g<0>}", tex)  # 1.97e14 is one number
    if unknown := set(re.findall(r"\\begin\{(\w+\*?)\}", tex)) - BOXES.keys():
        raise BadFormula(f"no MathML is known for a box {unknown.pop()}, only for {', '.join(BOXES)}, in: {tex}")
    return re.sub(r"\\(begin|end)\{(\w+\*?)\}", lambda m: f"\\{m[1]}{{{BOXES.get(m[2], m[2])}}}", tex)


def rows(tex: str) -> str:
    r"""Lines of a displayed formula without a box of their own get one.

    >>> rows(r"a \\ b"), rows("a")
    ('\\begin{aligned}a \\\\ b\\end{aligned}', 'a')
    """
    boxed = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", tex, flags=re.DOTALL)
    return rf"\begin{{aligned}}{tex}\end{{aligned}}" if r"\\" in boxed else tex


def width(node: ET.Element) -> float:
    """About how wide a formula is drawn, in em: a letter 0.55, a sign with the space around it 1.

    >>> round(width(ET.fromstring("<mrow><mi>x</mi><mo>=</mo><mfrac><mi>a</mi><mtext>bcd</mtext></mfrac></mrow>")), 2)
    3.2
    """
    inner = [width(child) for child in node]
    match node.tag:
        case "mfrac":
            return max(inner)
        case "munder" | "mover":
            return max(inner[0], 0.7 * inner[1])
        case "msub" | "msup":
            return inner[0] + 0.7 * inner[1]
        case "msubsup" | "munderover":
            return inner[0] + 0.7 * max(inner[1:])
        case "mspace":
            return float(node.get("width", "0em").removesuffix("em"))
        case "mtable":
            return sum(max(width(cell) for cell in column) for column in zip(*node))
        case "mo" if node.text in RELATIONS + ADDED:
            return 1.0
    return sum(inner) + 0.55 * len(node.text or "")


def parts(formula: str) -> list[list[str]]:
    r"""A long formula cut where a line may end: at wide spaces into parts, before relations and after commas into pieces.

    No browser breaks the line of a formula.  A piece that is still long is cut before + and · too; what stands in brackets, in a
    box of lines or under a fraction stays whole.

    >>> [len(pieces) for pieces in parts(markup(r"a = (b + c), \quad d", True))]
    [1]
    >>> [len(pieces) for pieces in parts(markup(r"a = b + (c + \text{one long word of a name}), \quad d", True))]
    [3, 1]
    """
    line = list(ET.fromstring(formula)[0])
    if sum(map(width, line)) < LONG:
        return [[formula]]
    found = []
    for part in _cut(line, lambda node: node.tag == "mspace" and float(node.get("width").removesuffix("em")) >= 1):
        part = part[part[0].tag == "mspace" :]
        found.append([])
        for piece in _cut(part, lambda node: _sign(node) in RELATIONS, lambda node: node.text == ","):
            short = sum(map(width, piece)) < LONG
            found[-1] += map(_piece, [piece] if short else _cut(piece, lambda node: _sign(node) in ADDED))
    return found


def _sign(node: ET.Element) -> str:
    """The sign that stands between what is left and right of it, or a space; an arrow may carry words."""
    arrow = node[0] if node.tag == "mover" else node
    return arrow.text if arrow.tag == "mo" and node.get("form") != "prefix" and arrow.text else " "


def _cut(line: list[ET.Element], before: Callable, after: Callable = lambda node: False) -> list[list[ET.Element]]:
    """The line in pieces: a new one begins before some nodes and after others, where no bracket is open."""
    found, depth = [[]], 0
    for node in line:
        depth += (node.tag == "mo") * ((node.text in OPENING) - (node.text in CLOSING))
        if depth == 0 and before(node) and found[-1]:
            found.append([])
        found[-1].append(node)
        if depth == 0 and after(node):
            found.append([])
    return [piece for piece in found if piece]


def _piece(nodes: list[ET.Element]) -> str:
    if _sign(nodes[0]) in RELATIONS + ADDED:
        nodes[0].set("form", "infix")  # at the start it would be taken for a number's own
    whole = ET.Element("math", display="block")
    ET.SubElement(whole, "mrow").extend(nodes)
    return ET.tostring(whole, encoding="unicode").replace(" />", "/>")


def _written(translator, node, display: bool) -> str:
    tex = node.astext().strip()
    try:
        if not display:
            return markup(tex)
        found = parts(markup(rows(tex), True))
        whole = "".join(f'<span class="part">{"".join(part)}</span>' for part in found)
        return found[0][0] if len(found) == len(found[0]) == 1 else f'<span class="parts">{whole}</span>'
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


def joined(body: str) -> str:
    """The body of a page that keeps what touches a formula on its line: a browser may break there, TeX does not.

    >>> joined("at (<math><mi>D</mi></math>), <math><mi>F</mi></math> is")
    'at <span class="whole">(<math><mi>D</mi></math>),</span> <math><mi>F</mi></math> is'
    """
    return WHOLE.sub(lambda m: f'<span class="whole">{m[0]}</span>' if m[1] or m[2] else m[0], body)


def add(app, page, template, context, doctree) -> None:
    """Keep the formulas of one page together."""
    if "body" in context:
        context["body"] = joined(context["body"])


def drawn(formula: str) -> set[str]:
    """Characters that a browser draws for a formula: a letter alone is slanted.

    >>> sorted(drawn("<mi>x</mi><mo>+</mo><mi>h</mi><mi>max</mi>"))
    ['+', 'a', 'h', 'm', 'x', 'ℎ', '𝑥']
    """
    found = set(unescape(re.sub(r"<[^>]*>", "", formula)))
    return found | {SLANTED.get(letter, letter) for letter in re.findall(r"<mi>(.)</mi>", formula)}


def font(characters: set[str], to: Path) -> None:
    """Write the part of STIX Two Math that draws these characters at every size."""
    source = Path(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf"))
    cut_font(source, to, characters, hinting=False, layout_features=["ssty", "dtls", "flac"])


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
    app.connect("html-page-context", add)
    app.connect("build-finished", finish, priority=920)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
