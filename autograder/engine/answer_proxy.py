"""What stands in the checker for a learner's function: a call goes to the child and comes back as a plain value.

Under JAX's tracing there is no value to send, so the child exports the function at the shapes asked for, and the program
is put in its place. `check.Program` asks for the program of one device's function on a mesh in the same way.
"""

import builtins
import pydoc
import re
import secrets
from collections.abc import Callable, Set

from . import wire
from .plain_text import clean

FOREVER = 1e6  # seconds until a message begins: the engine ends the child before


class Lost(Exception):
    """The child does not answer any more."""

    ours = True  # its text is not the learner's


class Link:
    """The checker's end of a child, which the engine watches, and ends if it takes too long.

    readers  of the programs that it sends
    why      tells why it ended; "" if it has ended itself
    lines    of the notebook's cells, each with its number: what an exception may be said to have come from
    """

    def __init__(self, sock, readers, why: Callable[[], str] = str, lines: Set[tuple[int, str]] = frozenset()):
        self.sock, self.readers, self.why, self.lines = sock, readers, why, lines
        self.deadline = None  # seconds of this process's own processor
        self.state, self.ended = "alive", ""

    def ask(self, **request):
        """The child's reply to a request; what its code raised is raised here, under its own name."""
        number = secrets.token_hex(8)
        message = wire.dumps(request | {"number": number}, _given)
        if self.state == "alive":
            try:
                wire.send_bytes(self.sock, *message)
                reply = wire.reply(lambda: wire.receive(self.sock, FOREVER, self.stand_in), number)
            except wire.Closed:
                self.state, self.ended = "dead", self.why() or "the process of the answers ended"
            except wire.WireError:
                self.state, self.ended = "strange", "what came back is no value"
        if self.state != "alive":
            raise Lost(self.ended) from None
        if "error" in reply:
            raise raised(reply["error"], self.lines)
        return reply

    def get(self, name: str) -> tuple[bool, object]:
        """Whether the learner has such a name, and its value; a function is called by it, whatever it says of itself."""
        reply = self.ask(op="get", name=name)
        value = reply.get("value")
        if isinstance(value, Proxy):
            value.__name__ = name
        return reply.get("found") is True, value

    def imported(self, asked: dict | None = None, **request):
        """The program that a request asks for, and the reply; asked: what it must be, as `Imported` takes it."""
        from .exported_program import Imported

        reply = self.ask(**request)
        return Imported(
            reply.get("program"), self, lambda: self.ask(**request, whole=True).get("program"), asked
        ), reply

    def stand_in(self, handle: dict):
        """What stands for a thing that stays in the child; its type has no name, for that could tell what a check has asked."""
        if handle.get("callable") is True:
            return Proxy(self, int(handle["id"]), handle.get("name"))
        return type("object", (Opaque,), {})(self, int(handle["id"]), None)


class Opaque:
    """A thing that stays in the child; its attributes are what it says of itself."""

    def __init__(self, link: Link, number: int, name: str | None):
        from helpers.check.random_inputs import secret  # not before the sandbox has its own `helpers`

        self._link, self._number = link, number
        if isinstance(name, str) and not secret():
            # It comes to stand in messages; where numbers are secret it may hold some.
            self.__name__ = "".join(c for c in clean(name[:80]) if c.isprintable())

    def __getattr__(self, name):
        if name.startswith("_"):  # inspect and copy ask for these
            raise AttributeError(name)
        return self._link.ask(op="attribute", id=self._number, name=name).get("value")

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"<{type(self).__name__}>"


class Proxy(Opaque):
    """A learner's function."""

    def __call__(self, *args, **kwargs):
        import jax

        if any(isinstance(x, jax.core.Tracer | jax.ShapeDtypeStruct) for x in jax.tree.leaves((args, kwargs))):
            return self._traced(args, kwargs)
        reply = self._link.ask(op="call", id=self._number, args=args, kwargs=kwargs)
        if reply.get("changed") is True:
            from helpers.check.raised import Changed

            raise Changed(reply.get("value"))
        return reply.get("value")

    def several(self, cases: list[tuple]) -> list:
        """What the first of these calls give, as many as end well and soon: one message takes longer than most calls."""
        try:
            found = self._link.ask(op="several", id=self._number, cases=cases).get("values")
            return [wire.loads(*one, self._link.stand_in) for one in found[: len(cases)]]
        except Exception:  # each is asked for by itself, and told
            return []

    def _traced(self, args, kwargs):
        import jax

        from .traceable_program import inline

        leaves, tree = jax.tree.flatten((args, kwargs))
        tracers = [x for x in leaves if isinstance(x, jax.core.Tracer)]
        shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.core.Tracer) else x for x in leaves]
        args, kwargs = jax.tree.unflatten(tree, shapes)
        program, reply = self._link.imported(op="export", id=self._number, args=args, kwargs=kwargs)
        out = inline(program.functions, tracers)
        return jax.tree.map(lambda i: out[i], reply.get("tree"))

    def exported_program(self, mesh, ins, out, stacked: bool, static: tuple, args: list):
        """The program of this function of one device, exported by the child; `check.Program` asks for it."""
        asked = dict(axes=dict(zip(mesh.axis_names, mesh.devices.shape)), ins=list(ins), out=out, args=list(args))
        program, _ = self._link.imported(
            asked, op="program", id=self._number, stacked=stacked, static=tuple(static), **asked
        )
        return program


def _given(thing) -> dict:
    if isinstance(thing, Opaque):
        return {"id": thing._number}
    raise wire.WireError(f"A {type(thing).__name__} of a check cannot be handed over to an answer.")


def raised(error, lines: Set[tuple[int, str]] = frozenset()) -> Exception:
    """The learner's exception, as one of ours that has its name, its text and its line, if that is one of these."""
    kinds = [k for k in error.get("kinds", []) if isinstance(k, str)] if isinstance(error, dict) else []
    text = clean(str(error.get("text", ""))[:4000]) if kinds else ""
    if kinds and error.get("off_limits") is True:
        from helpers.check.compare import OffLimits

        return OffLimits(
            text if _refused(text) else "a formula of the course is off limits inside an answer: write it out"
        )
    base = next((found for k in kinds if (found := _known(k))), RuntimeError)
    name = kinds[0] if kinds and kinds[0].isidentifier() else "Exception"
    body = {"__str__": lambda self: text, "__init__": lambda self: None, "own_line": _line(error, lines)}
    body["by_graded_answer"] = True  # so `helpers.check` repeats nothing of its text
    made = type(name, (base,), body)
    return made.__new__(made)


def _refused(text: str) -> bool:
    """Whether a child names a function of the course, and no number that it was called with."""
    name = re.fullmatch(r"(helpers(?:\.\w+)+) is off limits inside an answer: write it out", text)
    return bool(name) and pydoc.locate(name[1]) is not None


def _line(error: dict, lines: Set[tuple[int, str]]) -> tuple[int, str] | None:
    """(number, text) of the learner's line at which it arose, if the child says so and the notebook has it."""
    at = error.get("at") if isinstance(error.get("at"), dict) else {}
    number, text = at.get("number"), at.get("text")
    told = isinstance(number, int) and isinstance(text, str) and (number, text) in lines
    return (number, clean(text)) if told else None


def _known(name: str) -> type[Exception] | None:
    import jax

    found = getattr(jax.errors, name, None) or getattr(builtins, name, None)
    plain = isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, ExceptionGroup)
    return found if plain else None
