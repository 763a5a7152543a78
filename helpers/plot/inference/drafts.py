"""Speculative decoding: drafts, the pass that checks them, what stays; and which part of a draft's distribution is accepted."""

from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.patches import Patch, Rectangle

from helpers.costs.inference.speculative_decoding import acceptance
from helpers.plot.picture import COLOURS, INK, STYLE, Picture, canvas

KINDS = {
    "text": ("#eee", ""), "draft": (COLOURS[5], ""), "own": (COLOURS[4], ""), "kept": (COLOURS[2] + "48", ""),
    "refused": ("#fff", "xx"), "unused": ("#fff", ""),
}  # fmt: skip


def speculation(
    rounds: Mapping[str, tuple[Sequence[str], Sequence[str]]], before: Sequence[str], alt: str, *, caption: str = ""
) -> Picture:
    """For each round three rows: what is drafted, what one pass of the model says in these places, and what stays.

    rounds  {title: (K drafted tokens, K + 1 of the model's own, each after the drafts before it)}
    before  the last tokens of the text
    """
    with rc_context(STYLE):
        figure, axes = canvas(5.2, 0.3 + 1.45 * len(rounds), len(rounds))
        for ax, (title, (drafted, own)) in zip([axes] if len(rounds) == 1 else axes, rounds.items()):
            right = next((i for i, (d, o) in enumerate(zip(drafted, own)) if d != o), len(drafted))
            start = len(before)
            for x, token in enumerate(before):
                _token(ax, x, 0, token, "text")
                _token(ax, x, 2, token, "text")
            for x, token in enumerate(drafted):
                _token(ax, start + x, 0, token, "draft" if x < right else "refused" if x == right else "unused")
            for x, token in enumerate(own):
                _token(ax, start + x, 1, token, "own" if x <= right else "unused")
            for x, token in enumerate(own[: right + 1]):
                _token(ax, start + x, 2, token, "kept" if x < right else "own")
            for y, text in enumerate(("drafted", "one pass", "result")):
                ax.text(-0.15, y + 0.5, text, ha="right", va="center", fontsize=8)
            ax.set_title(f"{title}: {right} of {len(drafted)} drafts stay, {right + 1} tokens", fontsize=9, loc="left")
            ax.set(xlim=(-1.3, start + max(len(o) for _, o in rounds.values())), ylim=(3.02, -0.02))
            ax.set_axis_off()
        names = {
            "own": "the model's own",
            "draft": "draft",
            "kept": "accepted",
            "refused": "refused",
            "unused": "not used",
        }
        shown = [Patch(facecolor=KINDS[k][0], hatch=KINDS[k][1], edgecolor=INK, label=t) for k, t in names.items()]
        figure.legend(handles=shown, loc="outside lower center", ncols=5, fontsize=7.5, columnspacing=1)
    return Picture(figure, alt, caption)


def _token(ax, x: int, y: int, text: str, kind: str) -> None:
    fill, hatch = KINDS[kind]
    faint = kind == "unused"
    box = dict(facecolor=fill, hatch=hatch, edgecolor="#999" if faint else INK, linewidth=0.9)
    ax.add_patch(Rectangle((x + 0.03, y + 0.1), 0.94, 0.8, linestyle=":" if faint else "-", **box))
    paper = dict(bbox={"facecolor": "#fff", "edgecolor": "none", "pad": 0.6}) if hatch else {}
    ax.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=8, color="#666" if faint else INK, **paper)


def accepted(p: Sequence[float], q: Sequence[float], tokens: Sequence[str], alt: str, *, caption: str = "") -> Picture:
    """Bars of a model's distribution p and a draft model's q over some tokens: their overlap is accepted, the excess of p drawn again."""
    both = [min(a, b) for a, b in zip(p, q)]
    places = range(len(tokens))
    with rc_context(STYLE):
        figure, ax = canvas(5.2, 2.9)
        ax.bar(places, both, 0.62, color=COLOURS[2] + "a0", edgecolor=INK, label="min(p, q): drafted and accepted")
        ax.bar(places, [a - m for a, m in zip(p, both)], 0.62, bottom=both, color=COLOURS[4], hatch="//", edgecolor=INK,
               label="p − q: drawn when a draft is refused")  # fmt: skip
        ax.bar(places, [b - m for b, m in zip(q, both)], 0.62, bottom=both, color="#fff", linestyle="--", edgecolor=INK,
               label="q − p: drafted and refused")  # fmt: skip
        ax.set_xticks(list(places), list(tokens))
        ax.set_ylabel("probability")
        ax.set_title(f"a draft is accepted with probability {acceptance(list(p), list(q)):.2f}", fontsize=9, loc="left")
        ax.grid(axis="x", visible=False)
        figure.legend(loc="outside lower center", ncols=1, fontsize=8)
    return Picture(figure, alt, caption)
