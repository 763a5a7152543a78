"""A page table leads from each page of a sequence to its place in memory."""

from matplotlib.patches import ConnectionPatch

from helpers import plot


def test_an_arrow_for_each_entry_and_tokens_where_they_stand():
    """Two sequences share page 2 of four; the second one has a token more there, and a page of its own."""
    tables, texts = {"A": [0, 2], "B": [2, 3]}, {"A": ["a", "b", "c"], "B": ["c", "d", "e"]}
    (ax,) = plot.page_table(tables, texts, 4, 2, "a figure with some boxes in rows").figure.axes
    said = [t.get_text() for t in ax.texts]
    assert [t for t in said if ":" in t] == ["page 0: count 1", "page 1: free", "page 2: count 2", "page 3: count 1"]
    arrows = [p for p in ax.patches if isinstance(p, ConnectionPatch)]
    pages = {t.get_position()[1]: t.get_text() for t in ax.texts if ":" in t.get_text()}
    assert [pages[p.xy2[1]][:6] for p in arrows] == ["page 0", "page 2", "page 2", "page 3"]
    memory = arrows[0].xy2[0]
    inside = lambda t, u: u.get_position()[1] == t.get_position()[1] and memory < u.get_position()[0] < memory + 1.6  # noqa: E731
    found = {
        t.get_text()[:6]: [u.get_text() for u in ax.texts if inside(t, u)] for t in ax.texts if ":" in t.get_text()
    }
    assert found == {"page 0": ["a", "b"], "page 1": [], "page 2": ["c", "d"], "page 3": ["e"]}
