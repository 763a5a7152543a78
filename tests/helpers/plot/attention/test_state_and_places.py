"""Drawings of a softmax's state, of what lies where in Flash, and of devices: what they show is what costs and kernels say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import plot
from helpers.costs.attention import io_complexity, linear_attention
from helpers.kernels.attention import ring_attention as ring_kernels, softmax
from helpers.plot.attention import (
    flash_and_memory,
    masks_and_blocks,
    softmax_state,
)
from tests.helpers.plot.drawn import ALT, texts

SCORES = [1.0, 3.0, 2.0, 0.0, 4.0, 2.0]


def test_the_state_is_that_of_all_prefixes():
    prefixes = jax.jit(softmax.prefixes)(jnp.array(SCORES))
    m, _, total = np.transpose(softmax_state.states(SCORES))
    assert np.allclose(m, prefixes.M) and np.allclose(total, prefixes.L)
    said = texts(plot.online_softmax(SCORES, ALT))
    assert {f"{x:.2f}" for x in total} <= set(said) and said.count("4") == 3  # the score, and m twice


def test_a_tree_of_parts_ends_at_the_whole_row():
    parts = [SCORES[i : i + 2] for i in (0, 2, 4)] + [[1.0, 1.0]]
    one = softmax_state.states(sum(parts, []))[-1]
    assert texts(plot.combine_tree(parts, ALT))[-1] == f"$m$ = {one[0]:g}\n$\\ell$ = {one[2]:.2f}"
    got = softmax_state.combined((3.0, 1.5), (4.0, 2.0))
    want = softmax.together(*(softmax.Running(jnp.array(m), jnp.array(n)) for m, n in ((3.0, 1.5), (4.0, 2.0))))
    assert np.allclose(got, [want.M, want.L])


def test_kernels_move_what_the_formula_counts():
    L = 1000
    for title, steps in flash_and_memory.KERNELS.items():
        moved = sum(a * L * L + b * L for step in steps for a, b in step[1:])
        assert moved == io_complexity.softmax_floats(L, fused=title.startswith("one"))
    titles = [ax.get_title(loc="left") for ax in plot.kernels(ALT).figure.axes]
    assert titles == ["three kernels: $5L^2 + 2L$ numbers", "one kernel: $2L^2$ numbers"]


def test_tokens_have_the_colour_of_their_device():
    for cut, places in (("contiguous", None), ("striped", ring_kernels.stripes)):
        of = [softmax_state.owner(t, 4, 3, cut) for t in range(12)]
        for d in range(4):
            want = range(3 * d, 3 * d + 3) if places is None else places(d, 4, 3).tolist()
            assert [t for t, o in enumerate(of) if o == d] == list(want)
    first = plot.cuts(4, 3, ALT).figure.axes[1]
    assert len({p.get_facecolor() for p in first.patches}) == 4
    with pytest.raises(ValueError, match="contiguous or striped, not 'zigzag'"):
        softmax_state.owner(0, 4, 3, "zigzag")


def test_linear_forms_make_the_tables_that_their_flops_pay_for():
    """2 FLOPs of F and of H + 1 for each pair of the tables, and twice F(H + 1) multiply-adds a token for the state."""
    T, C, F, H = 64, 16, 8, 8
    for form in masks_and_blocks.FORMS:
        pairs = sum(side * side for side in masks_and_blocks.tables(form, T, C))
        states = 0 if form == "parallel" else 4 * T * F * (H + 1)
        assert linear_attention.linear_flops(T, H, F, form, C=C) == 2 * pairs * (F + H + 1) + states, form
    with pytest.raises(ValueError, match="parallel, chunked, recurrent, not 'dense'"):
        masks_and_blocks.tables("dense", 8, 2)
