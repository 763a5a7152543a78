"""From the sources' MyST to what JupyterLab and Colab render: CommonMark, $math$, <details>, <a id>."""

import html
import re
from collections.abc import Callable

from autograder.places import SourceError

from .links import Links, slug

BOXES = ("note", "tip", "important", "warning", "admonition", "margin")
DIRECTIVES = (*BOXES, "ask", "dropdown", "math", "live")
ROLES = ("eq", "ref", "doc", "cite", "numref")

FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(\{[^}]*\})?(.*)$")
COLON = re.compile(r"^(:{3,})\s*\{([^}]*)\}\s*(.*)$")
LABEL = re.compile(r"^\(([\w:.-]+)\)=\s*$")
OPTION = re.compile(r"^:([\w-]+):\s*(.*)$")
# A role, or a code span (which is left alone whatever it holds).
INLINE = re.compile(r"\{([a-zA-Z][\w:-]*)\}`([^`]+)`|(`+)(?!`)(.+?)(?<!`)\3(?!`)")


def closes(line: str, fence: str) -> bool:
    """Whether `line` ends the block that `fence` opened.

    >>> closes(":::", "::::"), closes("::::", ":::"), closes("``` x", "```")
    (False, True, False)
    """
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def lint(text: str, name: str) -> None:
    """Refuse a directive or role outside of the dialect, naming file, line and the offender."""
    known = {"directive": (*DIRECTIVES, "code-cell"), "role": ROLES}
    fence = None  # of the literal block that we are in

    def refuse(number: int, kind: str, what: str) -> None:
        if what not in known[kind]:
            raise SourceError(
                f"{name}:{number}: the {kind} {{{what}}} is not one that notebooks can show; "
                f"known are {', '.join(known[kind])}."
            )

    for number, line in enumerate(text.split("\n"), 1):
        if fence:
            fence = None if closes(line, fence) else fence
        elif m := COLON.match(line):
            refuse(number, "directive", m[2])
        elif m := FENCE.match(line):
            if m[2]:
                refuse(number, "directive", m[2][1:-1])
            fence = m[1]
        else:
            for m in INLINE.finditer(line):
                if m[1]:
                    refuse(number, "role", m[1])


def translate(text: str, links: Links, target: str) -> str:
    """One markdown cell of the document that readers open as `target`."""
    return "\n".join(_blocks(text.split("\n"), links, target)).strip("\n")


def split_blocks(lines: list[str]) -> list[tuple[str, str, list[str]]]:
    """Lines cut into ("text" | "code" | directive's name, argument, body); the body of "code" keeps its fences."""
    parts: list[tuple[str, str, list[str]]] = []
    i = 0
    while i < len(lines):
        colon, fence = COLON.match(lines[i]), FENCE.match(lines[i])
        if not (colon or fence):
            if not parts or parts[-1][0] != "text":
                parts.append(("text", "", []))
            parts[-1][2].append(lines[i])
            i += 1
            continue
        mark = colon[1] if colon else fence[1]
        end = next((j for j in range(i + 1, len(lines)) if closes(lines[j], mark)), None)
        if end is None:
            raise SourceError(f'The block "{lines[i].strip()}" has no closing {mark} in its cell.')
        if colon or fence[2]:
            name, argument = (colon[2], colon[3]) if colon else (fence[2][1:-1], fence[3])
            parts.append((name, argument.strip(), lines[i + 1 : end]))
        else:
            parts.append(("code", "", lines[i : end + 1]))
        i = end + 1
    return parts


def options(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """The `:key: value` lines at the head of a directive, and the rest without blank margins."""
    found = {}
    while body and (m := OPTION.match(body[0])):
        found[m[1]] = m[2].strip()
        body = body[1:]
    return found, _trimmed(body)


def _blocks(lines: list[str], links: Links, target: str) -> list[str]:
    out: list[str] = []
    for kind, argument, body in split_blocks(lines):
        if kind == "text":
            out += [new for line in body for new in _line(line, links, target)]
        elif kind == "code":
            out += body
        elif kind not in DIRECTIVES:
            raise SourceError(f"The directive {{{kind}}} is not one that notebooks can show.")
        else:
            found, body = options(body)
            new = _directive(kind, argument, found, body, links, target)
            out += new if not out or not out[-1] else ["", *new]
            out.append("")
    return _trimmed(out)


def _trimmed(lines: list[str]) -> list[str]:
    """Without blank lines at either end."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _directive(kind, argument, options, body, links: Links, target: str) -> list[str]:
    """Lines that stand for one directive."""
    if kind == "math":
        label = options.get("label")
        tag = [rf"\tag{{{links.equation(label)}}}"] if label else []
        anchor = [f'<a id="{label}"></a>', ""] if label else []
        return [*anchor, "$$", *body, *tag, "$$"]
    if kind == "live":
        return ["*A live figure or a film stands here on the course's website.*"]
    inside = _blocks(body, links, target)
    if kind == "dropdown":
        return [f"<details><summary>{_summary(argument)}</summary>", "", *inside, "", "</details>"]
    title = argument if kind in ("admonition", "margin") else kind.capitalize()
    return [f"> **{_inline(title, links, target)}**", ">", *(f"> {line}".rstrip() for line in inside)]


def _summary(title: str) -> str:
    """A title inside of HTML, where markdown is not read.

    >>> _summary("Is `a < b`?")
    'Is <code>a &lt; b</code>?'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(title, quote=False))


def _line(line: str, links: Links, target: str) -> list[str]:
    if line.startswith("%"):
        return []
    if m := LABEL.match(line):
        return [f'<a id="{m[1]}"></a>', ""]
    return [_inline(line, links, target)]


def _inline(text: str, links: Links, target: str) -> str:
    """Roles become links; code spans stay."""

    def role(m: re.Match) -> str:
        if not m[1]:
            return m[0]
        writers: dict[str, Callable[[str, str], str]] = {
            "eq": links.eq, "ref": links.ref, "numref": links.ref, "doc": links.doc, "cite": links.cite,
        }  # fmt: skip
        if m[1] not in writers:
            raise SourceError(f"The role {{{m[1]}}} is not one that notebooks can show.")
        return writers[m[1]](m[2], target)

    return INLINE.sub(role, text)


GREEK = {"alpha": "α", "beta": "β", "times": "×", "cdot": "·", "le": "≤", "ge": "≥", "approx": "≈", "ll": "≪",
         "gg": "≫", "min": "min", "max": "max", "ln": "ln", "log": "log", "to": "→", "neq": "≠", "infty": "∞"}  # fmt: skip


def plain(text: str) -> str:
    r"""Translated markdown as text for a terminal: links, emphasis, dollars and common TeX names go.

    >>> plain("Read [it](x.md): **$B \\le 240$** is\n`memory`-bound.\n\nSo wait.")
    'Read it: B ≤ 240 is memory-bound.\nSo wait.'
    """

    def math(m: re.Match) -> str:
        tex = re.sub(r"\\text\{([^}]*)\}|\\mathrm\{([^}]*)\}", lambda t: t[1] or t[2], m[1])
        tex = re.sub(r"\\([a-zA-Z]+)", lambda t: GREEK.get(t[1], t[0]), tex)
        return tex.replace(r"\,", " ").replace("{,}", ",")

    text = re.sub(r"<[^>]+>", "", text)
    text = re.sub(r"\$\$?([^$]+)\$\$?", math, text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(\*\*|`)(.+?)\1", r"\2", text)
    text = re.sub(r"(?<![\w*])[*_](\w[^*_]*?)[*_](?![\w*])", r"\1", text)
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", html.unescape(text))]
    return "\n".join(p for p in paragraphs if p)


__all__ = ["lint", "plain", "slug", "split_blocks", "translate"]
