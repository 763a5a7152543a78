"""What a test needs from its machine: where it lacks, the test skips; in CI it fails."""

import os

import pytest


def needs(condition: object, sentence: str) -> None:
    """Go on if `condition` holds; else skip with `sentence` (what is missing), or fail where CI=true.

    Call it inside a test or a fixture. CI installs everything, so a skip there would hide a broken set-up.
    """
    if condition:
        return
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"CI must have what this test needs: {sentence}", pytrace=False)
    pytest.skip(sentence)
