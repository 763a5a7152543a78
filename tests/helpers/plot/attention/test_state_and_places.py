"""Drawings of a softmax's state, of what lies where in Flash, and of devices: what they show is what costs and kernels say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers import plot, show
from helpers.costs.attention import io_complexity, linear_attention, ring_attention
from helpers.costs.attention.flops_and_bytes import Attention, flash, flops, fused
from helpers.kernels.attention import dense_attention, ring_attention as ring_kernels, softmax
from helpers.plot.attention import (
    backward_block,
    blocks_on_cores,
    flash_and_memory,
    linear_forms,
    many_chips,
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


def test_one_block_of_each_array_is_in_fast_memory():
    for ax in plot.flash_tiles({"Flash 1": (1, 2), "Flash 2": (1, 2)}, ALT).figure.axes:
        chip = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_fill()
                and to_hex(p.get_facecolor()) == flash_and_memory.PLACES["chip"][0].lower()]  # fmt: skip
        assert len(chip) == 5  # Q, K, V, O and their scores
    assert [flash_and_memory.place("O", k, 1, 2, False) for k in range(3)] == ["done", "chip", "hbm"]
    assert "done" not in [
        flash_and_memory.place("O", k, 1, 2, True) for k in range(3)
    ]  # keys outside: none is finished


def test_flash_keeps_a_number_for_each_row_in_place_of_the_weights():
    ours, theirs = plot.kept(ALT).figure.axes[::-1]
    filled = lambda ax: [p for p in ax.patches if p.get_fill() and p.get_width() != 0.5]  # noqa: E731
    assert len(filled(ours)) == len(filled(theirs)) == 5
    a = Attention(64, H=8)
    assert fused(a).kept / flash(a, 16).kept == a.S
    sides = [filled(ax)[-1].get_width() for ax in (theirs, ours)]
    assert sides == [flash_and_memory.LENGTH["S"], flash_and_memory.LENGTH["1"]]


def test_a_block_has_the_five_products_and_sums_of_backward():
    said = texts(plot.backward_block(ALT))
    assert all(f"{k + 1}:  {product}" in said for k, (product, _) in enumerate(backward_block.PRODUCTS))
    assert flops(Attention(8), products=len(backward_block.PRODUCTS)) == 2.5 * flops(Attention(8))
    sums = blocks_on_cores.SUMS["backward"]
    names = {*sums["rows"], *"\n".join(sums["columns"]).split()}
    assert {array for _, array in backward_block.PRODUCTS[2:]} == names and all(f"${name}$" in said for name in names)


@pytest.mark.parametrize("split", ["keys", "queries"])
def test_warps_say_what_they_read_and_exchange(split):
    read, exchanged = io_complexity.warp_floats(128, 128, 64, 4, split)
    assert f"reads {read:,} numbers, exchanges {exchanged:,}" in texts(plot.warps(ALT))


def test_tokens_have_the_colour_of_their_device():
    for cut, places in (("contiguous", None), ("striped", ring_kernels.stripes)):
        of = [many_chips.owner(t, 4, 3, cut) for t in range(12)]
        for d in range(4):
            want = range(3 * d, 3 * d + 3) if places is None else places(d, 4, 3).tolist()
            assert [t for t, o in enumerate(of) if o == d] == list(want)
    first = plot.cuts(4, 3, ALT).figure.axes[1]
    assert len({p.get_facecolor() for p in first.patches}) == 4
    with pytest.raises(ValueError, match="contiguous or striped, not 'zigzag'"):
        many_chips.owner(0, 4, 3, "zigzag")


def test_rounds_and_bytes_are_those_of_the_formulas():
    a = Attention(1, 2**20, N=32, K=8)
    ring, tree = (ax.get_title(loc="left") for ax in plot.ring_or_tree(a, 8, ALT).figure.axes)
    sent, hops = ring_attention.ring_decode_bytes(a, 8)
    assert f"{hops} rounds, {show.bytes(sent)} per device" in ring
    assert f"{ring_attention.rounds(8)} rounds, {show.bytes(ring_attention.tree(a, 8).sent)} per device" in tree
    heard = {i: {i} for i in range(8)}
    for pairs in many_chips.sends(8, "doubling"):
        heard = {j: heard[j] | heard[i] for i, j in pairs}
    assert all(len(known) == 8 for known in heard.values())
    with pytest.raises(ValueError, match="a power of two of devices, not of 6"):
        plot.ring_or_tree(a, 6, ALT)


def test_linear_forms_make_the_tables_that_their_flops_pay_for():
    """2 FLOPs of F and of H + 1 for each pair of the tables, and twice F(H + 1) multiply-adds a token for the state."""
    T, C, F, H = 64, 16, 8, 8
    for form in linear_forms.FORMS:
        pairs = sum(side * side for side in linear_forms.tables(form, T, C))
        states = 0 if form == "parallel" else 4 * T * F * (H + 1)
        assert linear_attention.linear_flops(T, H, F, form, C=C) == 2 * pairs * (F + H + 1) + states, form
    with pytest.raises(ValueError, match="parallel, chunked, recurrent, not 'dense'"):
        linear_forms.tables("dense", 8, 2)


def test_only_sums_of_rows_cross_cores_and_only_backward():
    """As the kernels have it: shuffled rows change nothing forward, shuffled columns change dQ alone."""
    crossing = {
        (way, name)
        for way, sums in blocks_on_cores.SUMS.items()
        for side, names in sums.items()
        for name in names
        if any(len(blocks_on_cores.summed_by(way, side, k, 4)) > 1 for k in range(4))
    }
    assert crossing == {("backward", "dQ")}
    for ax, way in zip(plot.blocks_on_cores(4, ALT).figure.axes, blocks_on_cores.SUMS):
        grey = [p for p in ax.patches if to_hex(p.get_facecolor()) == "#dddddd"]
        assert len(grey) == (3 if way == "backward" else 0)  # the first row is a single block


@pytest.mark.parametrize("K", [2, 8, 1])
@pytest.mark.sample(quick=1)
def test_query_heads_lead_to_the_kv_head_that_the_kernel_reads(K):
    """Keys and values of one head are made to stand out: only the query heads that lead to it notice."""
    ax = plot.shared_heads(8, (K, 8), ALT).figure.axes[0]
    middles = {t.get_text(): t.get_position()[0] for t in ax.texts if "v_" in t.get_text()}
    v = jnp.zeros((1, 1, K, 1)).at[0, 0, K - 1].set(1.0)
    out = jax.jit(dense_attention.attention)(jnp.ones((1, 1, 8, 1)), jnp.ones((1, 1, K, 1)), v)[0, 0, :, 0]
    ends = [line.get_xdata()[1] == pytest.approx(middles[f"$k_{K - 1}, v_{K - 1}$"]) for line in ax.lines]
    assert ends == [bool(o) for o in out]
