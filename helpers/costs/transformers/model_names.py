"""Names of models as people write them: which of a list is meant, and which are near (chapter 3).

Names of repositories on huggingface.co name an organisation first, and last how the model was trained on, which changes no size.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from math import log

from helpers.arguments import entries

TRAINED = ("instruct", "base", "hf", "it", "pt", "chat", "thinking", "meta")
SIZE = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])")
ACTIVE = re.compile(r"a\d+(?:\.\d+)?b")


def words(name: str) -> list[str]:
    """The words of a name in small letters, without the organisation, what it was trained for, and a date of four digits at its end.

    >>> words("meta-llama/Llama-3.1-70B-Instruct"), words("Qwen3-30B-A3B-Instruct-2507"), words("GPT_2")
    (['llama', '3.1', '70b'], ['qwen3', '30b', 'a3b'], ['gpt', '2'])
    """
    every = [w for w in re.split(r"[-_\s]+", name.split("/")[-1].lower()) if w]
    some = [w for w in every if w not in TRAINED] or every
    return some[:-1] if len(some) > 1 and re.fullmatch(r"\d{4}", some[-1]) else some


def key(name: str) -> str:
    """What names of one model have in common: their words, as one.

    >>> key("Qwen/Qwen3-8B-Base") == key("qwen-3-8b")
    True
    """
    return "".join(words(name))


def family(name: str) -> str:
    """The letters that a name begins with.

    >>> family("Qwen3-8B"), family("gpt-oss-20b"), family("glm4")
    ('qwen', 'gpt', 'glm')
    """
    found = re.match(r"[a-z]+", "-".join(words(name)))
    return found[0] if found else ""


def near(name: str, names: Iterable[str], most: int = 4) -> list[str]:
    """Of these names those of the same family, or of the one that is written nearly alike: those with the same words, of the same
    version, and of the nearest size first.

    >>> near("llama-3-7b", ["llama-2-7b", "llama-3-70b", "llama-3-8b", "palm-7b"])
    ['llama-3-8b', 'llama-3-70b', 'llama-2-7b']
    """
    names = list(names)
    families = dict.fromkeys(map(family, names))
    of = get_close_matches(family(name), families, n=1, cutoff=0.75)
    asked = _parts(name)

    def distance(other: str):
        letters, version, size = _parts(other)
        apart = abs(log(size / asked[2])) if size and asked[2] else float(bool(asked[2]))
        return -len(letters & asked[0]), version != asked[1] and asked[1] is not None, apart

    return sorted((n for n in names if of and family(n) == of[0]), key=distance)[:most]


def _parts(name: str) -> tuple[set[str], int | None, float | None]:
    """Words of letters but the family, the first part of the version, and the size in its name, in parameters."""
    size = version = None
    letters = set()
    for word in words(name):
        if found := SIZE.fullmatch(word):
            size = size or int(found[1] or 1) * float(found[2]) * {"b": 1e9, "m": 1e6}[found[3]]
        elif not ACTIVE.fullmatch(word):
            number = re.search(r"\d+", word)
            version = int(number[0]) if number and version is None else version
            letters |= {word} if word.isalpha() else set()
    return letters - {family(name)}, version, size


entries(__name__)
