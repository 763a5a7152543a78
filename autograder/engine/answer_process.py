"""What runs inside the walls: a learner's cells, and calls to what they define. Nothing here is trusted afterwards.

Requests: run a cell, get a name, call or look into what was got, export a function, make the program of a function.
Replies carry values, texts and programs, never a verdict, and the number of the request that they answer.
"""

import ast
import builtins
import contextlib
import gc
import inspect
import io
import linecache
import math
import re
import signal
import time
import traceback

from . import wire

PLAIN = bool, int, float, complex, str, type(None)
HANDED_OUT = 10_000  # objects, to one check
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
SHELL = (  # lines of IPython's own, and what stands for them
    (re.compile(r"^(\s*)(?:%|!|\?)(?!=).*$", re.M), r"\1pass"),
    (re.compile(r"^(\s*)[\w.*]+\?\??[ \t]*$", re.M), r"\1pass"),
    (re.compile(r"^(\s*[\w, ]+?\s*=\s*)!.*$", re.M), r"\1[]"),
    (re.compile(r"^(\s*[\w, ]+?\s*=\s*)%\s*[a-z].*$", re.M), r"\1None"),
)


def serve(sock, limits: dict) -> None:
    """Answer requests until the socket closes."""
    save_time()
    session = Session(limits)
    signal.signal(signal.SIGINT, session.interrupt)
    while True:
        try:
            request = wire.receive(sock, handle=session.named)
        except wire.Closed:
            return
        number = request.pop("number", None)
        try:
            session.busy = True
            reply = getattr(session, request.pop("op"))(**request)
            session.busy = False
        except BaseException as e:
            session.busy = False
            reply = {"error": told(e)}
        try:
            wire.send(sock, reply | {"number": number}, session.handle)
        except wire.Closed:
            return
        except BaseException as e:
            wire.send(sock, {"error": told(e), "number": number})


def save_time() -> None:
    """Leave out what small work gains nothing from; it changes no result. The checker does so, too."""
    import jax

    gc.set_threshold(50_000, 20, 100)
    jax.config.update("jax_disable_most_optimizations", True)  # arrays are small: compiling them well takes longest
    jax.config.update("jax_traceback_in_locations_limit", 0)  # nobody reads in a program where its lines stood


class Session:
    """The learner's names, and the objects that were handed out by number."""

    def __init__(self, limits: dict):
        self.limits = limits
        self.scope = {"__name__": "__main__", "__builtins__": builtins, "display": self.display, "_": ""}
        self.objects: list = []
        self.handed_out = 0  # of these, since a check asked for a name
        self.outputs: list[dict] = []
        self.cells = 0
        self.busy = False

    def interrupt(self, *_) -> None:
        """Stop what a request asked for; one that comes too late must not cut a message in two."""
        if self.busy:
            raise KeyboardInterrupt

    # -- requests

    def run(self, source: str, name: str) -> dict:
        """Run a cell; what it printed, displayed and raised."""
        self.outputs, self.cells = [], self.cells + 1
        file = f"<{name}>"
        said = {"stdout": Bounded(self.limits["output"]), "stderr": Bounded(self.limits["output"])}
        fault = None
        with contextlib.redirect_stdout(said["stdout"]), contextlib.redirect_stderr(said["stderr"]):
            try:
                source = plain(source)
                linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
                value = executed(source, file, self.scope)
                if value is not None:
                    self.scope["_"] = value
                    self.display(value, kind="result")
            except BaseException as e:
                fault = e
        streams = [{"kind": n, "text": s.getvalue()} for n, s in said.items() if s.getvalue()]
        errors = [error(fault)] if fault is not None else []
        return {"ok": fault is None, "outputs": streams + self.outputs + errors}

    def get(self, name: str) -> dict:
        """The value of a name, which a check asks for before all else."""
        self.handed_out = 0
        found = name in self.scope and name != "display"
        return {"found": found, "value": self.scope[name] if found else None}

    def call(self, id: int, args: tuple, kwargs: dict) -> dict:
        """Call what was handed out; its value, and whether it changes its arguments in place."""
        with self.silent():
            return self.called(id, args, kwargs)

    def several(self, id: int, cases: list[tuple]) -> dict:
        """Call what was handed out for one case after the other, until one fails or a second of a processor is over."""
        values, ends = [], time.process_time() + 1
        with self.silent():
            for args in cases:
                if time.process_time() > ends:
                    break
                try:
                    reply = self.called(id, args, {})
                    if reply["changed"]:
                        break
                    values.append(wire.dumps(reply["value"], self.handle))  # at once, for the next call may change it
                except Exception:  # it is asked for by itself, and told
                    break
        return {"values": values}

    def attribute(self, id: int, name: str) -> dict:
        """A public attribute: what the learner's object says, which need not be true."""
        return {"value": getattr(self.objects[id], name)}

    def export(self, id: int, args: tuple, kwargs: dict) -> dict:
        """A function as a program for arguments of these shapes."""
        import jax

        leaves, tree = jax.tree.flatten((args, kwargs))
        traced = [i for i, x in enumerate(leaves) if isinstance(x, jax.ShapeDtypeStruct)]
        shapes = {}

        def f(*arrays):
            given = list(leaves)
            for i, a in zip(traced, arrays):
                given[i] = a
            args, kwargs = jax.tree.unflatten(tree, given)
            out = self.objects[id](*args, **kwargs)
            flat, shapes["tree"] = jax.tree.flatten(out)
            return flat

        with self.silent():
            program = lowered(jax.jit(f, keep_unused=True), [leaves[i] for i in traced])
        return {"program": program, "tree": jax.tree.unflatten(shapes["tree"], range(shapes["tree"].num_leaves))}

    def program(
        self, id: int, axes: dict, ins: list, out, stacked: bool, static: tuple, args: list, whole=False
    ) -> dict:
        """The program of a function of one device on a mesh: what `check.Program` reads and runs.

        whole  with all that `jax.export` adds, so that JAX can call it
        """
        import jax.export

        mesh = jax.make_mesh(
            tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
            devices=jax.devices()[: math.prod(axes.values())],
        )  # fmt: skip

        def f(*blocks):
            found = self.objects[id](*blocks, *static)
            return found[None] if stacked else found

        sharded = jax.shard_map(f, mesh=mesh, in_specs=tuple(ins), out_specs=out, check_vma=False)
        jitted = jax.jit(sharded, keep_unused=True)
        with self.silent():
            return {"program": bytes(jax.export.export(jitted)(*args).serialize()) if whole else lowered(jitted, args)}

    # -- for the requests

    def called(self, id: int, args: tuple, kwargs: dict) -> dict:
        """What a call gives, and whether it has changed its arguments."""
        before = _written(args)
        value = self.objects[id](*args, **kwargs)
        return {"value": value, "changed": before is not None and _written(args) != before}

    def handle(self, thing) -> dict:
        """A number for a thing that has no plain value."""
        self.objects.append(thing)
        self.handed_out += 1
        if self.handed_out > HANDED_OUT:
            raise wire.WireError(f"More than {HANDED_OUT:,} objects were handed out.")
        name = getattr(thing, "__name__", None)
        return {
            "id": len(self.objects) - 1, "name": name[:80] if isinstance(name, str) else None,
            "type": type(thing).__name__[:80], "callable": callable(thing),
        }  # fmt: skip

    def named(self, handle: dict):
        return self.objects[handle["id"]]

    def display(self, *things, kind: str = "display", **_) -> None:
        """A thing as text, and as HTML if it knows how."""
        for thing in things:
            if len(self.outputs) >= self.limits["displays"]:
                return
            data = {"text/plain": Bounded.cut(repr(thing), self.limits["output"])}
            html = getattr(thing, "_repr_html_", None)
            if callable(html) and isinstance(page := html(), str) and len(page) <= self.limits["output"]:
                data["text/html"] = page
            self.outputs.append({"kind": kind, "data": data})

    @contextlib.contextmanager
    def silent(self):
        """What an answer prints when a check calls it is nobody's business."""
        with contextlib.redirect_stdout(Bounded(0)), contextlib.redirect_stderr(Bounded(0)):
            yield


def _written(args: tuple):
    """What can be changed in place among arguments as it is written now, if there is any."""
    changing = [a for a in args if not isinstance(a, PLAIN)]
    return wire.dumps(changing, lambda thing: {}) if changing else None


class Bounded(io.TextIOBase):
    """A text that forgets what is too much."""

    def __init__(self, limit: int):
        self.parts, self.left = [], limit

    def write(self, text: str) -> int:
        if self.left > 0:
            self.parts.append(text if len(text) <= self.left else f"{text[: self.left]}\n… and more, left out\n")
            self.left -= len(text)
        return len(text)

    def writable(self) -> bool:
        return True

    def getvalue(self) -> str:
        return "".join(self.parts)

    @staticmethod
    def cut(text: str, limit: int) -> str:
        return text if len(text) <= limit else f"{text[:limit]} …"


def plain(source: str) -> str:
    r"""A cell without IPython's own lines: `%%time` goes, `%matplotlib inline` and `!pip …` do nothing.

    >>> plain("%%time\nx = 1\nif x:\n    %matplotlib inline\n    y = x % 2")
    'x = 1\nif x:\n    pass\n    y = x % 2'
    >>> plain("print?\nfiles = !ls\nhere = %pwd\nx = 7 %2")
    'pass\nfiles = []\nhere = None\nx = 7 %2'
    """
    first, _, rest = source.partition("\n")
    if first.startswith("%%"):
        source = rest if first.split()[0] in ("%%time", "%%timeit", "%%capture") else ""
    try:
        ast.parse(source)
        return source
    except SyntaxError:
        for line, instead in SHELL:
            source = line.sub(instead, source)
        return source


def executed(source: str, file: str, scope: dict):
    """Run a cell; the value of its last expression."""
    return carried_out(*compiled(source, file), scope)


def carried_out(code, last, scope: dict):
    found = [None if part is None else _finished(eval(part, scope), part) for part in (code, last)]
    return found[1]


def _finished(value, code):
    """What a cell gave that may await at its top level."""
    if not code.co_flags & inspect.CO_COROUTINE:
        return value
    import asyncio

    return asyncio.run(value)


def compiled(source: str, file: str) -> tuple:
    """A cell, and its last expression if that has a value."""
    body = ast.parse(source, file).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    value = None if last is None else compile(ast.Expression(last.value), file, "eval", AWAIT)
    return compile(ast.Module(body, []), file, "exec", AWAIT), value


def lowered(jitted, args) -> bytes:
    """A function as a program: its StableHLO, which is half of the work of `jax.export`."""
    module = jitted.trace(*args).lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo")
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def error(e: BaseException) -> dict:
    """An exception as a notebook shows it, without our own frames."""
    lines = traceback.format_exception(type(e), e, _theirs(e.__traceback__), limit=-8)
    text = Bounded.cut("".join(lines), 20_000)
    return {"kind": "error", "ename": type(e).__name__[:200], "evalue": Bounded.cut(_text(e), 2000), "traceback": text}


def _theirs(tb):
    while tb and tb.tb_next and tb.tb_frame.f_code.co_filename == __file__:
        tb = tb.tb_next
    return tb


def told(e: BaseException) -> dict:
    """An exception for the checker: its type, the known types that it is one of, its text."""
    from helpers.check.compare import OffLimits

    kinds = [k.__name__[:80] for k in type(e).__mro__][:12]
    number, line = last_own_line(e)
    at, text = {"number": number, "text": Bounded.cut(line, 200)}, Bounded.cut(_text(e), 4000)
    return {"kinds": kinds, "text": text, "off_limits": isinstance(e, OffLimits), "at": at}


def last_own_line(e: BaseException) -> tuple[int, str]:
    """(its number, its text) of the last line of a learner's cell that was at work."""
    found = 0, ""
    for frame, number in traceback.walk_tb(e.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith("<") and (text := linecache.getline(file, number).strip()):
            found = number, text
    return found


def _text(e: BaseException) -> str:
    try:
        return str(e)
    except BaseException:
        return ""
