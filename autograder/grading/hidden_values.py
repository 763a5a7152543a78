"""From what hidden values are drawn: the secret of the course, which never enters a sandbox."""

import os
import re
import secrets

import platformdirs

from autograder.places import SourceError

from .whole_files import make_once

LEAST = 32  # characters: whoever has seen values that were drawn can try all shorter ones
MADE = re.compile("[0-9a-f]{64}")


def secret() -> str:
    """The secret of the course: COURSE_SECRET, or a file of one's own outside of the repository. It is whole, or an error."""
    if (given := os.environ.get("COURSE_SECRET")) is not None:
        if len(given.strip()) < LEAST:
            raise SourceError(
                f"COURSE_SECRET has {len(given.strip())} characters and needs {LEAST}: give the whole secret, "
                "or unset it, and a private file of yours is used."
            )
        return given
    path = platformdirs.user_config_path("rooflines-to-racks") / "secret"
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            make_once(path, secrets.token_hex(32))
            print(f"Hidden values are drawn from a new secret in {path}: keep a copy, so regrading draws the same.")
        kept = path.read_text(encoding="utf-8", errors="replace").strip()
        if path.stat().st_mode & 0o077:  # as a copy by cp or by a web page has it
            print(f"Others on this machine can read the secret of the course: type chmod 600 '{path}'.")
    except OSError as e:
        raise SourceError(f"The secret of the course cannot be kept in {path} ({e}): set COURSE_SECRET.") from None
    if not MADE.fullmatch(kept):
        raise SourceError(
            f"The secret of the course in {path} is not whole, for it is not 64 hexadecimal digits: put your copy in its "
            "place. Without a copy, remove the file: everybody is then graded anew, on other values."
        )
    return kept
