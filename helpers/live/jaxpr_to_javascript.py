"""A cost function, traced by JAX, written out as JavaScript for a page's sliders.

There is no second implementation: JAX runs the Python function once on abstract float64 numbers and notes each
primitive operation; here every one of them becomes a line of JavaScript.  Numbers and rows of numbers only.
An operation without a rule below is an error that names it, so a page never shows a wrong figure instead.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import jax
import numpy as np

SHORT = 60  # characters of an element that is computed again where it is used: a longer one is kept in a row
_EXACT = 2**53  # a JavaScript number holds every integer up to here

# One element of the result from one element of each operand.
RULES = {
    "add": "{0}+{1}", "add_any": "{0}+{1}", "sub": "{0}-{1}", "mul": "{0}*{1}", "neg": "-{0}", "square": "{0}*{0}",
    "max": "Math.max({0},{1})", "min": "Math.min({0},{1})", "abs": "Math.abs({0})", "sign": "Math.sign({0})",
    "clamp": "Math.min(Math.max({1},{0}),{2})", "rem": "{0}%{1}", "pow": "{0}**{1}", "exp2": "2**{0}",
    "sqrt": "Math.sqrt({0})", "rsqrt": "1/Math.sqrt({0})", "cbrt": "Math.cbrt({0})",
    "exp": "Math.exp({0})", "expm1": "Math.expm1({0})", "log": "Math.log({0})", "log1p": "Math.log1p({0})",
    "log2": "Math.log2({0})", "tanh": "Math.tanh({0})", "logistic": "1/(1+Math.exp(-{0}))",
    "floor": "Math.floor({0})", "ceil": "Math.ceil({0})", "is_finite": "isFinite({0})",
    "eq": "{0}==={1}", "ne": "{0}!=={1}", "lt": "{0}<{1}", "le": "{0}<={1}", "gt": "{0}>{1}", "ge": "{0}>={1}",
    "copy": "{0}", "copy_p": "{0}", "stop_gradient": "{0}",
}  # fmt: skip
# Rules that give back their other operand when operand n is this literal.
SAME = {("{0}+{1}", 0, "0"), ("{0}+{1}", 1, "0"), ("{0}-{1}", 1, "0"),
        ("{0}*{1}", 0, "1"), ("{0}*{1}", 1, "1"), ("{0}/{1}", 1, "1")}  # fmt: skip
LOGIC = {"and": "{0}&&{1}", "or": "{0}||{1}", "xor": "{0}!=={1}", "not": "!{0}"}
NEUTRAL = {LOGIC["and"]: "true", LOGIC["or"]: "false"}
CHOICE = "{0}?{2}:{1}"
REDUCE = {
    "reduce_sum": "{0}.reduce((p,q)=>p+q,0)", "reduce_prod": "{0}.reduce((p,q)=>p*q,1)",
    "reduce_max": "Math.max(...{0})", "reduce_min": "Math.min(...{0})",
    "reduce_and": "{0}.every(p=>p)", "reduce_or": "{0}.some(p=>p)",
}  # fmt: skip
CALLS = {
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
}
# Math.round rounds halves up; Python and JAX round them to even.
EVEN = "const E=x=>{const r=Math.round(x);return r-x===.5&&r%2?r-1:r};"
AWAY = "const A=x=>Math.sign(x)*Math.floor(Math.abs(x)+.5);"


def javascript(f: Callable, *args: float) -> str:
    """The source of a JavaScript function that computes what `f` does, in float64.

    args  example arguments: numbers, or rows (1-D lists or arrays) of the length that will be passed
    f     returns a number, a row, a tuple of them (an array in JavaScript) or a dict of them (an object)

    >>> print(javascript(lambda C, W, I: max(1.0, 2.0) * (C / W) + I, 1.0, 1.0, 1.0))
    (a,b,c)=>{
    const g=2*(a/b)+c;
    return g}
    """
    writer, names, outs, shape = traced(f, args)
    if isinstance(shape, Mapping):  # JAX hands out the values of a dict in the order of its keys
        if not all(isinstance(k, str) and k.isidentifier() for k in shape) or len(outs) != len(shape):
            raise ValueError("a live function returns a flat dict whose keys are plain names")
        result = "{" + ",".join(f"{k}:{v}" for k, v in zip(sorted(shape), outs)) + "}"
    elif isinstance(shape, tuple | list):
        result = "[" + ",".join(outs) + "]"
    else:
        (result,) = outs
        if result.startswith("{"):
            raise ValueError("a live function returns numbers, rows of numbers, or a tuple or dict of these")
    return folded(f"({','.join(names)})=>{{\n{writer.body(outs)}return {result}}}")


def traced(f: Callable, args: Sequence) -> tuple:
    """The lines of `f` in a `Writer`, the names of its arguments and of its results, and the shape of what it returns."""
    args = [np.asarray(a, dtype=np.float64) for a in args]
    with jax.enable_x64(True):
        closed, shape = jax.make_jaxpr(f, return_shape=True)(*args)
    writer = Writer()
    names = [writer.name() for _ in args]
    values = [_Value(n, a.ndim == 1) for n, a in zip(names, args)]
    outs = writer.inline(closed.jaxpr, closed.consts, values)
    return writer, names, [writer.whole(v, var.aval) for v, var in zip(outs, closed.jaxpr.outvars)], shape


class _Value:
    """The text of one operand: an atom (a name or a literal); `row` if it is a JavaScript array.

    entry  a short text of its element i, which mentions the atoms `uses`: one pass over a row in place of two
    """

    def __init__(self, text: str, row: bool = False, entry: str = "", uses: Sequence[str] = ()):
        self.text, self.row, self.entry, self.uses = text, row, entry, uses or [text]

    @property
    def element(self) -> str:
        if self.entry:
            return f"({self.entry})"
        return f"{self.text}[i]" if self.row else self.text


def constants(lines: Iterable[tuple[str, str]]) -> str:
    """Names and expressions as one statement.

    >>> constants([("a", "1"), ("b", "a+1")])
    'const a=1,\\nb=a+1;\\n'
    """
    text = ",\n".join(f"{name}={expression}" for name, expression in lines)
    return text and f"const {text};\n"


def _literal(x) -> str:
    """A Python or NumPy number as a JavaScript atom.

    >>> _literal(-2.5), _literal(True), _literal(float("inf"))
    ('(-2.5)', 'true', 'Infinity')
    """
    x = np.asarray(x)[()]
    if isinstance(x, np.bool_):
        return "true" if x else "false"
    if isinstance(x, np.integer):
        if abs(int(x)) > _EXACT:
            raise ValueError(
                f"the integer {x} is larger than 2**53, which JavaScript cannot hold exactly: make it a float"
            )
        text = str(int(x))
    elif np.isfinite(x):
        text = repr(float(x)).removesuffix(".0").replace("e+", "e")
    else:
        text = "NaN" if np.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    return f"({text})" if text.startswith("-") else text


class Writer:
    """Collects lines `name = expression`; one that occurs twice is written once, one that nobody needs not at all."""

    # JavaScript's, and those of scripts here.
    RESERVED = set("do if in of as is for let new try var E A i p q r x f all".split())

    def __init__(self):
        self.count, self.lines, self.known, self.helpers = 0, {}, {}, set()

    def name(self) -> str:
        """The next unused short name: a, b, …, z, aa, ab, …"""
        while True:
            self.count, n, text = self.count + 1, self.count, ""
            while n >= 0:
                text, n = chr(97 + n % 26) + text, n // 26 - 1
            if text not in self.RESERVED:
                return text

    def line(self, expression: str, uses, row: bool = False) -> _Value:
        """A new name for `expression`, which mentions the values `uses`."""
        if expression not in self.known:
            name = self.name()
            self.known[expression] = name
            self.lines[name] = (expression, [u.text for u in uses])
        return _Value(self.known[expression], row)

    def needed(self, wanted) -> list[tuple[str, str]]:
        """The lines that `wanted` names depend on, in order: names and expressions."""
        alive = set(wanted)
        for name, (_, uses) in reversed(self.lines.items()):
            if name in alive:
                alive.update(uses)
        return [(n, e) for n, (e, _) in self.lines.items() if n in alive]

    def body(self, wanted) -> str:
        """The same as text, behind the helpers that they call."""
        text = constants(self.needed(wanted))
        used = [h for h in sorted(self.helpers) if f"{h[6]}(" in text]
        return "".join(h + "\n" for h in used) + text

    def whole(self, value: _Value, aval) -> str:
        """The text of a value in full: a number that stands for a whole row is written out as one."""
        if len(aval.shape) == 1 and not value.row:
            return self.line(f"Array({aval.shape[0]}).fill({value.text})", [value], row=True).text
        return value.text

    def inline(self, jaxpr, consts, args) -> list[_Value]:
        """Write every equation of `jaxpr`, calls included; the values of its results."""
        env = dict(zip(jaxpr.constvars, map(self.constant, consts))) | dict(zip(jaxpr.invars, args))

        def read(v):
            return self.constant(v.val) if hasattr(v, "val") else env[v]

        for eqn in jaxpr.eqns:
            ins, name = [read(v) for v in eqn.invars], eqn.primitive.name
            if name in CALLS:
                inner = next(eqn.params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in eqn.params)
                outs = self.inline(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), ins)
            else:
                outs = [self.equation(eqn, name, ins)]
            env.update(zip(eqn.outvars, outs))
        return [read(v) for v in jaxpr.outvars]

    def constant(self, x) -> _Value:
        x = np.asarray(x)
        if x.ndim == 0:
            return _Value(_literal(x))
        _check(x.shape, x.dtype, "a constant")
        return self.line("[" + ",".join(map(_literal, x)) + "]", [], row=True)

    def equation(self, eqn, name: str, ins: list[_Value]) -> _Value:
        """One primitive as one line."""
        aval = eqn.outvars[0].aval
        _check(aval.shape, aval.dtype, name)
        if (structural := getattr(self, f"do_{name}", None)) is not None:
            return structural(eqn, aval, ins)
        if name in REDUCE:
            (row,) = [self.whole(v, a.aval) for v, a in zip(ins, eqn.invars)]
            return self.line(REDUCE[name].format(row), [_Value(row)])
        rule = self.rule(eqn, name, aval)
        return self.each(rule, ins, aval)

    def each(self, rule: str, ins: list[_Value], aval) -> _Value:
        """`rule` once for a number, for every element of a row otherwise."""
        if rule == "{0}":
            return ins[0]
        if rule == CHOICE and ins[1].row == ins[2].row:  # a choice between equals, or by what is known
            known = {"true": ins[2], "false": ins[1]}.get(ins[0].text)
            if known or ins[1].text == ins[2].text:
                return known or ins[1]
        if rule in NEUTRAL and len({i.row for i in ins}) == 1:  # x || false and the like
            for x, other in (ins, ins[::-1]):
                if x.text in ("true", "false"):
                    return other if x.text == NEUTRAL[rule] else x
        for n, other in ((0, 1), (1, 0)):  # x+0 and the like are x
            if len(ins) == 2 and (rule, n, ins[n].text) in SAME and ins[n].row <= ins[other].row:
                return ins[other]
        text = rule.format(*(v.element for v in ins))
        if any(v.row for v in ins):
            uses = [_Value(name) for v in ins for name in v.uses]
            row = self.line(f"Array.from({{length:{aval.shape[0]}}},(_,i)=>{text})", uses, row=True)
            return _Value(row.text, True, text, [u.text for u in uses]) if len(text) < SHORT else row
        return self.line(text, ins)

    def rule(self, eqn, name: str, aval) -> str:
        """The text for one element; an unknown primitive ends the build."""
        operand = eqn.invars[0].aval.dtype
        if name in RULES:
            return RULES[name]
        if name in LOGIC and operand == np.bool_:
            return LOGIC[name]
        if name == "div":
            return "{0}/{1}" if np.issubdtype(operand, np.floating) else "Math.trunc({0}/{1})"
        if name == "integer_pow":
            y = eqn.params["y"]
            return "*".join(["{0}"] * y) if 1 < y < 4 else f"{{0}}**{y}"
        if name == "round":
            even = int(eqn.params["rounding_method"]) == 1
            self.helpers.add(EVEN if even else AWAY)
            return "E({0})" if even else "A({0})"
        if name == "select_n":
            if operand == np.bool_:
                return CHOICE
            return "[" + ",".join(f"{{{k}}}" for k in range(1, len(eqn.invars))) + "][{0}]"
        if name == "convert_element_type":
            return _cast(operand, aval.dtype)
        raise NotImplementedError(
            f"a live figure uses the JAX primitive {name!r}, which {__name__} cannot write as JavaScript: add a rule for it"
        )

    def do_broadcast_in_dim(self, eqn, aval, ins):
        if ins[0].row and eqn.invars[0].aval.shape != aval.shape:  # a row of one
            return self.line(f"{ins[0].text}[0]", ins)
        return ins[0]

    def do_reshape(self, eqn, aval, ins):
        if ins[0].row and aval.shape == ():
            return self.line(f"{ins[0].text}[0]", ins)
        return ins[0]

    do_squeeze = do_reshape
    do_expand_dims = do_reshape

    def do_slice(self, eqn, aval, ins):
        if eqn.params["strides"] not in (None, (1,)):
            raise NotImplementedError(
                "helpers.live.jaxpr_to_javascript cannot write 'slice' with a stride as JavaScript yet"
            )
        if not ins[0].row:
            return ins[0]
        return self.line(
            f"{ins[0].text}.slice({eqn.params['start_indices'][0]},{eqn.params['limit_indices'][0]})", ins, row=True
        )

    def do_iota(self, eqn, aval, ins):
        return self.constant(np.arange(aval.shape[0]))

    def do_concatenate(self, eqn, aval, ins):
        parts = [self.whole(v, a.aval) for v, a in zip(ins, eqn.invars)]
        return self.line(f"[].concat({','.join(parts)})", [_Value(t) for t in parts], row=True)

    do_stack = do_concatenate


def _cast(old, new) -> str:
    if new == np.bool_ and old != np.bool_:
        return "{0}!==0"
    if old == np.bool_ and new != np.bool_:
        return "+{0}"
    if np.issubdtype(old, np.floating) and np.issubdtype(new, np.integer):
        return "Math.trunc({0})"
    return "{0}"


def _check(shape, dtype, primitive: str) -> None:
    """Refuse what a JavaScript number or row of numbers cannot stand for."""
    if len(shape) > 1:
        raise NotImplementedError(
            f"helpers.live.jaxpr_to_javascript writes numbers and rows of numbers; {primitive} makes an array of shape {tuple(shape)}"
        )
    if dtype not in (np.float64, np.int64, np.int32, bool):
        raise NotImplementedError(f"helpers.live.jaxpr_to_javascript computes in float64; {primitive} makes {dtype}")


NAME = re.compile(r"(?<![\w.$])[a-z]+(?![\w$])")
BLOCK = re.compile(r"(?<=const )(?=[a-z])[^;]*(?=;\n)")
ATOM = r"(?:[a-z]+|\d[\d.]*(?:e-?\d+)?|\(-[\d.]+(?:e-?\d+)?\)|Infinity)(?:\[\d+\])?"
PAIR = re.compile(f"({ATOM})([-+*/])({ATOM})")
CALL = re.compile(rf"(?:Math\.\w+|[EA])\({ATOM}(?:,{ATOM})*\)")
LOOSE, SUM, PRODUCT, CLOSED = range(4)  # how tightly the parts of an expression hold together


def folded(source: str) -> str:
    r"""The source of a function with every number that is used once, in the same statement, put where it is used.

    >>> folded("(a,b,c)=>{\nconst d=a/b,\ne=2*d,\ng=e+c;\nreturn g}")
    '(a,b,c)=>{\nconst g=2*(a/b)+c;\nreturn g}'
    >>> folded("(a)=>{\nconst b=a-1,\nc=a-b,\nd=c*c;\nreturn [d,b]}")
    '(a)=>{\nconst b=a-1,\nc=a-b,\nd=c*c;\nreturn [d,b]}'
    """
    counts = Counter(NAME.findall(source))
    return BLOCK.sub(lambda match: _statement(match[0], counts), source)


def _statement(text: str, counts: Counter) -> str:
    lines = [line.split("=", 1) for line in text.split(",\n")]
    here = {n for _, e in lines if "=>" not in e for n in NAME.findall(e)}
    waiting: dict[str, tuple[str, int]] = {}
    out = []
    for name, expression in lines:
        expression, level = _filled(expression, waiting) if "=>" not in expression else (expression, LOOSE)
        if counts[name] == 2 and name in here and "=>" not in expression and expression[0] != "[":
            waiting[name] = expression, level
        else:
            out.append(f"{name}={expression}")
    return ",\n".join(out)


def _filled(expression: str, waiting: dict) -> tuple[str, int]:
    """An expression with what waited for it, and how tightly it holds together."""

    def put(least: int):
        def one(match: re.Match) -> str:
            text, level = waiting.pop(match[0], (match[0], CLOSED))
            return text if level >= least else f"({text})"

        return one

    if pair := PAIR.fullmatch(expression):
        left, sign, right = pair.groups()
        level = SUM if sign in "+-" else PRODUCT
        parts = [
            NAME.sub(put(CLOSED if operand.endswith("]") else least), operand)
            for operand, least in ((left, level), (right, level + 1))
        ]
        return sign.join(parts), level
    if CALL.fullmatch(expression):
        return NAME.sub(put(LOOSE), expression), CLOSED
    return NAME.sub(put(CLOSED), expression), CLOSED if NAME.fullmatch(expression) else LOOSE
