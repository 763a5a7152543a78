"""Sphinx extension: a chapter runs again when the code that it imports has changed.

The book's cache of outputs knows a chapter by its own cells only, so each state of that code has its own cache, named by a hash; the
last one is kept.  A build that finds its chapters there computes for 70 s instead of 310.  Nothing of the theme matters.
"""

import hashlib
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def code_hash(root: Path = ROOT) -> str:
    """Twelve hex digits over everything that an executed page depends on apart from its own text."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} jax {version('jax')} numpy {version('numpy')}".encode())
    limits = "autograder/engine/sandbox.py"  # which the instructor's page tells
    for pattern in ("helpers/**/*.py", "book/data/**/*.*", "book/results/**/*.*", limits):
        for path in sorted(root.glob(pattern)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def choose_cache(app, config) -> None:
    """Point the notebook cache at this state's folder.  Sphinx reads every page anew when the value changes."""
    caches = Path(app.outdir).parent / ".jupyter_cache"
    mine = caches / code_hash()
    if caches.is_dir():
        for old in caches.iterdir():
            if old != mine:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    mine.mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(mine)


def setup(app) -> dict:
    # Kernels start in book/; they find `helpers` through this.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    app.connect("config-inited", choose_cache)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    print(code_hash())  # a key for whoever keeps the cache between builds
