"""Three forms of linear attention: the whole triangle of weights, small triangles and a state between them, a state alone."""

from matplotlib import rc_context
from matplotlib.patches import FancyArrowPatch, Polygon, Rectangle

from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

FORMS = ("parallel", "chunked", "recurrent")


def tables(form: str, T: int, C: int) -> list[int]:
    """Sides of the tables of weights that a form makes, of T tokens in chunks of C.

    >>> tables("parallel", 8, 2), tables("chunked", 8, 2), tables("recurrent", 8, 2)
    ([8], [2, 2, 2, 2], [])
    """
    if form not in FORMS:
        raise ValueError(f"linear attention is {', '.join(FORMS)}, not {form!r}")
    return {"parallel": [T], "chunked": [C] * (T // C), "recurrent": []}[form]


def linear_forms(T: int, C: int, alt: str, *, caption: str = "") -> Picture:
    """Queries downwards, keys to the right: which weights are made (filled), and where the state (U, Z) is handed on (arrows)."""
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 2.3, 1, len(FORMS))
        for ax, form in zip(axes, FORMS):
            at = 0
            for side in tables(form, T, C):
                ax.add_patch(
                    Polygon([(at, at), (at, at + side), (at + side, at + side)], facecolor=COLOURS[4], edgecolor=INK)
                )
                at += side
            step = {"parallel": T, "chunked": C, "recurrent": 1}[form]
            for k in range(step, T, step):
                ax.add_patch(
                    FancyArrowPatch((k - step / 2, k - step * 0.25), (k + step * 0.12, k + step * 0.3), arrowstyle="-|>",
                                    mutation_scale=9, linewidth=1.6, color=COLOURS[1], shrinkA=0, shrinkB=0)
                )  # fmt: skip
            ax.add_patch(Rectangle((0, 0), T, T, fill=False, edgecolor="#999", linestyle="--"))
            ax.set(xlim=(-0.2, T + 0.2), ylim=(T + 0.2, -0.2), aspect="equal")
            ax.set_title(form, fontsize=10)
            ax.set_axis_off()
    return Picture(figure, alt, caption)
