"""Code that takes its own process down, or wants more of the machine than there is. Its neighbours must not notice."""

CRASH = {
    "kill_everything": """
        import os
        for pid in (-1, 0, 1, *range(2, 300)):
            try:
                os.kill(pid, 9)
            except OSError:
                pass""",
    "os_exit": "import os\nos._exit(0)",
    "segfault": "import ctypes\nctypes.string_at(0)",
    "sys_exit": "import sys\nsys.exit(2)",
    "deep_recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "deep_syntax": "exec('(' * 90_000 + ')' * 90_000)",
    "input_call": "name = input('who? ')\nimport getpass\ngetpass.getpass()",
    "close_fds": "import os\nos.closerange(0, 300)",
    "exec_another": "import os\nos.execv('/bin/sleep', ['sleep', '60'])",
    "abort": "import faulthandler, os\nfaulthandler.enable(file=open('log', 'w'))\nos.abort()",
    "interrupts_itself": "import _thread, signal\n_thread.interrupt_main()\nsignal.raise_signal(signal.SIGTERM)\nraise KeyboardInterrupt",
    "threads_that_stay": """
        import threading, time
        for _ in range(20):
            threading.Thread(target=time.sleep, args=(10**6,)).start()""",
    "limits_of_its_own": """
        import resource
        for what in (resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
            try:
                resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            except (OSError, ValueError):
                pass
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))""",
    "import_that_dies": "import sys, types\nsys.modules['jax'] = None\nsys.modules['numpy'] = types.ModuleType('numpy')",
    "get_ipython": "get_ipython().system('true')\nget_ipython().kernel.do_shutdown(False)",
    "no_python": "this is no Python\n  at all: (",
    "null_bytes": "exec('x = 1\\0')",
    "tabs_and_magics": "%%bash\nrm -rf /\n!kill 1",
    "scope_cleared": "globals().clear()",
    "builtins_removed": """
        import builtins
        delete = delattr
        for name in list(vars(builtins)):
            if name != "__build_class__":
                delete(builtins, name)""",
    "stdout_closed": "import sys\nsys.stdout.close()\nsys.stderr = None\nsys.stdout = 5",
}

RESOURCE = {
    "infinite_loop": "while True: pass",
    "infinite_loop_in_answer": dict(q01="def seconds(V, W):\n    while True: pass"),
    "infinite_loop_uninterruptible": """
        while True:
            try:
                while True: pass
            except BaseException:
                pass""",
    "infinite_loop_in_c": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
    "slow_repr": "class Slow:\n    def __repr__(self):\n        import time\n        time.sleep(10**6)\nSlow()",
    "slow_attribute": dict(
        q01="""
        class Slow:
            def __getattr__(self, name):
                import time
                time.sleep(10**6)
            def __call__(self, V, W): return 0
        seconds = Slow()"""
    ),
    "stop_self": "import os, signal, time\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(100)",
    "fork_bomb": """
        import os, time
        for _ in range(100_000):
            try:
                if os.fork() == 0:
                    while True: time.sleep(0.2)
            except OSError:
                pass""",
    "alloc_30gb": "keep = []\nfor _ in range(600): keep.append(bytearray(b'x' * 50_000_000))",
    "alloc_by_children": """
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                keep = bytearray(b"x" * 400_000_000)
                time.sleep(100)
        time.sleep(100)""",
    "write_10gb": "f = open('big', 'wb')\nfor _ in range(10_000): f.write(bytes(1_000_000))",
    "sparse_file": "f = open('sparse', 'wb')\nf.truncate(10**13)\nf.seek(10**12)\nf.write(b'x')",
    "many_files": "import os\nfor i in range(100_000): open(f'f{i}', 'w').close()",
    "deep_folders": "import os\nfor i in range(100_000):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)",
    "memory_by_pipes": """
        import fcntl, os
        for _ in range(10_000):
            r, w = os.pipe()
            os.set_blocking(w, False)
            fcntl.fcntl(w, 1031, 1 << 20)
            try:
                while True: os.write(w, bytes(1 << 16))
            except BlockingIOError:
                pass""",
    "print_50mb_one_line": "print('x' * 50_000_000)",
    "rich_output_50mb": """
        class Page:
            _repr_html_ = lambda self: "<p>" + "x" * 50_000_000
            _repr_png_ = lambda self: bytes(50_000_000)
            __repr__ = lambda self: "y" * 50_000_000
        display(Page())
        Page()""",
    "many_displays": "for i in range(30_000): display('z' * 1000)",
    "long_traceback": """
        try:
            raise ValueError("x" * 10**7)
        except ValueError as e:
            raise RuntimeError("y" * 10**7) from e""",
    "chain_of_exceptions": """
        e = None
        for i in range(50_000):
            new = ValueError("x" * 100)
            new.__cause__ = e
            e = new
        raise e""",
    "regex_in_our_cleaning": """
        for text in ("%" * 50_000, "<" * 100_000, "[" * 50_000 + "](" * 50_000, "\\x1b[" * 50_000, "(" * 100_000, "Exercise " * 10_000):
            print(text)""",
    "gpu_and_many_devices": "import os\nos.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=4096'\nimport jax\njax.devices()",
}
