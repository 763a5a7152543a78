"""Code that wants out: to read, to write, to reach others, to outlive its grading, or to take the machine down.

The names HOME, COURSE, PROOF, CANARY and L are given. What such code finds it prints behind L, or writes into PROOF, a folder
of the host that everybody may write to.
"""

READ = """
import os, glob, sys
def read(*paths):
    for path in paths:
        for found in glob.glob(path) or [path]:
            if any(p.startswith(found) for p in (sys.prefix, sys.base_prefix)):
                continue  # on the way to the interpreter: an empty folder
            try:
                text = str(os.listdir(found)) if os.path.isdir(found) else open(found, "rb").read(300)
            except OSError:
                continue
            print(L, found, text)
            mark(text)
def mark(text):
    try:
        open(PROOF + "/read", "ab").write(bytes(str(text), "utf-8"))
    except OSError:
        pass
"""
WRITE = """
import os
def write(*paths):
    for path in paths:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write("import os; open(" + repr(PROOF + "/code") + ", 'w')")
            print(L, path)
        except OSError:
            pass
"""
DATABASE = """
import glob, sqlite3
def databases():
    for path in [COURSE + "/gradebook.db", "../../../gradebook.db", "../../gradebook.db", *glob.glob(HOME + "/**/gradebook.db")]:
        try:
            base = sqlite3.connect("file:" + path + "?mode=rw", uri=True)
            base.execute("select 1 from grade")
            print(L, path)
            yield base
        except sqlite3.Error:
            pass
"""

LEAK = {
    "read_outside_file": f"{READ}\nread(CANARY, '/etc/passwd', '/etc/shadow', '/root/.bashrc', '/root', '/home/*', '/tmp/*', PROOF)",
    "read_hidden_solutions": f"""{READ}
        read(COURSE + "/source/*/*", COURSE + "/release", HOME + "/solutions/*", HOME + "/autograder", "/course/solutions",
             "../../../source/*", "../../source/*/*", COURSE + "/source/*/exercises.ipynb", COURSE + "/submitted/*/*/*",
             COURSE + "/autograded/*", "../../*/*/*.ipynb")""",
    "read_hidden_tests_at_run_time": """
        import gc, linecache
        marked = "".join(["canary-of-the-", "hidden-tests"])
        for text in ["".join(v[2]) for v in linecache.cache.values() if len(v) > 2]:
            if marked in text:
                print(L, text)
        for o in gc.get_objects():
            if type(o) in (list, dict, tuple) and o is not globals():
                for x in list(o.values() if type(o) is dict else o):
                    if type(x) is str and marked in x:
                        print(L, x[:100])""",
    "read_hidden_tests_from_caller": dict(
        every="""
        def table(n):
            import inspect, traceback
            for f in inspect.stack():
                text = str(f.frame.f_locals) + str(f.code_context) + str(f.frame.f_code.co_consts)
                if "".join(["canary-of-the-", "hidden-tests"]) in text or "HIDDEN" in text:
                    print(L, text)
                    open(PROOF + "/caller", "w").write(text)
            raise ValueError("".join(traceback.format_stack()))"""
    ),
    "read_config_secrets": f"""{READ}
        read(COURSE + "/*", HOME + "/autograder/nbgrader_config.py", "~/.jupyter", "/proc/1/environ",
             "/proc/self/environ", "/run/secrets/*")
        for k, v in os.environ.items():
            if any(w in k for w in ("SECRET", "TOKEN", "DB_URL", "COURSE_", "PASSWORD")):
                print(L, k, v)""",
    "network_loopback": """
        import socket
        for port in (22, 80, 5432, 8000, 8786, 8888):
            try:
                socket.create_connection(("127.0.0.1", port), 0.2)
                print(L, port)
            except ConnectionRefusedError:
                print(L, port, "refused by the host")
            except OSError:
                pass
        try:
            s = socket.socket()
            s.bind(("127.0.0.1", 0))
            s.listen()
            print(L, "listens")
        except OSError:
            pass""",
    "network_dns": """
        import socket
        socket.setdefaulttimeout(0.5)
        for where in ("example.com", "localhost"):
            try:
                print(L, socket.getaddrinfo(where, 53, type=socket.SOCK_DGRAM) if where != "localhost" else L and 1 / 0)
            except (OSError, ZeroDivisionError):
                pass
        for family, kind, where in ((socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)), (socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 53)),
                                    (16, socket.SOCK_RAW, (0, 0)), (40, socket.SOCK_STREAM, (2, 22))):
            try:
                s = socket.socket(family, kind)
                s.connect(where)
                s.send(b"x")
                print(L, family)
            except OSError:
                pass""",
    "unix_socket_to_host": """
        import glob, socket
        for path in ["\\0dbus", "\\0/tmp/.X11-unix/X0", "/run/dbus/system_bus_socket", "/var/run/docker.sock", PROOF + "/socket",
                     *glob.glob("/run/**/*.sock", recursive=True), *glob.glob("/tmp/**/*.sock", recursive=True)]:
            try:
                s = socket.socket(socket.AF_UNIX)
                s.connect(path)
                print(L, path)
            except OSError:
                pass""",
    "see_other_processes": f"""{READ}
        me = {{str(os.getpid()), "1"}} if os.path.isdir("/proc") else set()
        for pid in (os.listdir("/proc") if me else []):
            if pid.isdigit() and pid not in me:
                print(L, pid)
        read("/proc/1/cmdline", "/proc/1/environ", "/proc/1/root/*", "/proc/1/cwd", "/proc/sys/kernel/hostname")
        for pid in range(1, 3000):
            try:
                if pid != os.getpid() and not os.kill(pid, 0) and pid > 1:
                    print(L, "could signal", pid)
            except OSError:
                pass""",
    "read_own_process": f"""{READ}
        read("/proc/self/environ", "/proc/self/mountinfo", "/proc/self/maps", "/proc/self/cgroup", "/proc/mounts", "/proc/self/fd/*",
             "/proc/cmdline", "/sys/class/net/*/address", "/sys/fs/cgroup/*")""",
    "descriptors": """
        import os, stat
        for fd in range(1024):
            try:
                kind = os.fstat(fd)
            except OSError:
                continue
            if fd > 3 or stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode):
                print(L, fd, kind)
            for up in ("..", "../.."):
                try:
                    print(L, os.open(up, os.O_PATH, dir_fd=fd))
                except OSError:
                    pass""",
    "engine_modules": """
        import importlib, sys
        for name in ("engine.checker", "engine.engine", "engine.answer_proxy", "autograder.grade",
                     "autograder.making.in_process_grading", "solutions", "tests.autograder.attacks.outside", "nbgrader"):
            try:
                importlib.import_module(name)
                if name not in ("engine.checker", "engine.engine", "engine.answer_proxy", "nbgrader"):
                    print(L, name)
            except Exception:
                pass""",
    "xss_output": dict(
        before="""
        class Page:
            def _repr_html_(self): return "<script>alert(1)</script><b onclick=alert(2)>x</b><iframe src='javascript:alert(3)'></iframe>"
            def _repr_svg_(self): return "<svg onload=alert(4)><script>alert(5)</script></svg>"
            def _repr_javascript_(self): return "alert(6)"
            def _repr_latex_(self): return "$\\\\href{javascript:alert(7)}{x}$"
            def _repr_markdown_(self): return "[x](javascript:alert(8))"
            def __repr__(self): return "<script>alert(9)</script>"
        display(Page())
        print("<script>alert(10)</script>\\x1b]8;;javascript:alert(11)\\x07x\\x1b]8;;\\x07")
        Page()""",
        after="raise ValueError('<img src=x onerror=alert(12)>')",
    ),
    "xss_error_name": dict(
        before="raise type('<script>alert(1)</script>', (Exception,), {})('<img src=x onerror=alert(2)>')",
        every="""
        def seconds(V, W): raise type("<script>alert(3)</script>", (Exception,), {})("<script>alert(4)</script>")
        seconds.__name__ = "<img src=x onerror=alert(5)>" """,
    ),
    "terminal_escapes": dict(
        before="""
        class Loud(Exception): pass
        Loud.__name__ = "\\x1b[2J\\x1b]0;owned\\x07=HYPERLINK(1)"
        print("\\x1b[2J\\x1b]0;owned\\x07\\r\\x08\\x9b31m\\u202e")
        raise Loud("\\x1b[2J\\x1b]0;owned\\x07\\u202e")""",
        every="""
        def seconds(V, W): raise Loud("\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\u202e")
        seconds.__name__ = "\\x1b]0;owned\\x07\\n=HYPERLINK(1)"
        speed = "\\x1b[2J\\x1b]0;owned\\x07" """,
    ),
    "csv_formulas": dict(
        before="raise ValueError('=HYPERLINK(\"http://evil\")')",
        every="""
        def seconds(V, W): raise ValueError("=HYPERLINK(\\"http://evil\\")\\n+cmd|' /C calc'!A0\\n@SUM(1)")
        seconds.__name__ = "=cmd()"
        speed = "=1+1" """,
    ),
}

ESCAPE = {
    "write_outside": f"""{WRITE}
        write(PROOF + "/x", "/tmp/x", "/var/tmp/x", "/dev/shm/x", "/x", "/usr/x", "/etc/x", HOME + "/x.py", "/root/x",
              COURSE + "/source/ch01_sample/exercises.ipynb", COURSE + "/release/x", COURSE + "/nbgrader_config.py",
              COURSE + "/autograded/honest-1/ch01_sample/exercises.ipynb", COURSE + "/submitted/honest-1/x", "../../x/y",
              "/root/.ipython/profile_default/startup/00.py")""",
    "grader_code_writable": f"""{WRITE}
        import sys
        write(*[p + "/planted.pth" for p in sys.path if p], "/course/helpers/x.py",
              "/course/engine/answer_process.py", HOME + "/autograder/x.py",
              sys.prefix + "/x", *[m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)][:300])""",
    "links_out_of_the_job": """
        import os
        for target in ("/course/helpers", "/proc/1/root", "/", CANARY, COURSE):
            name = "link" + str(abs(hash(target)))
            try:
                os.symlink(target, name)
                open(name).read()
                print(L, target)
            except OSError:
                pass
            try:
                os.link(target, name + "hard")
                print(L, target)
            except OSError:
                pass""",
    "subprocess_keeps_the_walls": """
        import subprocess, sys
        code = f"open({PROOF + '/child'!r}, 'w')"
        for command in ([sys.executable, "-c", code], ["/bin/sh", "-c", f"echo x > {PROOF}/shell; cat {CANARY}"], ["/usr/bin/env"]):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=5)
                if CANARY in done.stdout or "COURSE_SEC" "RET" in done.stdout or "canary" in done.stdout:
                    print(L, done.stdout)
            except (OSError, subprocess.SubprocessError):
                pass""",
    "gradebook_trigger": f"""{DATABASE}
        for base in databases():
            base.execute("create trigger win after update on grade begin update grade set auto_score = 9; end")
            base.commit()""",
    "orphan_that_ignores_signals": """
        import os, signal, time
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                for s in range(1, 65):
                    try:
                        signal.signal(s, signal.SIG_IGN)
                    except (OSError, ValueError):
                        pass
                os.closerange(0, 256)
                while True:
                    time.sleep(0.5)""",
}
