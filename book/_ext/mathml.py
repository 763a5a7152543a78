"""Sphinx extension: formulas are MathML, written when the book is built; no script sets them in the browser.

A page shows its formulas at once, without JavaScript, to a screen reader as to the eye.  Every browser since 2023 draws
MathML.  A good font for it is not on every phone, so the part of STIX Two Math that the book uses lies beside the pages.

Chapter 4 weighs 225 KB with it, and 490 KB with MathJax from the same host; Sphinx's own would load that from another.  Sphinx has
no renderer of this kind, and Docutils' converter, which may change with any release, knows 493 of the book's 511 formulas.  Nothing
of the theme matters to it; a release of latex2mathml may write another tree, which test_mathml compares.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from importlib.metadata import distribution
from pathlib import Path

from docutils import nodes
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
OPENS, CLOSES = re.compile(r"[(\[“]$"), re.compile(r"[.,;:?!)\]”%’]+|-\w+")
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
    tree = ET.fromstring(found)
    for node in reversed(list(tree.iter())):  # parts before what holds them
        _mend(node)
    return ET.tostring(tree, encoding="unicode").replace(" />", "/>")


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
        pieces = _cut(part, lambda node: _sign(node) in RELATIONS, lambda node: node.text == ",")
        found.append(
            [
                _piece(short)
                for piece in pieces
                for short in (
                    [piece] if sum(map(width, piece)) < LONG else _cut(piece, lambda node: _sign(node) in ADDED)
                )
            ]
        )
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


def joined(app, doctree, page: str) -> None:
    """Keep what is written without a space beside a formula on its line: a browser may break there, TeX does not."""
    for formula in list(doctree.findall(nodes.math)):
        around, at = formula.parent, formula.parent.index(formula)
        before, after = (around[i] if 0 <= i < len(around) else None for i in (at - 1, at + 1))
        first = OPENS.search(before) if isinstance(before, nodes.Text) else None
        last = CLOSES.match(after) if isinstance(after, nodes.Text) else None
        if not first and not last:
            continue
        whole = nodes.inline(classes=["whole"])
        around[at] = whole
        if last:
            around[at + 1] = nodes.Text(after[last.end() :])
            last = nodes.Text(last[0])
        if first:
            around[at - 1] = nodes.Text(before[: first.start()])
            first = nodes.Text(first[0])
        whole += [part for part in (first, formula, last) if part]


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
    app.connect("doctree-resolved", joined)
    app.connect("build-finished", finish, priority=920)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
