"""A small disk of its own for a test, and a way to fill it."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.skip_conditions import needs


@pytest.fixture
def disk(tmp_path):
    """A disk of its own, which is soon full."""
    at = tmp_path / "disk"
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(at)]
    needs(
        os.getuid() == 0 and not subprocess.run(mount, capture_output=True).returncode,
        "to be root, so as to mount a disk",
    )
    yield at
    subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill(disk: Path, room: int = 0) -> None:
    """Leave this much, and less than a page of memory."""
    here = os.statvfs(disk)
    with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
        file.write(bytes(max(0, here.f_bavail * here.f_frsize - room)))
