"""What tests of drawings look at: words and boxes."""

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

ALT = "what the picture shows, in words"


def texts(picture) -> list[str]:
    return [t.get_text() for ax in picture.figure.axes for t in ax.texts]


def boxes(ax, fill=None) -> list[Rectangle]:
    return [p for p in ax.patches if isinstance(p, Rectangle) and fill in (None, to_hex(p.get_facecolor()))]


def greys(fills) -> list[float]:
    """How light each colour is, of 255."""
    return [sum(w * int(to_hex(f)[i : i + 2], 16) for w, i in ((0.3, 1), (0.59, 3), (0.11, 5))) for f in fills]
