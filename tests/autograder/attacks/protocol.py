"""Code that speaks the engine's own protocol: frames, replies, handles and programs that nobody asked for, or that lie."""

FRAME = """
import os, struct, json
def frame(value, raw=b"", n_text=None, n_raw=None):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("!QQ", len(text) if n_text is None else n_text, len(raw) if n_raw is None else n_raw) + text + raw
def d(**k):
    return {"dict": [[a, b] for a, b in k.items()]}
def out(data):
    for fd in (3,):
        try:
            os.write(fd, data)
        except OSError:
            pass
"""
WIN = 'd(ok=True, found=True, value=2, done=True, ready=True, child="alive", outputs=[d(kind="result", text="2")])'

WIRES = {
    "write_to_every_fd": """
        import os
        for fd in range(256):
            try:
                os.write(fd, b"\\xff" * 4000)
            except OSError:
                pass""",
    "replies_before_they_are_asked": f"{FRAME}\nfor _ in range(30): out(frame({WIN}))",
    "one_reply_ahead": f"{FRAME}\nout(frame({WIN}))",
    "verdict_instead_of_a_value": dict(
        before=FRAME,
        every=f"""
        def seconds(V, W):
            out(frame(d(value=V / W, outputs=[d(kind="result", text="2")], child="alive")))
            return V * W
        def longer(a, b):
            out(frame({WIN}))
            return 0, 0""",
    ),
    "frame_with_descriptors": f"""{FRAME}
        import socket, array
        try:
            s = socket.socket(fileno=os.dup(3))
            s.sendmsg([frame({WIN})], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2, 3]))])
        except OSError:
            pass""",
    "frame_that_never_ends": f"{FRAME}\nout(frame(b'[' * 900, n_text=3_999_999, n_raw=127_999_999))",
    "frame_too_large": f"{FRAME}\nout(frame(b'', n_text=2**63, n_raw=2**64 - 1))",
    "socket_shut": """
        import socket, os
        socket.socket(fileno=os.dup(3)).shutdown(socket.SHUT_RDWR)""",
    "socket_read_by_others": """
        import os, threading
        def steal():
            while True:
                try:
                    os.read(3, 1)
                except OSError:
                    return
        threading.Thread(target=steal, daemon=True).start()""",
    "socket_nonblocking": "import os, fcntl\nos.set_blocking(3, False)\nfcntl.fcntl(3, fcntl.F_SETFL, os.O_NONBLOCK)",
    "fork_answers_instead": f"""{FRAME}
        if os.fork() == 0:
            import socket
            s = socket.socket(fileno=3)
            s.settimeout(None)
            while True:
                try:
                    if not s.recv(1 << 16):
                        os._exit(0)
                    s.sendall(frame({WIN}))
                except OSError:
                    os._exit(0)""",
    "session_lies": """
        import gc
        for s in [o for o in gc.get_objects() if type(o).__name__ == "Session"]:
            kind = type(s)
            kind.get = lambda self, name: {"found": True, "value": 2, "points": 2}
            kind.call = lambda self, id, args, kwargs: {"value": 4, "points": 2, "outputs": [{"kind": "result", "text": "2"}]}
            kind.export = kind.program = lambda self, *a, **k: {"program": b"", "tree": 0}
            kind.attribute = lambda self, id, name: {"value": 2}""",
    "handles_of_odd_forms": """
        import gc
        odd = [{"id": -1}, {"id": True}, {"id": "0", "callable": "yes"}, {"id": 2**70, "type": "x" * 10**5}, {"name": ["evil"]}, {}]
        turn = iter(odd * 1000)
        for s in [o for o in gc.get_objects() if type(o).__name__ == "Session"]:
            type(s).handle = lambda self, thing: next(turn)""",
    "errors_of_odd_forms": dict(
        every="""
        class E(Exception): pass
        E.__mro_entries__ = None
        E.__name__ = E.__qualname__ = "__import__('os')._exit(0)" + "\\n" * 50 + "\\x1b[2J\\x1b]0;owned\\x07"
        def seconds(V, W): raise E("x" * 10**6)
        def longer(a, b): raise type("PermissionError", (OSError,), {"__str__": lambda s: b"2"})()
        def table(n): raise ExceptionGroup("2", [ValueError(2)] * 1000)"""
    ),
    "error_reply_with_lies": """
        import gc, sys
        for s in [o for o in gc.get_objects() if type(o).__name__ == "Session"]:
            module = sys.modules[type(s).__module__]
            module.told = lambda e: {"kinds": ["OffLimits", 5, None, "__class__", "x" * 10**6], "text": ["no text"], "off_limits": True}
            type(s).call = lambda *a, **k: 1 / 0""",
    "long_names": dict(
        every="""
        class Any:
            __name__ = "x" * 10_000_000
            __qualname__ = __doc__ = "=HYPERLINK(\\"http://e\\")" * 100_000
            def __call__(self, *a): return self
            def __getattr__(self, n): return self
        seconds = longer = table = speed = Any()"""
    ),
    "callable_that_changes": dict(
        every="""
        class Turn:
            n = 0
            def __call__(self, *a):
                Turn.n += 1
                return (lambda *b: self) if Turn.n % 2 else 4
        seconds = longer = Turn()"""
    ),
    "huge_value": dict(
        every="""
        import numpy as np
        speed = np.zeros(10**9, np.int8)
        def seconds(V, W): return 10 ** 10**6
        def longer(a, b): return [0] * 10**7
        def table(n): return {"square": "x" * 10**8, "list": [], "array": np.zeros((10**4, 10**4))}"""
    ),
    "deep_value": dict(
        every="""
        deep = []
        for _ in range(10**5): deep = [deep]
        loop = []
        loop.append(loop)
        speed = deep
        def seconds(V, W): return deep
        def longer(a, b): return loop
        def table(n): return {"square": loop, "list": deep, "array": {1: loop}}"""
    ),
    "tracers_kept": dict(
        every="""
        import jax
        kept = []
        def chain(a, b, c):
            kept.append(a)
            return kept[0] @ (b @ c)
        def seconds(V, W): return kept[0] if kept else V * W"""
    ),
    "jax_cache_poison": """
        import jax, os
        own = os.environ["TMPDIR"]
        for name, value in (("jax_compilation_cache_dir", own + "/cache"), ("jax_persistent_cache_min_compile_time_secs", 0)):
            jax.config.update(name, value)
        for place in (os.environ.get("JAX_COMPILATION_CACHE_DIR", ""), own + "/compiled", "/tmp/cache"):
            try:
                os.makedirs(place, exist_ok=True)
                open(os.path.join(place, "poison"), "wb").write(b"x" * 100)
            except OSError:
                pass""",
    "environment_of_seeds": """
        import os
        os.environ.update(COURSE_SEED="0", COURSE_VALUES="", COURSE_SECRET="", JAX_PLATFORMS="nowhere", XLA_FLAGS="--nonsense")""",
}

PROGRAM_PRELUDE = """
import gc, sys
import jax, jax.numpy as jnp, jax.export
import numpy as np
def replace(kind, make):
    "Send another program than the one that is asked for."
    for s in [o for o in gc.get_objects() if type(o).__name__ == "Session"]:
        setattr(type(s), kind, make)
f32 = lambda *s: jax.ShapeDtypeStruct(s, jnp.float32)
def blob(f, *shapes):
    return bytes(jax.export.export(jax.jit(f))(*shapes).serialize())
"""

PROGRAMS = {
    "program_tree_lies": """
        twice = blob(lambda a: (a, a), f32(1, 64))
        replace("export", lambda *a, **k: {"program": twice, "tree": {"x": [0, 5, -1, 10**9]}})""",
    "program_custom_call": dict(
        every="""
        def product(a, b):
            q = jnp.linalg.qr(jnp.ones((4, 4)))[0]
            return a @ b + q[0, 0].astype(a.dtype)
        def chain(a, b, c): return jnp.linalg.solve(b, c.T).T[:1] + jnp.linalg.svd(b)[1][:1]"""
    ),
    "program_giant_constant": dict(
        every="""
        def product(a, b): return a @ b + jnp.asarray(np.random.rand(1500, 1500)).sum().astype(a.dtype)
        def chain(a, b, c): return a @ (b @ c) + jnp.asarray(np.random.rand(1500, 1500)).sum()"""
    ),
    "program_endless": dict(
        every="""
        def product(a, b): return jax.lax.while_loop(lambda x: x[0, 0] < 1e30, jnp.sin, a @ b)
        def chain(a, b, c): return jax.lax.while_loop(lambda x: True, jnp.sin, a @ (b @ c))"""
    ),
    "program_deep": dict(
        every="""
        def product(a, b):
            x = a @ b
            for _ in range(3_000): x = jnp.sin(x)
            return x
        def chain(a, b, c):
            x = a @ (b @ c)
            for _ in range(3_000): x = jnp.sin(x)
            return x"""
    ),
    "program_nan": dict(
        every="""
        def product(a, b): return jax.lax.psum(a @ b, "X") * jnp.nan
        def chain(a, b, c): return (a @ (b @ c)) * jnp.nan"""
    ),
    "program_all_reduce_of_nothing": dict(
        every="""
        def product(a, b):
            jax.lax.psum(jnp.zeros(()), "X")
            return a @ b + 0 * jax.lax.psum(jnp.zeros((1, 1), a.dtype), "X")"""
    ),
    "program_knows_the_device": dict(
        every="""
        def product(a, b):
            return jnp.where(jax.lax.axis_index("X") == 0, a @ b, jax.lax.psum(jnp.zeros((a.shape[0], b.shape[1]), a.dtype), "X"))"""
    ),
    "program_remembers_shapes": dict(
        every="""
        def product(a, b):
            import sys
            return jax.lax.psum(a @ b, "X") * (1 if a.shape[0] == 64 else 2)
        def chain(a, b, c): return a @ b @ c * (1 if a.shape[1] == 64 else 3)"""
    ),
    "program_free_flops": dict(
        every="""
        def chain(a, b, c):
            return (a[..., None] * b[None]).sum(1) @ c if a.shape[1] < 3 else jnp.sum((a @ b)[..., None] * c[None], 1)"""
    ),
    "program_integer_dtype": dict(
        every="""
        def product(a, b): return jax.lax.psum((a @ b).astype(jnp.int4), "X")
        def chain(a, b, c): return (a @ (b @ c)).astype(jnp.int8)"""
    ),
    "program_grad_lies": dict(
        every="""
        @jax.custom_vjp
        def chain(a, b, c): return a @ (b @ c)
        chain.defvjp(lambda a, b, c: (a @ (b @ c), (a, b, c)), lambda r, g: (jnp.full_like(r[0], 1), r[1], r[2]))"""
    ),
}
