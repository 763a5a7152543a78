"""Formulas as MathML: what TeX says is what stands there, an unknown word is refused, the font draws all of it."""

import re
import xml.etree.ElementTree as ET
from html import unescape

import pytest
from fontTools.ttLib import TTFont

from tests.book.conftest import extension, page_names

mathml = extension("mathml")


def outline(tex: str, display: bool = False) -> str:
    """A formula's tree as text: fractions as (a)/(b), indices as _ and ^, everything else in its order."""

    def told(node) -> str:
        inner = [told(child) for child in node]
        match node.tag:
            case "mfrac":
                return f"({inner[0]})/({inner[1]})"
            case "msub" | "munder":
                return f"{inner[0]}_{{{inner[1]}}}"
            case "msup":
                return f"{inner[0]}^{{{inner[1]}}}"
            case "msubsup" | "munderover":
                return f"{inner[0]}_{{{inner[1]}}}^{{{inner[2]}}}"
            case "msqrt":
                return f"√({''.join(inner)})"
            case "mtr":
                return "&".join(inner) + ";"
        return (node.text or "").strip() + "".join(inner)

    return told(ET.fromstring(mathml.markup(mathml.rows(tex) if display else tex, display)))


@pytest.mark.parametrize(("tex", "want"), [
    (r"\frac{n-1}{n}\cdot\frac{V}{W}", "(n−1)/(n)·(V)/(W)"),
    (r"T_\text{one way} = 2^{k+1}", "T_{one\N{NO-BREAK SPACE}way}=2^{k+1}"),
    (r"\sum_{i=1}^{n} x_i^2 \le \sqrt{d_k}", "∑_{i=1}^{n}x_{i}^{2}≤√(d_{k})"),
    (r"\left\lfloor \frac n2 \right\rfloor", "⌊(n)/(2)⌋"),
    (r"A[I_X, J] \cdot_\text{LOCAL} B[J, K]", "A[I_{X},J]·_{LOCAL}B[J,K]"),
])  # fmt: skip
def test_what_tex_says_stands_there(tex, want):
    assert outline(tex) == want


def test_lines_are_rows_of_a_table():
    assert outline(r"a &= b + c \\ &\ge d", display=True) == "a&=b+c;&≥d;"
    assert outline(r"a &= b \\[4pt] c &= d", display=True) == "a&=b;c&=d;"  # a space asked for is not printed
    assert outline(r"\begin{gathered} a \\ b \end{gathered}", display=True) == "a;b;"
    assert outline(r"\begin{cases} 1 & x > 0 \\ 0 \end{cases}", display=True) == "{1&x>0;0;"


@pytest.mark.parametrize(("tex", "want"), [
    (r"\min(a, b)", "<mi>min</mi><mo"),  # a function is no sign: no space before its bracket
    (r"\min\!\big(a\big)", "<mi>min</mi><mo"),
    (r"\log_2 n", '<msub><mi>log</mi><mn>2</mn></msub><mspace width="0.167em"/><mi>n</mi>'),
    (r"\lim_{x \to \infty} y", "<munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mi>∞</mi></mrow></munder>"),
    (r"x\,|Y| + y", 'form="prefix">|</mo><mi>Y</mi><mo stretchy="false" form="postfix">|</mo><mo>+</mo>'),
    (r"a \xrightarrow{x} b", "<mover><mo>⟶</mo><mrow><mi>x</mi>"),
    (r"a = -b, (-c)", '<mo>=</mo><mo form="prefix">−</mo><mi>b</mi><mo>,</mo><mo stretchy="false">(</mo><mo form='),
    (r"(a) - b", ")</mo><mo>−</mo>"),
    (r"a := 0", "<mi>a</mi><mo>≔</mo><mn>0</mn>"),
    (r"\begin{gathered} a \\ b \end{gathered}", '<mtable displaystyle="true">'),
    ("2 e + 1.97e14", "<mn>2</mn><mi>e</mi><mo>+</mo><mtext>1.97e14</mtext>"),
])  # fmt: skip
def test_signs_and_spaces_are_those_of_tex(tex, want):
    assert want in mathml.markup(tex, True)


def pieces(tex: str) -> list[list[str]]:
    """What stands in each piece of each part of a displayed formula."""
    return [[re.sub("<[^>]*>", "", p) for p in part] for part in mathml.parts(mathml.markup(mathml.rows(tex), True))]


@pytest.mark.parametrize(
    ("tex", "want"),
    [
        (r"a = b, \qquad c = d", [["a=b,c=d"]]),  # short: one line has room for it
        (r"f(a = b) = \text{a long name, and more}, \qquad c < d", [["f(a=b)", "=a\xa0long\xa0name,\xa0and\xa0more,"], ["c", "&lt;d"]]),
        (r"A = 2 \cdot \text{bytes of a number} + \text{bytes of another}",
         [["A", "=2", "·bytes\xa0of\xa0a\xa0number", "+bytes\xa0of\xa0another"]]),
        (r"a &= \text{one very long line of words} \\ b &= c", [["a=one\xa0very\xa0long\xa0line\xa0of\xa0wordsb=c"]]),
    ],
)  # fmt: skip
def test_a_long_formula_is_cut_at_spaces_and_relations_and_nowhere_in_brackets(tex, want):
    assert pieces(tex) == want


def test_a_sign_at_the_start_of_a_piece_stands_between_what_is_beside_it():
    whole = mathml.markup(r"A = 2 \cdot \text{bytes of a number} + \text{bytes of another} - x", True)
    last = mathml.parts(whole)[0][-2:]
    assert all('<mrow><mo form="infix">' in piece for piece in last)
    assert "form" not in whole
    assert "".join(re.sub("<[^>]*>", "", p) for part in mathml.parts(whole) for p in part) == re.sub(
        "<[^>]*>", "", whole
    )


@pytest.mark.parametrize("tex", [r"\nosuchcommand{x}", r"\frac{1}", "x^", "a & b", r"\begin{pmatrix} a \end{pmatrix}"])
def test_a_formula_that_cannot_be_written_is_refused_with_its_text(tex):
    with pytest.raises(mathml.BadFormula, match=re.escape(tex)):
        mathml.markup(tex)


def test_the_font_has_what_is_drawn_and_its_licence(tmp_path):
    mathml.font({"∑", "𝑥", "√", "("}, tmp_path / "m.woff")
    font = TTFont(tmp_path / "m.woff")
    assert {ord(c) for c in "∑𝑥√("} <= set(font.getBestCmap()) and ord("y") not in font.getBestCmap()
    assert "MATH" in font and "Open Font License" in str(font["name"].getDebugName(13))


@pytest.mark.parametrize("line, want", [
    ("At D. Then", "At [D.] Then"),
    ("It (D) is", "It [(D)] is"),
    ("the D-th one", "the [D-th] one"),
    ("where D is", "where D is"),
    ("(D + 1)", "[(D] + 1)"),
    ("D", "D"),
])  # fmt: skip
def test_a_line_does_not_end_between_a_formula_and_its_full_stop(line, want):
    formula = mathml.markup("D")
    found = mathml.joined(line.replace("D", formula)).replace(formula, "D")
    assert found.replace('<span class="whole">', "[").replace("</span>", "]") == want


def test_every_formula_of_the_site_is_written_and_drawn(site):
    drawable, formulas = set(TTFont(site / "_static" / mathml.FONT).getBestCmap()), 0
    for name in page_names():
        page = (site / name).read_text(encoding="utf-8")
        assert not re.search(r"\\\(|\\\[|MathJax", re.sub(r"<(script|pre).*?</\1>", "", page, flags=re.DOTALL)), name
        apart = re.sub(r'<span class="whole">.*?</math>[^<]*</span>', "", page, flags=re.DOTALL)
        assert not re.search(r"</math>[.,;:?!)]", apart), name
        for formula in re.findall(r"<math.*?</math>", page, re.DOTALL):
            formulas += 1
            shown = {ord(c) for c in unescape(re.sub(r"<[^>]*>", "", formula)) if not c.isspace()}
            assert "\\" not in formula and shown <= drawable, formula
    assert formulas > 1_000
