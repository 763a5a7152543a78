"""Pictures that a student pasted into text: attachments of a cell, and data URIs as Colab writes them.

Taken are PNG, JPEG, GIF, WebP and SVG, by their first bytes: what a file says of itself is not asked. All are shown as
`<img>`, in which a browser neither runs what an SVG holds nor fetches what it names.
Each reference gets a name of ours, so no name of a student's reaches a page.
"""

import base64
import re
from urllib.parse import unquote

LARGEST = 4_000_000  # bytes of one picture: a page photographed by a telephone
ALL = 8_000_000  # bytes of all that a submission shows: it is stored three times, and read over a network
MOST = 40  # references: each is written out in full on a page
SAID = 10  # sentences

KINDS = {
    "png": ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    "jpg": ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    "gif": ("image/gif", re.compile(rb"GIF8[79]a")),
    "webp": ("image/webp", re.compile(rb"RIFF....WEBP", re.S)),
    # Without entities of its own, which can make gigabytes of a few lines.
    "svg": (
        "image/svg+xml",
        re.compile(
            rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*+>\s*+|<!--[^>]*+>\s*+|<!DOCTYPE svg[^>\[]*+>\s*+){0,9}+<svg\b"
        ),
    ),
}
MIMES = frozenset(mime for mime, _ in KINDS.values())
NAME = re.compile(rf"picture-\d+\.(?:{'|'.join(KINDS)})")
LEFT_OUT = "attachment:left-out"
SHORT = 5_000  # characters of a data URI that stays text where it is no picture of these

REFERENCE = re.compile(
    r"<img\b[^<>]*>"  # JupyterLab's own way to give a picture a width
    r"|data:image/[\w.+-]{1,40};base64,[A-Za-z0-9+/=]+"
    r"|<attachment:[^<>\n]+>"
    r"|attachment:(?:[^\s()<>\"'\]]|\([^\s()]*\))+"
)
SOURCE = re.compile(r"""\bsrc\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
ALT = re.compile(r"""\balt\s*=\s*(?:"([^"\[\]]*)"|'([^'\[\]]*)')""")


class Pictures:
    """Those of one submission, up to its limits."""

    def __init__(self):
        self.tried, self.bytes, self.said = 0, 0, 0

    def of(self, text: str, attachments: object) -> tuple[str, dict[str, dict[str, str]], list[str]]:
        """A cell's text with our names in it, the pictures by these names, and a sentence for each that was left out."""
        if "attachment:" not in text and "data:image/" not in text:
            return text, {}, []
        attachments = attachments if isinstance(attachments, dict) else {}
        found, notes = {}, {}

        def taken(reference: str) -> str:
            if reference.startswith("data:"):
                name, held = "in the text", reference.partition(",")[2]
            else:
                name = reference.removeprefix("attachment:")
                held = attachments.get(name, attachments.get(unquote(name)))
                if held is None:
                    notes[f"The picture {_safe(name)} is not in the notebook."] = None
                    return reference
            stays = reference.startswith("data:") and len(reference) <= SHORT
            kind, data = self._picture(held, name, {} if stays else notes)
            if not kind:
                return reference if stays else LEFT_OUT
            ours = f"picture-{self.tried}.{kind}"
            found[ours] = {KINDS[kind][0]: data}
            return f"attachment:{ours}"

        def replaced(m: re.Match) -> str:
            if not m[0].startswith("<img"):
                return taken(m[0].strip("<>"))
            source = _value(SOURCE, m[0])
            if not source.startswith(("attachment:", "data:image/")):
                return m[0]
            return f"![{_value(ALT, m[0])}]({taken(source)})"

        text = REFERENCE.sub(replaced, text)
        said = [*notes][: SAID - self.said]
        self.said += len(said)
        return text, found, said

    def _picture(self, held: object, name: str, notes: dict) -> tuple[str, str]:
        """The kind of a picture and its base64, or "" and a note why it is left out."""
        self.tried += 1
        if self.tried > MOST:
            notes[f"Pictures beyond {MOST} were left out."] = None
            return "", ""
        for value in [*held.values()][:4] if isinstance(held, dict) else [held]:
            text = "".join(v for v in value if isinstance(v, str)) if isinstance(value, list) else value
            if not isinstance(text, str):
                continue
            if len(text) > 1.5 * LARGEST or (size := len(data := _decoded(text))) > LARGEST:
                notes[f"The picture {_safe(name)} was left out: at most {LARGEST / 1e6:.0f} MB are taken."] = None
                return "", ""
            kind = next((k for k, (_, first) in KINDS.items() if first.match(data)), "")
            if kind and self.bytes + size > ALL:
                notes[f"Pictures beyond {ALL / 1e6:.0f} MB in all were left out."] = None
                return "", ""
            if kind:
                self.bytes += size
                return kind, base64.b64encode(data).decode()
        notes[f"The picture {_safe(name)} was left out: it is no PNG, JPEG, GIF, WebP or SVG."] = None
        return "", ""


def _value(attribute: re.Pattern, tag: str) -> str:
    m = attribute.search(tag)
    return next(filter(None, m.groups()), "") if m else ""


def _decoded(text: str) -> bytes:
    if text.lstrip()[:1] == "<":  # an SVG as it is
        return text.encode(errors="replace")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return b""


def _safe(name: str) -> str:
    return re.sub(r"[^\w .()-]", "?", name)[:60]


def shown(html: str, attachments: dict) -> str:
    """A cleaned page's pictures written into it, each at most once: what a student writes in text cannot multiply them.

    >>> shown('<img src="attachment-picture-1.png"><img src="attachment-picture-1.png">', {"picture-1.png": {"image/png": "AA=="}})
    '<img src="data:image/png;base64,AA=="><img>'
    """
    left = dict(attachments)

    def written(m: re.Match) -> str:
        [(mime, data)] = [*left.pop(m[1], {"": ""}).items()][:1]
        fits = mime in MIMES and isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=]+", data)
        return f' src="data:{mime};base64,{data}"' if fits else ""

    return re.sub(rf' src="attachment-({NAME.pattern})"', written, html)
