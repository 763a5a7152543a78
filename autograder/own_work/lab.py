"""JupyterLab as a learner gets it: on the start page, or where the path goes on, and without what belongs to teachers."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from autograder.places import COURSE
from helpers.check import progress, record

from .copies import START, Work
from .start import update

KERNEL_START = COURSE / "own_work/kernel_start.py"


def environment() -> dict[str, str]:
    """What JupyterLab and its kernels inherit."""
    found = dict(os.environ)
    # What is installed beside this Python, also where nobody has activated the environment; nbgrader calls alembic by name.
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found.get('PATH', '')}"
    found["JUPYTER_CONFIG_PATH"] = os.pathsep.join([str(COURSE / "own_work"), str(COURSE)])
    found.setdefault("PYTHONSTARTUP", str(KERNEL_START))
    # JAX reads this once, on import; without it the C++ side writes warnings into cells.
    found.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if find_spec("libtpu") and not [*Path("/dev").glob("accel*"), *Path("/dev").glob("vfio/[0-9]*")]:
        # Without a TPU, libtpu looks for one and writes into cells, unless it is told where it is.
        found.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-16")
        found.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
    return found


def address(work: Work) -> str:
    """What JupyterLab opens: the notebook of what is next, once anything is done; the start page before and after.

    The section is no part of it, for the server appends its token as if there were no query: `links-to-sections` asks for it.
    """
    known = record.read(work.folder / progress.NAME)
    step = known.next() if known.done() else None
    notebook = step.link.partition("#")[0] if step else START
    # A workspace of its own: JupyterLab's default one may hold a start page that somebody has opened as source.
    return f"/lab/workspaces/course/tree/work/{quote(notebook)}"


def start(work: Work, *words: str) -> None:
    """Bring the copies up to date and become JupyterLab; `words` are its own."""
    update(work)
    work.tell()
    print("JupyterLab opens in your browser; Ctrl+C here ends it.", flush=True)
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # containers run as root, which JupyterLab refuses unless told
        words = (*words, "--allow-root")
    os.chdir(work.tree.root)
    os.execve(
        sys.executable,
        [sys.executable, "-m", "jupyterlab", f"--LabApp.default_url={address(work)}", *words],
        environment(),
    )
