"""Cards for review: questions of the chapters and exercises, each several times with other numbers, as notebooks/review.json.

Of a question book/data/review.yaml says what may change, and the source's own expressions compute the rest. Of an exercise inputs are
drawn as the hidden tests draw theirs, and the card has salted hashes of what our answer gives (tried_numbers). What differs between
the settings of a card stands in `fills`, once for each, and the text around it once: SLOT marks where a fill goes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from autograder.places import SourceError, Tree, topic_of
from helpers import prose
from helpers.check import questions, review
from helpers.costs.rooflines.chips import CHIPS, chip

from .links import Links, target_of
from .myst_to_commonmark import plain, translate

NAME = "review.json"
COUNTS = 4, 5, 6
"""Settings that a card may have. It takes the next one each time, so that its numbers come again after as many times as it has settings."""

ASK = re.compile(r"^:{3,}\{ask\}\n(?P<options>(?::\w+: [^\n]*\n)*)(?P<body>.*?)^:{3,}$", re.M | re.S)
LET = re.compile(r"^% let (\w+) = (.+)$", re.M)
OPTIONS = "say", "ask", "let", "unit"
MARK = {True: "=", False: "?"}
PIECES = re.compile(r"[\w.,·]+|\s+|[^\w\s]")


def replaced(text: str, by: Mapping[str, object]) -> str:
    """A text in which whole words are others.

    >>> replaced("128 rows of 1280, matmul(128, v5e)", {"128": 64, "v5e": "v5p"})
    '64 rows of 1280, matmul(64, v5p)'
    """
    if not by:
        return text
    keys = "|".join(re.escape(key) for key in sorted(by, key=len, reverse=True))
    return re.sub(rf"(?<![\w.])(?:{keys})(?![\w]|[.,]\d)", lambda m: str(by[m[0]]), text)


def settings(name: str, rules: Mapping) -> Iterator[dict[str, object]]:
    """What stands in place of each key, in one review after the other."""
    lists = {str(key): values for key, values in rules.items() if key not in OPTIONS}
    lengths = {len(values) for values in lists.values()}
    if len(lengths) != 1 or not lengths <= {*COUNTS}:
        raise SourceError(f"review.yaml, {name}: its lists are to have one length, 4 to 6; they have {lengths}.")
    for i in range(*lengths):
        yield {key: values[i] for key, values in lists.items()}


def scope_of(body: str, lets: Mapping[str, str], by: Mapping[str, object]) -> dict:
    """Names that the expressions of a question may use, with the let-lines that it needs computed for one setting."""
    scope = prose.names() | {label: chip(label) for label in CHIPS if label.isidentifier()} | {"mark": MARK}
    needed, left = [], re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"\{\{(.+?)\}\}", body)))
    while left:
        if (word := left.pop()) in lets and word not in needed:
            needed.append(word)
            left += re.findall(r"[A-Za-z_]\w*", lets[word])
    for word in (word for word in lets if word in needed):  # in the order of the source
        scope[word] = eval(replaced(lets[word], by), scope)  # sources are the course's own text
    return scope


def rendered(body: str, lets: Mapping[str, str], by: Mapping[str, object]) -> str:
    """The body of a question with its numbers, for one setting."""
    scope = scope_of(replaced(body, by), lets, by)
    text = re.sub(r"\{\{(.+?)\}\}", lambda m: prose.figure(m[1], scope), replaced(body, by))
    text = re.sub(r"\b([Aa])n? (?=(?:H|A|MI)\d)", r"\1n ", text)  # another chip may begin with another sound
    return re.sub(r"\b([Aa])n (?=(?:B|GB|v)\d)", r"\1 ", text)


def folded(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Texts with slots, and for each row what goes into them, in order.

    >>> folded([["a 1 of 2", "x"], ["a 3 of 2", "x"]]) == (["a \\x01 of 2", "x"], [["1"], ["3"]])
    True
    """
    texts, fills = [], [[] for _ in rows]
    for column in zip(*rows, strict=True):
        pieces = [PIECES.findall(text) for text in column]
        if len({len(p) for p in pieces}) > 1:
            pieces = [[text] for text in column]
        shown = []
        for same in zip(*pieces, strict=True):
            alike = len({*same}) == 1
            shown.append(same[0] if alike else review.SLOT)
            if not alike:
                for own, piece in zip(fills, same, strict=True):
                    own.append(piece)
        texts.append("".join(shown))
    return texts, fills


def asked(tree: Tree, texts: Mapping[Path, str], links: Links) -> list[dict]:
    """A card for each question that review.yaml has, in the order of the book; an edition may lack chapters."""
    path = tree.root / "book/data/review.yaml"
    if not path.is_file():
        return []
    rules, cards = yaml.safe_load(path.read_text(encoding="utf-8")), []
    for source in tree.readings:
        text = source.read_text(encoding="utf-8")
        lets = dict(LET.findall(text))
        for name, m in zip(questions.names(text), ASK.finditer(text), strict=True):
            if name in rules:
                cards.append(question(name, rules[name], m, lets, source, links, tree))
    return cards


def said_plainly(text: str) -> str:
    r"""Text for a terminal and for a page without mathematics.

    >>> said_plainly(r"$\ell_1 \bmod n$ of $\{U_Z\}$")
    'ℓ_1 mod n of {U_Z}'
    """
    for tex, shown in ((r"\ell", "ℓ"), (r"\bmod", "mod"), (r"\{", "{"), (r"\}", "}")):
        text = text.replace(tex, shown)
    return plain(text)


def question(
    name: str, rules: Mapping, m: re.Match, lets: Mapping[str, str], source: Path, links: Links, tree: Tree
) -> dict:
    """The card of one question."""
    body, lets = rules.get("ask", m["body"]), {**lets, **rules.get("let", {})}
    for old, new in rules.get("say", {}).items():
        if new is None or str(old) not in body:
            raise SourceError(f"review.yaml, {name}: the question does not say {str(old)!r}.")
        body = body.replace(str(old), str(new))
    options = dict(re.findall(r"^:(\w+): (.*)$", m["options"], re.M)) if "ask" not in rules else {}
    options |= {"unit": rules["unit"]} if "unit" in rules else {}
    within, rows, rights = float(options.get("within", questions.WITHIN)), [], []
    for by in settings(name, rules):
        try:
            found = questions.parse(rendered(body, lets, by).split("\n"), options.get("unit"), within)
        except Exception as error:
            raise SourceError(f"review.yaml, {name} with {by}: {error}") from error
        to_say = lambda text: said_plainly(translate(text, links, target_of(source, tree.root)))  # noqa: E731
        replies = [words for reply in found.replies for words in (to_say(reply.value), to_say(reply.text))]
        rows.append([to_say(found.text), *replies])
        rights.append(next(i for i, reply in enumerate(found.replies) if reply.right))
    if len({tuple(row) for row in rows}) < len(rows):
        raise SourceError(f"review.yaml, {name}: two of its settings say the same.")
    said, fills = folded(rows)
    label = name.rpartition(".")[0]
    *_, heading = re.findall(r"^#{1,3} (.+)$", m.string[: m.start()], re.M)
    number = {"unit": options["unit"], "within": within} if "unit" in options else {}
    return {
        "name": name, "where": f"{int(source.stem[2:4])} · {heading}",
        "page": f"{source.stem}.html#{label}", "texts": said, "fills": fills, "right": rights, **number,
    }  # fmt: skip


def called(value: str) -> str:
    """A value as a call has it, without commas that part thousands.

    >>> called("24,342"), called("(1024, 256)"), called("[1,024, 256,000]")
    ('24342', '(1024, 256)', '[1024, 256000]')
    """
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", value)


HEADING = re.compile(r"^### Exercise (\d+\.\d+) — (.+)$", re.M)
DATA = re.compile(r"^[★☆]{3} .*$", re.M)


def done(topic: str, nb, found: Mapping[str, dict]) -> Iterator[dict]:
    """A card for each exercise of a chapter whose results are numbers to work out.

    nb     the solved notebook
    found  what `shown_cases.add` has drawn for review, by grade_id
    """
    statement, number = "", ""
    seen = set()
    for cell in nb.cells:
        heading = HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if heading:
            number, title = heading[1], heading[2]
            below = DATA.sub("", cell.source[heading.end() :])
            statement = plain(re.sub(r"<details>.*?</details>", "", below, flags=re.S))
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        case = found.get(grade_id)
        if not case or len(case["numbers"]) not in COUNTS or number in seen:
            continue
        entry = min((n for n in case["numbers"][0]["hashes"]), key=[n for n, _ in case["results"]].index)
        numbers = [(i, one) for i, one in enumerate(case["numbers"]) if entry in one["hashes"]]
        if len(numbers) not in COUNTS:
            continue
        seen.add(number)
        label = dict(map(tuple, case["results"]))[entry]
        yield {
            "name": number, "where": f"{int(topic[2:4])} · Exercise {number}: {title}",
            "page": f"../notebooks/{topic_of(topic)}/exercises.html#ex-{number.replace('.', '-')}",
            "texts": [statement, case["doc"]], "call": case["answer"], "given": case["given"], "asks": label,
            "fills": [[*map(called, one["given"])] for _, one in numbers],
            "hashes": [[one["hashes"][entry], f"review {grade_id} {i} {entry}"] for i, one in numbers],
        }  # fmt: skip
