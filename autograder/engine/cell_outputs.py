"""What children and checks gave, as the outputs of a notebook's cells."""

import math

from nbformat import NotebookNode, from_dict

from .plain_text import clean
from .sandbox import Limits

MIMES = ("text/plain", "text/html", "image/png", "image/svg+xml", "text/latex")


def new_output(kind: str, **fields) -> NotebookNode:
    """As nbformat's, which checks each one against its schema; the whole notebook is checked when it is written."""
    return from_dict({"output_type": kind} | ({"metadata": {}} if "data" in fields else {}) | fields)


def failure(why: str, check: bool) -> list[NotebookNode]:
    """A sentence, and no points if it is a check's."""
    zero = [new_output("execute_result", data={"text/plain": "0"}, execution_count=None)] if check else []
    return [new_output("stream", name="stderr", text=clean(f"{why}\n")), *zero]


def points_of(found: list[dict], points: float) -> float:
    """nbgrader's rule: nothing for an error or anything on stderr, else the number that the check ends in."""
    if any(o["kind"] in ("stderr", "error") for o in found):
        return 0.0
    value = float(next((o["text"] for o in found if o["kind"] == "result"), "0"))
    return min(max(value, 0.0), points) if math.isfinite(value) else 0.0


def verdict(found: list[dict]) -> list[NotebookNode]:
    """The checker's outputs as those of a notebook."""
    made = []
    for o in found:
        o = {k: clean(v) if isinstance(v, str) else v for k, v in o.items()}
        match o["kind"]:
            case "stdout" | "stderr":
                made.append(new_output("stream", name=o["kind"], text=o["text"]))
            case "result":
                made.append(new_output("execute_result", data={"text/plain": o["text"]}, execution_count=None))
            case "error":
                line = f"{o['ename']}: {o['evalue']}"
                made.append(new_output("error", ename=o["ename"], evalue=o["evalue"], traceback=[line]))
    return made


def stopped(outputs: list[NotebookNode]) -> str:
    """Why a cell did not run to its end, on one line; "" if it did."""
    for o in outputs:
        if o.output_type == "error":
            if o.ename == "KeyboardInterrupt":
                return "It did not end in time."
            return f"{o.ename}: {(o.evalue.splitlines() or [''])[0][:200]}"
        if o.output_type == "stream" and o.name == "stderr" and o.text.startswith(ENDED):
            return o.text.splitlines()[0]
    return ""


ENDED = ("Stopped: ", "The cell ended ", "Not run: ")  # how `failure` begins for a cell that was ended


def length(outputs: list[NotebookNode]) -> int:
    """Characters that outputs hold."""
    return sum(len(str(v)) for o in outputs for v in o.values())


def shown(reply: dict, limits: Limits, budget: int) -> list[NotebookNode]:
    """What a child says that a cell printed and displayed, as far as it is of the right form and size.

    budget  characters that are left for the notebook
    """
    made, left = [], min(4 * limits.output, budget)
    found = reply.get("outputs")
    for o in found[: limits.displays + 4] if isinstance(found, list) else []:
        o = o if isinstance(o, dict) else {}
        kind, texts = (
            o.get("kind"),
            {k: clean(o[k]) for k in ("text", "ename", "evalue", "traceback") if isinstance(o.get(k), str)},
        )
        data = o.get("data") if isinstance(o.get("data"), dict) else {}
        data = {m: _of_kind(m, data[m]) for m in MIMES if isinstance(data.get(m), str)}
        left -= sum(map(len, [*texts.values(), *data.values()]))
        if left < 0:
            made.append(new_output("stream", name="stderr", text="More output was left out.\n"))
            break
        if kind in ("stdout", "stderr") and "text" in texts:
            made.append(new_output("stream", name=kind, text=texts["text"]))
        elif kind == "display" and data:
            made.append(new_output("display_data", data=data))
        elif kind == "result" and data:
            made.append(new_output("execute_result", data=data, execution_count=None))
        elif kind == "error" and len(texts) == 3:
            made.append(new_output("error", **texts | {"traceback": texts["traceback"].splitlines()}))
    return made


def _of_kind(mime: str, text: str) -> str:
    """A part of what a cell displays: base64 is no text, in which a folder's name could stand by chance."""
    raster = mime.startswith("image/") and mime != "image/svg+xml"
    return text.encode("ascii", "ignore").decode() if raster else clean(text)


def cleaned(found):
    """The outputs of an ordinary kernel, with every text in them cleaned, in lists and dicts of any depth."""
    if isinstance(found, dict):
        return from_dict({k: _of_kind(k, v) if isinstance(v, str) else cleaned(v) for k, v in found.items()})
    return [cleaned(v) for v in found] if isinstance(found, list) else clean(found) if isinstance(found, str) else found
