"""From what hidden values are drawn: the secret of the course, which never enters a sandbox, and the seed of a submission."""

import os
import secrets

import platformdirs

from autograder.engine.run_submission import seed
from autograder.places import SourceError


def secret() -> str:
    """The secret of the course: COURSE_SECRET, or a file of one's own outside of the repository."""
    if given := os.environ.get("COURSE_SECRET"):
        return given
    path = platformdirs.user_config_path("rooflines-to-racks") / "secret"
    try:
        if path.is_file():
            return path.read_text(encoding="ascii").strip()
        path.parent.mkdir(parents=True, exist_ok=True)
        made = secrets.token_hex(32)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as f:
            f.write(made)
    except (OSError, ValueError) as e:
        raise SourceError(f"The secret of the course cannot be kept in {path} ({e}): set COURSE_SECRET.") from None
    print(f"Hidden values are drawn from a new secret in {path}: keep a copy, so that regrading draws the same.")
    return made


def values(secret: str, topic: str, student: str, attempt: int) -> str:
    """What a submission's hidden values are drawn from."""
    return seed(secret, topic, student, attempt) if secret else ""
