"""The first code cell of every notebook: it finds or installs `helpers`, and stops if that or JAX is too old, or Matplotlib missing."""

import re

import yaml

import helpers
from autograder.places import ROOT, SourceError

WEB = re.compile(r"https://[\w.-]+(?::\d+)?(?:/[\w.-]+)+")
BRANCH = re.compile(r"[A-Za-z0-9][\w./-]*")

SETUP = """\
# Makes the course's package `helpers` importable: from the course's folder, or installed where there is none.
try:
    import helpers.costs
except ImportError:
    import importlib
    import pathlib
    import subprocess
    import sys

    for folder in pathlib.Path.cwd().resolve().parents:
        if (folder / "helpers" / "costs").is_dir():
            sys.path.insert(0, str(folder))
            break
    else:
        print("Installing the course's package `helpers`; the JAX that is here stays as it is.")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        course = "@COURSE@"
        done = subprocess.run([*pip, course], capture_output=True, text=True)
        if done.returncode:
            print(done.stdout + done.stderr)
            raise ModuleNotFoundError(
                "The package `helpers` is not here, and pip could not install it for the reason above: "
                "open this notebook inside of the course's folder, or run `pip install .` there first."
            ) from None
        importlib.invalidate_caches()
    sys.modules.pop("helpers", None)  # another package or folder of that name
    import helpers.costs

if [int(n) for n in getattr(helpers, "__version__", "0.1").split(".")] < @NEEDED@:
    raise ImportError(
        f"This notebook needs `helpers` @VERSION@ and finds {getattr(helpers, '__version__', '0.1')}: "
        "update the course's folder (git pull, and pip install . if that is how it came), or else run the next line in a cell of its own, "
        "and then restart the kernel.\\n"
        "%pip install --no-deps --force-reinstall @COURSE@"
    )


def stop_if_jax_is_older_than(oldest):
    import importlib.metadata  # `import jax` would start it before the course chooses its devices
    import importlib.util
    import re

    found = next((d.version for d in importlib.metadata.distributions(name="jax")), "none")
    if [int(n) for n in re.findall("[0-9]+", found)[:3]] < [int(n) for n in oldest.split(".")]:
        raise ImportError(
            f"This notebook needs JAX {oldest} or newer and finds {found}: "
            "run the next line in a cell of its own, and then restart the kernel.\\n"
            f'%pip install --upgrade "jax>={oldest}"'
        )
    if not importlib.util.find_spec("matplotlib"):
        raise ImportError(
            "This notebook needs Matplotlib, which is not here: run the next line in a cell of its own.\\n%pip install matplotlib"
        )


stop_if_jax_is_older_than("@JAX@")
del stop_if_jax_is_older_than"""


def address(config: str) -> str:
    r"""Where pip finds the course, from the text of `_config.yml`.

    >>> address("repository: {url: https://github.com/ada/course, branch: main}")
    'git+https://github.com/ada/course@main'
    """
    found = (yaml.safe_load(config) or {}).get("repository") or {}
    url, branch = str(found.get("url", "")).rstrip("/"), str(found.get("branch", ""))
    if not WEB.fullmatch(url):
        raise SourceError(f"_config.yml needs a repository.url such as https://github.com/ada/course, it has {url!r}.")
    if not BRANCH.fullmatch(branch):
        raise SourceError(f"_config.yml needs a repository.branch such as main, it has {branch!r}.")
    return f"git+{url}@{branch}"


def setup() -> str:
    """The cell's text, the same on every machine: what is in _config.yml decides, not the environment."""
    course, version = address((ROOT / "_config.yml").read_text(encoding="utf-8")), helpers.__version__
    parts = {"COURSE": course, "VERSION": version, "NEEDED": str([int(n) for n in version.split(".")])}
    parts["JAX"] = helpers.__oldest_jax__
    return re.sub(r"@([A-Z]+)@", lambda m: parts[m[1]], SETUP)
