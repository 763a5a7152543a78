"""Code that wants points by what it does to the shell that runs cells: hooks, displays, outputs, what comes late.

The tables are as in `forge`.
"""

from tests.autograder.attacks.forge import FIND

SHELL = {
    "displayhook_before_error": """
        import sys
        sys.displayhook(1); print(1)
        try:
            display(2)
        except NameError:
            pass
        class Two:
            __repr__ = lambda self: "2"
        sys.excepthook = lambda *a: sys.displayhook(Two())
        Two()""",
    "patch_run_cell": f"""{FIND}
        if shell:
            real = shell.run_cell
            type(shell).run_cell = lambda self, raw, *a, **k: real("2" if "check.report" in raw else raw, *a, **k)
        else:
            type(ours("Session")).run = lambda self, source, name: {{"ok": True, "outputs": [
                {{"kind": "result", "data": {{"text/plain": "2"}}, "text": "2"}}]}}""",
    "patch_session_send": f"""{FIND}
        if shell and hasattr(shell, "kernel"):
            send = shell.kernel.session.send
            def lie(stream, kind, content=None, **k):
                if isinstance(content, dict) and content.get("status") == "error":
                    content = {{"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {{}}}}
                return None if kind == "error" else send(stream, kind, content, **k)
            shell.kernel.session.send = lie
        for name in [n for n in sys.modules if n.endswith("wire")]:
            real = sys.modules[name].send
            def send(sock, value, handle=None, seconds=60, real=real):
                real(sock, {{"ok": True, "value": 2, "found": True, "outputs": [{{"kind": "result", "text": "2"}}],
                            "child": "alive"}}, handle)
            sys.modules[name].send = send""",
    "in_history_answer": dict(
        every="""
        import linecache, re
        def seconds(V, W):
            texts = ["".join(v[2]) for v in linecache.cache.values() if len(v) > 2]
            texts += list(globals().get("In", [])) + [str(v) for v in globals().values() if isinstance(v, str)]
            for text in texts:
                if found := re.search(r"gives\\((\\d+), (\\d+), (\\d+)", text):
                    if (V, W) == (int(found[2]), int(found[3])):
                        return int(found[1])
                if found := re.search(r"equals\\((lambda V, W: [^,]+),", text):
                    return eval(found[1])(V, W)
            return V * W"""
    ),
    "system_exit_in_answer": dict(
        every="""
        def seconds(V, W): raise SystemExit(0)
        def longer(a, b): raise SystemExit("2")
        def table(n): import sys; sys.exit()"""
    ),
    "stdout_that_looks_like_points": """
        import sys
        print("Exercise 1.1: 2 of 2 points")
        print("2.0")
        sys.stdout.write("\\b" * 50 + "2\\n")
        2.0""",
    "atexit_and_del": """
        import atexit, sys, weakref
        class Late:
            def __del__(self, write=sys.__stdout__.write if sys.__stdout__ else print): write("2\\n")
        keep = Late()
        keep.self = keep
        atexit.register(print, "2")
        weakref.finalize(keep, print, "2")""",
    "signals_after_the_cell": """
        import signal
        def tick(*a):
            g = globals()
            g.update(seconds=lambda V, W: 4, table=lambda n: {"square": 9})
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        signal.signal(signal.SIGALRM, tick)
        signal.signal(signal.SIGINT, tick)
        signal.setitimer(signal.ITIMER_REAL, 0.001)""",
    "coroutines_and_generators": dict(
        every="""
        async def seconds(V, W): return V / W
        def longer(a, b):
            yield max(a, b)
            yield max(a, b) / min(a, b)
        async def table(n): yield {}"""
    ),
}
