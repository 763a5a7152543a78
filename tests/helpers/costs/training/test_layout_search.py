"""The search over layouts against one that knows nothing of arrays, and against the closed forms of the sources."""

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest

from helpers.costs.attention.ring_attention import hidden_block
from helpers.costs.rooflines.chips import chip
from helpers.costs.rooflines.hardware import Slice
from helpers.costs.training import layout_search as layouts, layout_set
from helpers.costs.training.layout import AXES, MASTER, Layout
from helpers.costs.training.operation_seconds import CONSTANTS, Pace
from helpers.costs.training.training_step import step
from helpers.costs.transformers.config import Config, MoE
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import refused, walks

V5E, V5P = chip("v5e"), chip("v5p")
CUBE = Slice(V5P, (4, 4, 4))
SMALL = Config(512, 4, 8, 2, 64, 2048, 1000, moe=MoE(E=4, k=2, F=1024))
LLAMA = model("llama-2-13b")


def everything(c, tokens, T, s, policies):
    """Every layout as plain numbers, and its step: those that `step` accepts."""
    chips, sequences = s.chips, tokens // T
    for sizes in product([n for n in range(1, chips + 1) if chips % n == 0], repeat=len(AXES)):
        if prod(sizes) != chips:
            continue
        for zero, m, v, policy in product(range(4), range(1, sequences + 1), layout_set.STAGES, policies):
            try:
                laid = Layout(**dict(zip(AXES, sizes)), zero=zero, microbatches=m, v=v, policy=policy)
                yield step(c, laid, tokens, T, s)
            except ValueError:
                pass


def named_once(a: Layout) -> bool:
    """Whether zero shares something, and not what fsdp does."""
    copies = a.dp * a.cp * a.ep > 1
    return a.zero == 0 or copies and (a.zero < 3 or a.dp == 1)


@walks([((2, 2), 4, ("block", "everything")), ((4, 1), 6, ("matmuls",))])
def test_the_search_is_exact(shape, sequences, policies):
    """The best of all layouts, found by arrays, are those of a loop over plain numbers, mesh by mesh; so are the counts."""
    s, tokens = Slice(V5E, shape), sequences * 256
    every = [at for at in everything(SMALL, tokens, 256, s, policies) if named_once(at.layout)]
    found = layouts.search(SMALL, tokens, 256, s, policies=policies, top=1000)
    fit = [at for at in every if not at.missing]
    assert (found.tried, found.fitting) == (len(every), len(fit)) and found.as_good
    best = min(at.estimate.mid for at in fit if not layouts.exposed(at))

    def order(at):
        sizes, seconds = [getattr(at.layout, a) for a in AXES], float(f"{at.estimate.mid:.8g}")
        laid = at.layout
        simple = sum(n > 1 for n in sizes), laid.pp > 1, laid.microbatches, laid.v, laid.zero, at.memory.total
        return layouts.exposed(at), seconds > layouts.EQUAL * best and seconds, *simple

    meshes: dict = {}
    for at in sorted(fit, key=order):
        meshes.setdefault(tuple(getattr(at.layout, a) for a in AXES), at.layout)
    assert [found.layout(n) for n in range(found.fits)] == [*meshes.values()]
    assert {at.layout for at in found.best} == {found.layout(line[0]) for line in found.designs if line[0] < found.fits}


def test_a_layout_that_has_several_names_is_tried_under_one():
    """Seconds and bytes of what is left out are those of its other name."""
    c, s = model("mixtral-8x7b"), Slice(chip("H100"), (8,))
    for left_out, name in (
        (Layout(dp=4, fsdp=4, pods=2, zero=3), Layout(fsdp=16, pods=2)),
        (Layout(dp=4, ep=2, cp=2, pods=2, zero=3), Layout(fsdp=4, ep=2, cp=2, pods=2, zero=3)),
        (Layout(tp=4, fsdp=4, pods=2, zero=2), Layout(tp=4, fsdp=4, pods=2)),
    ):
        one, other = (step(c, at, 2**20, 4096, s) for at in (left_out, name))
        assert (one.estimate.mid, one.memory.total) == pytest.approx(
            (other.estimate.mid, other.memory.total), rel=1e-12
        )
        assert [layouts.keeps(c, at, 2**20, 4096, s) for at in (left_out, name)] == [False, True]


@walks(["llama-3-8b", "mixtral-8x7b"], [Layout(pods=8), Layout(pods=8, stored=MASTER)])
def test_a_line_has_one_design_and_no_design_has_two_lines_that_are_close(name, template):
    found = layouts.ranking(model(name), 2**19, 4096, Slice(chip("H100"), (8,)), template)
    sizes = [found.layout(n) for n in range(len(found))]
    assert sorted(n for line in found.designs for n in line) == [*range(len(found))]
    heads = [line[0] for line in found.designs]
    assert heads == sorted(heads)
    last: dict = {}  # of each design the line that was begun last
    for line in found.designs:
        (design,) = {(a.tp, a.cp, a.ep, a.pp, n < found.fits) for n in line for a in [sizes[n]]}
        took = found.seconds[list(line)]
        assert line == tuple(sorted(line)) and (not design[-1] or took.max() <= 1.02 * took[0])
        if design in last:
            assert design[-1] and took[0] > 1.02 * found.seconds[last[design]]
        last[design] = line[0]
    for n in range(3):
        others = {sizes[k].fsdp for k in found.designs[n][1:]}
        assert found.also(n) == tuple(sorted(others)) and sizes[heads[n]].fsdp not in others
    assert max(map(len, found.designs)) > 3 and len(last) < len(found.designs)


def test_a_rank_says_why_a_layout_comes_first():
    """By every field that two of a search's layouts differ in first."""
    found = layouts.ranking(model("llama-3-8b"), 2**20, 8192, Slice(chip("H100"), (8,)), Layout(pods=2))
    ranks = [found.rank_of(n) for n in range(len(found))]
    assert ranks == sorted(ranks) and len({vars(r).values() for r in ranks}) == len(ranks)
    said = {one.why(other) for one, other in zip(ranks, ranks[1:])} | {ranks[0].why(ranks[-1])}
    assert {layouts.REASONS["slower"], layouts.REASONS["exposed"]} < said and "" not in said
    assert ranks[1].why(ranks[0]) == "" and found.beside(layouts.search(*AGAIN).best[0]) == ranks[0]


AGAIN = model("llama-3-8b"), 2**20, 8192, Slice(chip("H100"), (8,)), Layout(pods=2)


@walks(["llama-3-8b", "llama-3-70b", "gpt-oss-120b"], [8192, 131072])
def test_what_is_found_is_no_faster_than_its_floor_and_hides_its_ring(name, T):
    """Context parallelism is chosen only where a chip has the tokens that hide the keys and values it sends (chapter 6)."""
    c, s = model(name), Slice(chip("H100"), (8,))
    at = layouts.search(c, 2**22, T, s, template=Layout(pods=64), top=1).best[0]
    assert at.estimate.mid > at.time.lower
    if at.layout.cp > 1:
        cards = 8 // at.layout.tp  # of a host, that gather its keys and values together
        across = at.layout.tp * at.layout.cp > 8
        W = cards * s.chip.dcn_bandwidth if across else s.chip.link_bandwidth
        assert T / at.layout.cp >= hidden_block(s.chip.rate(), W, c.G, share=0.5)


def test_arrays_are_what_plain_numbers_are():
    """Any layout of a grid of arrays has the seconds and bytes that it has alone."""
    draw = np.random.default_rng(0)
    tokens, T, pods = 2**18, 1024, 2
    for grid in layouts.grids(SMALL, tokens, T, CUBE, Layout(pods=pods)):
        at = step(SMALL, replace(grid, policy="matmuls"), tokens, T, CUBE)
        names = layouts.SEARCHED
        full = np.broadcast_arrays(
            *(getattr(grid, n) for n in names), at.hidden, at.time.lower, at.time.upper, at.memory.total, at.bubble
        )
        columns = [a.ravel() for a in full]
        checked = 0
        for i in draw.permutation(columns[0].size)[:300]:
            layout = Layout(**{n: int(col[i]) for n, col in zip(names, columns)}, pods=pods, policy="matmuls")
            try:
                one = step(SMALL, layout, tokens, T, CUBE)
            except ValueError:
                continue
            want = one.hidden, one.time.lower, one.time.upper, one.memory.total, one.bubble
            assert [col[i] for col in columns[len(names) :]] == pytest.approx(want, rel=1e-12)
            checked += 1
        assert checked > 30


def test_meshes_fill_the_slice_and_keep_the_rules():
    """Every mesh that the search has is accepted by itself, and none that is accepted is missing."""
    tokens, T, s = 64 * 512, 512, Slice(V5E, (4, 4))
    each = layout_set.meshes(SMALL, tokens, T, s)
    had = {tuple(map(int, row)) for row in zip(*each.values())}
    want = set()
    for sizes in layout_set.factors(16, 6):
        try:
            step(SMALL, Layout(**dict(zip(AXES, sizes))), tokens, T, s)
            want.add(sizes)
        except ValueError:
            pass
    assert had == want and len(had) > 50


def test_the_smallest_machine():
    """Chips double until some layout fits; never below all the state over all the memory."""
    enough = layouts.smallest(LLAMA, 2**20, 4096, V5E)
    least = 12 * parameters(LLAMA).total / V5E.hbm_bytes
    assert enough.pods == 1 and least <= enough.chips <= 2 * least
    assert layouts.smallest(model("deepseek-v3"), 2**20, 4096, V5E) is None
    two = layouts.smallest(model("llama-3-70b"), 2**20, 4096, chip("H100"))
    assert str(two) == "2 domains of 8" and 8 * 80e9 < 12 * parameters(model("llama-3-70b")).total < 16 * 80e9
    assert layouts.smallest(model("llama-3-70b"), 2**20, 4096, chip("H100"), min_chips=17).chips == 32


@pytest.mark.parametrize("factor, inside", [(1.0, False), (1.3, True)])
def test_tp_over_domains_has_to_be_faster_by_a_factor(factor, inside, monkeypatch):
    """Two domains are estimated to take a sixth less here."""
    monkeypatch.setattr(layouts, "CAREFUL", factor)
    s = Slice(chip("H100"), (8,))
    best = layouts.search(model("opt-175b"), 2**15, 4096, s, Layout(pods=8, schedule="GPipe"), top=1).best
    assert (best[0].layout.tp <= 8) == inside


@walks([(1, 8192), (8, 8192), (8, 32768)])
def test_blocks_that_cannot_hide_a_hop_come_last(masked, T):
    """Chapter 6's block of a ring, at the rates that the estimate gives to attention and links."""
    c, s = replace(model("llama-3-8b"), K=masked), Slice(chip("H100"), (8,))
    pace = Pace(s.chip)
    least = hidden_block(s.chip.rate() * CONSTANTS.attention, pace.rate(8, 1), G=c.N // c.K, share=0.5)
    assert layouts.exposed(step(c, Layout(cp=8), 2**20, T, s)) == (T / 8 < least)
    found = layouts.search(c, 2**20, T, s, top=100).best
    late = [layouts.exposed(at) for at in found]
    assert late == sorted(late) and not late[0]


def test_what_does_not_fit_is_told_what_would():
    cases = (
        (lambda: step(LLAMA, Layout(dp=64), 2**20, 4096, CUBE),
         "dp=64 needs 169.0 GB on a v5p, 73.0 GB more than it has, 104.1 GB of it optimizer; .* fits on this slice"),
        (lambda: step(LLAMA, Layout(tp=4), 2**18, 4096, Slice(V5E, (2, 2))),
         "GB more than it has, .* no layout fits on this slice, the smallest slice that holds the step is 4x4"),
        (lambda: step(model("llama-3-70b"), Layout(tp=8), 2**20, 4096, Slice(chip("H100"), (8,))),
         "the smallest slice that holds the step is 2 domains of 8"),
        (lambda: step(model("deepseek-v3"), Layout(fsdp=256), 2**20, 4096, Slice(V5E, (16, 16))),
         "no layout fits on any slice of v5e up to 16x16, where the best lacks [0-9.]+ GB a chip: give a smaller model"),
    )  # fmt: skip
    refused(*((lambda call=call: layouts.check_fits(call()), said) for call, said in cases))
