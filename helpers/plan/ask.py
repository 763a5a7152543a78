"""What is asked of a plan: which model, on how many of which chips, and for training how many tokens a step."""

import argparse
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path

from helpers.costs.racks.cluster import Cluster
from helpers.costs.racks.training_over_tiers import cluster_of
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Chip, Slice
from helpers.costs.rooflines.machines import Machine, ways
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import kv_cache, parameters
from helpers.costs.transformers.public_models import model

EXAMPLE = "512xH100"
COMMAND = f"python -m helpers.plan train llama-3-70b --chips {EXAMPLE} --tokens 4194304 --length 8192"
SERVES = "python -m helpers.plan serve deepseek-v3 --chips 16xH200 --weights fp8 --in 4000 --out 1000 --speed 50"
MOST = 131072  # chips


@dataclass(frozen=True)
class Question:
    """A training step that is asked for: of a model, on tokens in sequences of T.

    machine  chips; `cluster` also has the network between them
    """

    config: Config
    name: str
    tokens: int
    T: int
    machine: Machine
    cluster: Cluster


def question(options) -> Question:
    """The step that the words of a command ask for."""
    model, machine, T = model_of(options), room(options.chips), options.length
    if min(options.sequences or 1, T, options.top) < 1 or (options.tokens is not None and options.tokens < 1):
        raise ValueError("--tokens, --sequences, --length and --top are 1 or more")
    tokens = options.tokens or options.sequences * T
    if short := tokens % T:
        raise ValueError(f"{tokens} tokens are no whole number of sequences of {T}: the next is {tokens - short + T}")
    cluster = cluster_of(machine.slice, machine.pods, options.group, options.oversubscription)
    return Question(*model, tokens, T, machine, cluster)


def room(text: str) -> Machine:
    """The machine that so many chips are: a shape is taken as it is written.

    >>> [str(room(text)) for text in ("512xH100", "64xv5p", "6144xv5p", "576xGB200", "512xGB200", "8192xv5p", "4x8xv5e")]
    ['64 domains of 8', '4x4x4', '16x16x24', '8 domains of 72', '8 domains of 64', '2 slices of 16x16x16', '4x8']
    """
    shape, kind = _numbers_and_chip(text, r"(\d[\d,_]*(?:x\d+)*) *x? *([a-z].*)", EXAMPLE)
    if len(shape) > 1 and kind.axes:
        return Machine(Slice(kind, shape))
    n = _counted(prod(shape))
    if machine := next(ways(kind, n), None):
        return machine
    near = [next(m for m in way if any(ways(kind, m))) for way in (range(n, 0, -1), range(n, 2 * MOST))]
    unit = "slice, nor several slices alike" if kind.axes else f"whole number of domains of {kind.pod[0]}"
    raise ValueError(f"{n} {kind.name} are no {unit}: take {near[0]} or {near[1]}")


def of_chips(text: str) -> tuple[Chip, int | None]:
    """A chip and how many of them: None, as few as needed, where the text has no number.

    >>> [(of.name, n) for of, n in map(of_chips, ("16xH200", "h200", "1,024xB200"))]
    [('H200', 16), ('H200', None), ('B200', 1024)]
    """
    n, kind = _numbers_and_chip(text, r"(?:(\d[\d,_]*) *x? *)?([a-z].*)", "16xH200, or H200 alone")
    return kind, _counted(*n) if n else None


def _numbers_and_chip(text: str, pattern: str, example: str) -> tuple[tuple[int, ...], Chip]:
    match = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
    if not match:
        raise ValueError(f"--chips is how many of which, such as {example}, and not {text!r}")
    return tuple(int(n) for n in re.sub("[,_]", "", match[1] or "").lower().split("x") if n), chip(match[2])


def _counted(n: int) -> int:
    if not 1 <= n <= MOST:
        raise ValueError(f"--chips is from 1 to {MOST:,} of them, and not {n:,}")
    return n


def where(machine: Machine) -> str:
    """What these chips are, in words.

    >>> [where(room(text)) for text in ("512xH100", "4xH100", "8192xv5p", "64xv5e")]
    ['64 domains of 8', 'in one domain', '2 slices of 16x16x16', 'a slice of 8x8']
    """
    return ("a slice of " if machine.slice.chip.axes else "in ") * (machine.pods == 1) + str(machine)


def model_of(options) -> tuple[Config, str]:
    """The model and what it is called."""
    if bool(options.model) == bool(options.config):
        example = SERVES if options.task == "serve" else COMMAND
        raise ValueError(f"give a public model or --config with the path of a config.json, one of the two: {example}")
    if options.model:
        return model(options.model), options.model
    try:
        return Config.from_hf(options.config), Path(options.config).name
    except OSError as e:
        raise ValueError(f"{options.config} cannot be read ({e.strerror}): give the path of a config.json") from None


def remarks(c: Config, training: bool, from_file: bool) -> str:
    """Lines with what the model of a file holds, and with what is priced as something else; "" if there is neither.

    from_file  whether it was read from a file

    >>> remarks(model("deepseek-v3.2"), True, False), remarks(model("llama-3-8b"), True, False)
    ('  Counted and priced: what an indexer scores as more keys of attention.\\n', '')
    """
    said = list(c.said)
    if training and any(kind.linear for kind, _ in c.groups):
        said.append("a state's mixer in training as attention to as many keys as have its FLOPs")
    if training and any(getattr(c.mixer(kind), "indexer", None) for kind, _ in c.groups):
        said.append("what an indexer scores as more keys of attention")
    lines = [f"  Counted and priced: {'; '.join(said)}."] if said else []
    if from_file:
        p, S = parameters(c), 2**20
        token = (kv_cache(c, 2 * S) - kv_cache(c, S)) / S
        inputs = sum(2 * n * c.mixer(kind).inputs for kind, n in c.groups if kind.linear)
        fixed = kv_cache(c, S) - token * S - inputs
        caches = f"a cache in bf16 grows by {token:,.0f} bytes a token" + f", beside {fixed:,.0f} bytes" * bool(fixed)
        caches += f" and {inputs:,.0f} of what convolutions see" * bool(inputs)
        active = f", {p.active:,} of them active" * (p.active != p.total)
        lines.insert(0, f"  The model has {p.total:,} parameters{active}; {caches}.")
    return "".join(line + "\n" for line in lines)


def number(text: str) -> int:
    """A whole number, perhaps with commas between its thousands."""
    digits = re.sub(r"(?<=\d)[,_](?=\d{3})", "", text)
    if not re.fullmatch(r"-?\d+", digits):
        raise argparse.ArgumentTypeError(f"a whole number such as 8192, and not {text!r}")
    return int(digits)


def share(text: str) -> float:
    """A number from 0 to 1."""
    return _number(text, lambda x: 0 <= x <= 1, "a share from 0 to 1, such as 0.6")


def shares(text: str) -> tuple[float, ...]:
    """Several of them, with commas between."""
    return tuple(share(part) for part in text.split(","))


def amount(text: str) -> float:
    """A number above 0."""
    return _number(text, lambda x: 0 < x < inf, "a number above 0, such as 2.5 or 1e12")


def _number(text: str, is_allowed: Callable[[float], bool], words: str) -> float:
    with suppress(ValueError):
        if is_allowed(x := float(text)):
            return x
    raise argparse.ArgumentTypeError(f"{words}, and not {text!r}")
