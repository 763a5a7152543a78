"""What the index of methods and the tests of numbers take for granted of a page: it shows these functions, and these formulas."""

import ast
import functools
import json
import pkgutil
import re

from helpers import prose
from tests.book.conftest import ROOT, chapter_text
from tests.helpers.costs.tables import walks

METHODS = json.loads((ROOT / "book/data/methods.json").read_text(encoding="utf-8"))["methods"]
# Chapters whose sections show every function of their methods.
SHOWN = ("ch05_inference", "ch06_attention", "ch07_racks", "ch08_experts")
FENCE = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```", re.M | re.S)

FORMULAS = {
    "ch03_transformers": ["6BTDV", r"\frac{T}{8D}", r"\frac{TSG}{TG + S}", r"\frac{E}{k}", r"8 \cdot \text{params}", "4BT^2NH"],
    "ch04_training": [
        r"\frac{B}{N} > \frac{\alpha}{M}", r"Y < \frac{MF}{\alpha}", r"\sqrt{\frac{B}{F} \cdot \frac{M_X}{M_Y} \cdot N}",
        r"\frac{\alpha^2}{M_X M_Y F}", r"\frac{B}{mN} > \frac{\alpha}{M}",
        r"F_e > \frac{2}{3} \Bigl(1 - \frac{1}{n}\Bigr) \frac{C}{W}",
        r"\Bigl(1 - \frac{1}{P}\Bigr) \frac{C}{W_\text{dcn}}", r"\alpha = C/2W",
        "6BD/X + 8DF/Y", r"\frac{p - 1}{m + p - 1}", "2LB(D + 2F)",
    ],
    "ch05_inference": [
        r"\frac{n(n + 1)(2n + 1)}{6}", r"\frac{\text{bytes of a weight}}{2} \cdot \frac{C}{W_\text{hbm}}",
        r"\max\left(\frac{2 B \cdot \text{parameters}}{C},\ \frac{\text{bytes of weights}}{W_\text{hbm}}\right)",
        r"2 \cdot S \cdot L \cdot K \cdot H", r"Y < \frac{w}{x} \cdot \frac{F}{B \beta}", r"\sqrt{\frac{N D}{2 F}}",
        r"\frac{2 x B D}{2W}", r"\frac{4B}{2W}", r"I = \frac{2 N (2R + P)}{x (R + P)}", r"R(n + v)/(2R - n - v)",
        r"\min(1, p(x)/q(x))", r"\frac{1 - a^{K + 1}}{1 - a}", "n(L_w - 1) + 1",
    ],
    "ch06_attention": [
        r"\frac{L^2 D + L D^2}{L^2 N + L D + D^2}", r"\frac{D N}{D K + N^2}", r"\ell' = \ell \, e^{m - m'} + e^{x_i - m'}",
        r"\ell &\leftarrow \ell \, e^{m - m'} + e^{x_s - m'}", r"5L^2 + 2L", r"\left\lceil \frac{M_\text{fast}}{4H} \right\rceil",
        r"\frac{12 L^2 H^2}{M_\text{fast}}", r"dx &= P \odot (dO\, V^T - \delta)", r"U_i = U_{i-1} + \phi(k_i) v_i^T",
        r"x_i x_j / \sqrt{2}", r"j = (i - r) \bmod n", r"\frac{x}{2G}", r"2 - \frac{1}{n}", r"\lceil \log_2 n \rceil",
        "B_q + L_w - 1",
    ],
    "ch07_racks": [
        r"\frac{r\,c}{r + c}", r"W_\text{hbm} \cdot t_\text{latency}", r"\frac{(1 - a/n)\, V}{W_\text{cut}}",
        r"\frac{2V}{g\,W_\text{dcn}} \cdot \frac{m-1}{m}", r"\frac{2(n-1)}{n}", r"\frac{2(g-1)}{g+1}\, W",
        r"h\, t_\text{hop} + \frac{b\, V}{W}", r"\frac{(h_2 - h_1)\, t_\text{hop}}{(b_1 - b_2)/W}",
        r"m \left( 1 - \Bigl(1 - \frac1m\Bigr)^{k} \right)", r"\frac{1 - 1/m}{g\, W_\text{dcn}}",
        r"2\sqrt{h\, t_\text{piece}\, x}",
    ],
    "ch08_experts": [
        "3DF(E + s) + DE", r"\text{tp} \cdot \text{cp} \cdot \text{dp} \;=\; \text{etp} \cdot \text{ep} \cdot \text{edp}",
        r"\frac{b_d + b_c}{6} \Bigl(1 - \frac1n\Bigr) \frac{C}{W}", r"\frac{b_d + b_c}{24} A \cdot \frac{C}{2W_1}",
        r"\frac{h\,(1 - 1/m)}{W_\text{dcn}}", r"\frac{b}{2} \cdot \frac Ek \cdot \frac{C}{g\,W_\text{dcn}\,P}",
        r"E \left(1 - \Bigl(1 - \frac kE\Bigr)^{B}\right)", r"E \sum_e f_e P_e",
        r"\max\left( 2\,T_\text{weights} + T_\text{caches} + T_\text{math},\ T_\text{exchange} \right)",
        r"\frac{6rDF}{3DFw + r\,(\text{bytes of a row})}", r"\frac{E}{Tk} \sum_{n > \text{cap}} (n - \text{cap}) \cdot P(n)",
    ],
}  # fmt: skip


@walks(FORMULAS)
def test_formulas_stand_on_the_page(chapter):
    text = chapter_text(chapter)
    assert [formula for formula in FORMULAS[chapter] if formula not in text] == []


@functools.cache
def imported(chapter):
    """What the page's cells import, by the names that they give it."""
    space = {}
    for code in FENCE.findall(chapter_text(chapter)):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(compile(ast.Module([node], []), "page", "exec"), space)
    return space


def named(code, space):
    """All that a program names, `flash` and `flash.flash` each by itself; of what `space` does not know, the last name as a text."""
    for node in ast.walk(ast.parse(code)):
        parts = []
        while isinstance(node, ast.Attribute):
            parts, node = [node.attr, *parts], node.value
        if isinstance(node, ast.Name) and node.id in space:
            found = space[node.id]
            for part in parts:
                found = getattr(found, part, None)
            yield found
        elif parts:
            yield parts[-1]  # a method, or a field, of what a cell has made


@functools.cache
def shown(chapter):
    """For each anchor, what its heading's part computes with: in cells, and in numbers and lets of the text."""
    out = {}
    for part in re.split(r"(?<!\)=\n)(?=^(?:\([\w-]+\)=\n)+##)", chapter_text(chapter), flags=re.M):
        found, text = [x for code in FENCE.findall(part) for x in named(code, imported(chapter))], FENCE.sub("", part)
        numbers = [n.rsplit(" | ", 1)[0].strip() for n in re.findall(r"\{\{(.+?)\}\}", text)]
        for code in numbers + re.findall(r"^% let \w+ = (.+)$", text, re.M):
            found += named(code, prose.names())
        out |= dict.fromkeys(re.findall(r"^\((sec-[a-z0-9-]+)\)=$", part, re.M), found)
    return out


@walks([m for m in METHODS if m["chapter"] in SHOWN])
def test_the_index_names_what_the_section_shows(method):
    """The function itself, from its module: another one of the same name, or the module's name alone, is not enough."""
    seen = shown(method["chapter"])[method["section"]]
    names = {path: pkgutil.resolve_name(f"helpers.{path}") for path in method["functions"]}
    missing = [path for path, function in names.items() if not any(x is function for x in seen)]
    assert (
        names
        and [path for path in missing if path.rsplit(".", 1)[-1] not in [x for x in seen if isinstance(x, str)]] == []
    )


def test_a_modules_name_is_not_its_function():
    space = imported("ch06_attention")
    assert list(named("ring.program(m)", space)) == [space["ring"].program, space["ring"]]
    assert space["ring"].ring not in list(named("ring.program(m)", space))
