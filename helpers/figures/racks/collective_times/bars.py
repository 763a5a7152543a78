"""The drawing of the figure: for each algorithm a bar of its bytes inside the domains, and one of its bytes across them.

A bar is filled for bytes, and hatched for all hops behind them; a dashed line is the bottleneck cut. `collective_times.js` moves
what is drawn here.
"""

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, ROOM = 480, 58, 66  # of the drawing; of names of tiers; of the time behind a bar
HEAD, SLOT, SLOTS = 34, 62, 4  # height of the legend, and of an algorithm; most algorithms
BAR, STEP = 13, 19  # height of a bar, and from one to the next
TIERS = ("inside", "across")


def scale(rows: Sequence[Sequence[float]], bound: float) -> float:
    """Pixels for a second, so that the longest bar and the cut have room.

    >>> round(scale([(1.0, 1.0, 2.0, 3.0, 0.5, 3.5, 3.5)], 4.0))
    89
    """
    return (WIDTH - LEFT - ROOM) / max(bound, *(x for row in rows for x in (row[2], row[5])))


def bars(
    key: str, alt: str, names: Sequence[str], rows: Sequence[Sequence[float]], times, first: int, bound: float
) -> str:
    """The SVG.

    names  what stands above the two bars of each algorithm
    times  what stands behind them, as text: (inside, across) of each
    first  the fastest one; -1 if none is faster than the others
    """
    px, used = scale(rows, bound), len(rows)
    out = [
        f'<svg viewBox="0 0 {WIDTH} {HEAD + SLOT * used}" role="img" aria-labelledby="{key}-alt" class="live-plot live-tiers">',
        f'<title id="{key}-alt">{escape(alt)}</title><pattern id="{key}-hatch" width="5" height="5" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V5"/></pattern>',
        f'<rect class="live-fill" x="1" y="5" width="20" height="{BAR}"/><text x="27" y="16">bytes</text>',
        f'<rect fill="url(#{key}-hatch)" x="83" y="5" width="20" height="{BAR}"/><text x="109" y="16">hops</text>',
        '<path class="live-cut" d="M170 3V20"/><text x="178" y="16">bottleneck cut</text>',
    ]
    for n in range(SLOTS):
        there = n < used
        name, row, said = (names[n], rows[n], times[n]) if there else ("", (0.0,) * 7, ("", ""))
        shown = "" if there else ' style="display:none"'
        weight = "bold" if n == first else "normal"
        rects, texts = "", f'<text y="12" font-weight="{weight}">{escape(name)}</text>'
        for k, tier in enumerate(TIERS):
            a, b, y = LEFT + px * row[3 * k], LEFT + px * row[3 * k + 2], 18 + STEP * k
            rects += (
                f'<rect class="live-fill" x="{LEFT}" y="{y}" width="{a - LEFT:.1f}" height="{BAR}"/>'
                f'<rect fill="url(#{key}-hatch)" x="{a:.1f}" y="{y}" width="{b - a:.1f}" height="{BAR}"/>'
            )
            texts += (
                f'<text x="{LEFT - 6}" y="{y + 11}" text-anchor="end">{tier}</text>'
                f'<text x="{b + 5:.1f}" y="{y + 11}">{escape(said[k])}</text>'
            )
        line = f'<path class="live-cut" d="M{LEFT + px * bound:.1f} 14v{STEP + BAR + 8}"/>'
        out.append(f'<g data-slot="{n}" transform="translate(0,{HEAD + SLOT * n})"{shown}>{rects}{line}{texts}</g>')
    return "".join(out) + "</svg>"
