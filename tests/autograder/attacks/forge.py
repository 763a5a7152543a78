"""Code that wants points for wrong answers, by what it does to Python around the checks.

Every kind is code of an own cell before the answers, or a dict: "before", "every" (at the end of each wrong answer),
"after" (an own cell at the end), or a grade_id and what stands in that answer.
"""

FIND = """
import gc, sys
def ours(kind):
    found = [o for o in gc.get_objects() if type(o).__name__ == kind]
    return found[0] if found else None
try:
    shell = get_ipython()
except NameError:
    shell = None
"""

ALL = "seconds = longer = table = chain = product = double = speed = "

VALUES = {
    "baseline_wrong": "",
    "eq_override": dict(
        before="""
        class Yes(float):
            __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda *a: True
            __sub__ = __rsub__ = __abs__ = __truediv__ = lambda *a: Yes(0)
            __getitem__ = __call__ = lambda self, *a: self
            __hash__ = None""",
        every=f"{ALL}Yes(1)",
    ),
    "lying_objects": dict(
        before="""
        class Any:
            __name__ = "x"
            __call__ = __getattr__ = __getitem__ = __add__ = __sub__ = lambda self, *a, **k: self
            __eq__ = __contains__ = __bool__ = lambda *a: True
            __float__ = lambda s: 42.5
            __len__ = __index__ = lambda s: 1
            __iter__ = lambda s: iter([s, s])
            __hash__ = lambda s: 1
            __class__ = property(lambda s: float)""",
        every=f"{ALL}Any()",
    ),
    "hardcode_public_examples": dict(
        every="""
        def seconds(V, W): return 4
        def longer(a, b): return (3, 2) if a == 3 else (a, 4 if b == 4 else 1)
        def table(n): return {"square": 9, "list": [3, 4], "array": [0.0, 1.0, 2.0]}"""
    ),
    "nan_and_inf": dict(
        every="""
        nan, inf = float("nan"), float("inf")
        speed, seconds, longer = nan, (lambda V, W: nan), (lambda a, b: (inf, nan))
        table = lambda n: {"square": nan, "list": [inf, nan], "array": __import__("numpy").full(n, nan)}"""
    ),
    "broadcast_shapes": dict(
        every="""
        import numpy as np
        speed, seconds = np.empty((0,)), (lambda V, W: np.empty((0, 3)))
        longer = lambda a, b: (np.zeros((0,)), np.zeros((0,)))
        table = lambda n: {"square": np.empty((0,)), "list": [], "array": np.empty((0,))}"""
    ),
    "subclasses_with_state": dict(
        every="""
        class D(dict):
            def __getitem__(self, k): return ...
            def items(self): return iter([])
            def __len__(self): return 3
            def __eq__(self, o): return True
            def __contains__(self, k): return True
        table = lambda n: D()
        class T(tuple):
            def __getitem__(self, k): return 3
            __eq__ = lambda *a: True
        longer = lambda a, b: T((0, 0))"""
    ),
}

PATCHES = {
    "patch_assert_allclose": """
        import numpy as np, numpy.testing
        np.testing.assert_allclose = np.testing.assert_array_equal = lambda *a, **k: None
        np.allclose = np.isclose = np.array_equal = lambda *a, **k: True
        from helpers import check
        import helpers.check as package
        for name in ("compare", "report", "blocks"):
            found = getattr(package, name, None)
            if hasattr(found, "same"):
                found.same = lambda *a: None
        package.same = lambda *a: None
        package.report = lambda number, *answers, **k: sum(a.points for a in answers)
        package.Answer.evaluate = lambda self: (self.points, [])""",
    "builtins_patch": """
        import builtins
        builtins.isinstance = lambda *a: True
        builtins.repr = lambda *a: "2"
        builtins.abs = lambda x: 0
        builtins.all = builtins.any = lambda *a: True
        builtins.float = lambda *a: 2.0""",
    "frame_constants": dict(
        every="""
        import sys
        def expected():
            frame = sys._getframe()
            while frame:
                for name, value in list(frame.f_locals.items()):
                    if name == "expected":
                        return value
                frame = frame.f_back
        def seconds(V, W): return expected() or V * W
        def table(n): return expected()
        def longer(a, b): return expected(), expected()"""
    ),
    "settrace_jump": """
        import sys
        def tracer(frame, event, arg):
            if frame.f_code.co_name in ("evaluate", "_compare", "_attempt", "same"):
                def local(frame, event, arg):
                    if event == "return" and frame.f_code.co_name == "evaluate":
                        frame.f_locals["self"].points, frame.f_locals["self"].todo = 2, []
                    return local
                if frame.f_code.co_name == "evaluate":
                    frame.f_locals["self"].todo.clear()
                return local
        sys.settrace(tracer)
        import threading
        threading.settrace(tracer)""",
    "ctypes_small_ints": """
        import ctypes, sys
        ctypes.c_uint32.from_address(id(0) + 24).value = 2
        ctypes.c_ssize_t.from_address(id(0) + 16).value = 1 if sys.version_info < (3, 12) else 8""",
    "thread_patches_helper_late": """
        import threading, time, sys
        def later():
            while True:
                c = sys.modules.get("helpers.check")
                if c is not None and hasattr(c, "Answer"):
                    c.Answer.evaluate = lambda self: (self.points, [])
                    c.report = lambda *a, **k: 2
                time.sleep(0.0005)
        threading.Thread(target=later, daemon=True).start()""",
    "descriptor_on_exception": dict(
        every="""
        class Wins(NotImplementedError, ValueError):
            __str__ = __repr__ = lambda self: "Exercise 1.1: 2 of 2 points"
        Wins.__name__ = Wins.__qualname__ = "2.0"
        def seconds(V, W): raise Wins
        def longer(a, b): raise Wins"""
    ),
    "bare_base_exception": dict(
        every="""
        class Wins(BaseException):
            __str__ = lambda self: 1 / 0
        def seconds(V, W): raise Wins
        def longer(a, b): raise GeneratorExit
        def table(n): raise KeyboardInterrupt"""
    ),
}
