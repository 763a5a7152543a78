"""Sphinx extension: the cards of the page for review, as a script that also works from a file.

They are notebooks/review.json, which `make release` writes; the page names the script. Nothing of the theme matters.
"""

import json
from pathlib import Path

CARDS = "review_cards.js"


def write(app, error) -> None:
    """Put the cards beside the site's scripts."""
    cards = Path(app.srcdir) / "notebooks/review.json"
    if error or app.builder.format != "html" or not cards.is_file():
        return
    text = json.dumps(json.loads(cards.read_text(encoding="utf-8")), ensure_ascii=False, separators=(",", ":"))
    (Path(app.outdir) / "_static" / CARDS).write_text(f"const reviewCards = {text};\n", encoding="utf-8")


def setup(app) -> dict:
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
