"""What tests of `helpers.check` hand in, what a learner reads of it, and what scripts of the site make of the same."""

import json
import shutil
import subprocess

import pytest

from helpers import check
from tests.scratch import ROOT


def by_scripts(folder, names, program, given):
    """What a program gives as JSON that runs behind these scripts of the site, on something that it gets as JSON."""
    if not shutil.which("node"):
        pytest.skip("there is no node here")
    sources = [(ROOT / f"book/_static/{name}.js").read_text(encoding="utf-8") for name in names]
    script = folder / "twin.js"
    script.write_text("".join(sources) + program, encoding="utf-8")
    done = subprocess.run(["node", script], input=json.dumps(given), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def told(capsys, *answers, **kwargs):
    """(points, everything printed, on one line)."""
    earned = check.report("0.1", *answers, **kwargs)
    return earned, " ".join("".join(capsys.readouterr()).split())


def answer(f, expected, *args, rtol=1e-3, **kwargs):
    a = check.Answer(f, points=2, rtol=rtol)
    a.gives(expected, *args, **kwargs)
    return a


def double(x):
    return 2 * x
