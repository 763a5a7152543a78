"""The golden list of what each kernel sends: python -m tools.sends

It writes tests/helpers/kernels/sends.txt anew and prints what has changed: for each program its collectives in order, as
the jaxpr of one device has them, and the bytes that a device sends. A test holds the file against the programs, so that a
change of what is sent is seen in the diff of the change that makes it. Programs are traced and never run.

    7 x Permute_X bf16[2, 3] -> [2, 3] by +1; scan x7

A permute says how many places on each device sends, or who sends to whom. Behind ";" stand the loops around it, and
"remat" for a layer that is computed again in the backward pass. Bytes are those of ring algorithms that turn one way.

A new kernel gets a line in `PROGRAMS` of the sends.py of its room's tests: a name, which begins with the module and the
function, and a function without arguments that gives the program and its arguments, as shapes.
"""

from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import cache
from math import prod
from pathlib import Path

import jax

from helpers.trace.jaxpr.collectives import moving, read
from helpers.trace.jaxpr.walk import Visit, walk
from tests.helpers.kernels.attention import sends as attention
from tests.helpers.kernels.experts import sends as experts
from tests.helpers.kernels.inference import sends as inference
from tests.helpers.kernels.racks import sends as racks
from tests.helpers.kernels.sharding import sends as sharding
from tests.helpers.kernels.training import sends as training
from tests.helpers.kernels.transformers import sends as transformers

COMMAND = "python -m tools.sends"
LIST = Path(__file__).resolve().parents[1] / "tests/helpers/kernels/sends.txt"
ROOMS = dict(
    sharding=sharding, transformers=transformers, attention=attention, training=training, inference=inference, racks=racks,
    experts=experts,
)  # fmt: skip
TABLE: dict[str, Callable[[], tuple]] = {
    f"{room}.{name}": make for room, module in ROOMS.items() for name, make in module.PROGRAMS.items()
}
AROUND = {"scan": "scan", "while": "while", "cond": "cond", "remat2": "remat", "checkpoint": "remat"}


@cache
def traced(name: str):
    """The jaxpr of a program of the table."""
    f, args = TABLE[name]()
    return jax.make_jaxpr(f)(*args)


def lines(jaxpr) -> list[str]:
    """A line for each collective of a program, one for each doubt, and the bytes by axes."""
    sent, ways = read(jaxpr), _ways(jaxpr)
    out = [f"{c}{next(ways) if c.kind == 'Permute' else ''}{_around(c.note)}" for c in sent]
    each = ", ".join(f"{n:,.10g} over {axes}" for axes, n in sent.by_axis.items())
    return [*out, *sent.doubts, f"bytes: {each}" if each else "nothing is sent"]


def _around(note: str) -> str:
    """Loops, branches and layers that run again, outermost first; calls are left out, which each JAX names as it likes."""
    around = [step.split() for step in note.split(" > ")]
    kept = [" ".join([AROUND[name], *trips]) for name, *trips in around if name in AROUND]
    return f"; {' > '.join(kept)}" if kept else ""


def _ways(jaxpr) -> Iterator[str]:
    """Where each permute of a program takes things, in the order of `read`."""
    for v in walk(jaxpr, choose_branches=_busiest):
        if v.name == "ppermute":
            axes, pairs = v.eqn.params["axis_name"], v.eqn.params["perm"]
            axes = (axes,) if isinstance(axes, str) else axes
            if moving(axes, pairs, v.axes):
                yield from [_way(pairs, prod(v.axes[a] for a in axes))] * len(v.eqn.invars)


def _busiest(branches, visit: Visit):
    return max(branches, key=lambda b: read(b, visit).wire)


def _way(pairs, n: int) -> str:
    """
    >>> _way([(0, 1), (1, 2), (2, 0)], 3), _way([(0, 2), (1, 0), (2, 1)], 3), _way([(0, 1), (1, 2)], 3)
    (' by +1', ' by -1', ' 0>1 1>2')
    """
    steps = {(target - source) % n for source, target in pairs}
    if len(pairs) == n and len(steps) == 1:
        step = steps.pop()
        return f" by {step if step <= n // 2 else step - n:+}"
    return " " + " ".join(f"{source}>{target}" for source, target in sorted(pairs) if source != target)


def blocks_of(text: str, room: str) -> str:
    """What a list says of the programs of a room."""
    return "\n\n".join(b for b in text.strip().split("\n\n") if b.startswith(f"{room}."))


def text(*rooms: str) -> str:
    """The list, as it is now, of some rooms or all."""
    blocks = []
    for name in (n for n in TABLE if not rooms or n.partition(".")[0] in rooms):
        try:
            blocks.append("\n  ".join([name, *lines(traced(name))]))
        except Exception as e:
            e.add_note(f"while tracing {name}")
            raise
    return "\n\n".join(blocks) + "\n"


def changed(old: str, new: str) -> str:
    """What differs, program by program, as a unified diff; "" if nothing does.

    >>> print(changed("f\\n  AllReduce\\n\\ng\\n  Permute\\n", "f\\n  AllReduce\\n\\ng\\n  Permute\\n  AllGather\\n"))
    --- g
    +++ g, now
    @@ -1,2 +1,3 @@
     g
       Permute
    +  AllGather
    """
    before, now = ({b.partition("\n")[0]: b.splitlines() for b in t.strip().split("\n\n") if b} for t in (old, new))
    names = [*before, *(name for name in now if name not in before)]
    out = [unified_diff(before.get(n, []), now.get(n, []), n, f"{n}, now", lineterm="", n=5) for n in names]
    return "\n".join(line for some in out for line in some)


def main() -> None:
    old, new = LIST.read_text(encoding="utf-8") if LIST.is_file() else "", text()
    LIST.write_text(new, encoding="utf-8")
    print(changed(old, new) or f"{len(TABLE)} programs send what {LIST.name} says: nothing has changed")


if __name__ == "__main__":
    main()
