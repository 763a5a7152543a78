"""What forgers would win if answers and checks shared one interpreter, as they do in a notebook's kernel.

`python -m tests.autograder.attacks.unguarded` reads notebooks (name -> cells with hidden tests) as JSON and writes scores.
It runs hostile code with nothing around it but a process: only kinds that forge, no others.
"""

import io
import json
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout

SECONDS = 20


def run(cells: list[dict]) -> dict[str, float]:
    """Each check's points by nbgrader's rule, in an IPython shell of this process."""
    from IPython.core.interactiveshell import InteractiveShell

    shell, scores = InteractiveShell.instance(), {}
    shell.user_ns["display"] = lambda *things, **_: None
    for cell in cells:
        said = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            try:
                done = shell.run_cell(cell["source"], store_history=True)
                good = done.success and not said.getvalue()
                value = done.result if good else 0
            except BaseException:
                value = 0
        if cell["check"]:
            try:
                scores[cell["check"]] = min(float.__float__(float(repr(value))), cell["points"])
            except BaseException:
                scores[cell["check"]] = 0.0
    return scores


def apart(cells: list[dict]) -> dict[str, float]:
    """The same in a forked process, which may not live long."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        try:
            os.setsid()
            signal.alarm(SECONDS)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            dumps, put, leave = json.dumps, os.write, os._exit
            put(write, dumps(run(cells)).encode())
            leave(0)
        finally:
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {}


def main() -> None:
    import IPython  # noqa: F401
    import jax  # noqa: F401
    import numpy  # noqa: F401

    print(json.dumps({name: apart(cells) for name, cells in json.load(sys.stdin).items()}))


if __name__ == "__main__":
    main()
