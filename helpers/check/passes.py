"""A pass that looks like one: a tick, what to think about next, the chapter's bar, and a link to what is next on the path."""

from collections.abc import Sequence
from html import escape

from .progress import bar
from .record import Place

GREEN = "#1a7f37"  # 4.8:1 on white and 4.0:1 on JupyterLab's dark ground, large enough for bold text


def html(exercise: str, points: str, paragraphs: Sequence[str], standing: Place) -> str:
    """What a notebook shows; links are relative to a chapter's folder in work/."""
    chapter = exercise.split(".")[0]
    said = "".join(f"<p>{escape(text)}</p>" for text in paragraphs if text.strip())
    step = standing.next
    after = f'<br>Next: <a href="../{escape(step.link)}">{escape(step.title)}</a>' if step else ""
    return (
        f'<div style="border-left: 4px solid {GREEN}; padding: 0.2em 1em; max-width: 46em">'
        f'<p><b style="color: {GREEN}; font-size: 1.15em">✓ Exercise {escape(exercise)}: {escape(points)}</b></p>{said}'
        f'<p>Chapter {chapter} <span style="color: {GREEN}" aria-hidden="true">{bar(standing.passed, standing.exercises)}</span> '
        f"{standing.passed} of {standing.exercises} exercises passed{after}</p></div>"
    )


def plain(exercise: str, points: str, paragraphs: Sequence[str], standing: Place) -> str:
    """The same for what shows no HTML."""
    return "\n".join([f"✓ Exercise {exercise}: {points}", "", *paragraphs, "", standing.sentence])


def show(exercise: str, points: str, paragraphs: Sequence[str], standing: Place) -> None:
    """Put it below the check."""
    from IPython.display import display

    shown = (exercise, points, paragraphs, standing)
    display({"text/plain": plain(*shown), "text/html": html(*shown)}, raw=True)
