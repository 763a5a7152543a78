"""The film of speculative decoding: what each round keeps against the program, and on a page."""

import pytest

from helpers.figures.inference.draft_films.figure import FIGURE, GOOD, LINE, POOR
from helpers.figures.inference.draft_films.rounds import rounds
from helpers.kernels.inference.speculative_decoding import agreed


@pytest.mark.parametrize("drafted", [GOOD, POOR, LINE], ids=["good", "poor", "perfect"])
@pytest.mark.parametrize("K", [0, 1, 3])
def test_a_round_keeps_what_the_program_keeps(drafted, K):
    film, seen = rounds(LINE, 2, drafted, K), LINE[:2]
    checks = [step for step in film.frames if step.kept is not None]
    for step, made in zip(checks, film.passes, strict=True):
        names = {w: i for i, w in enumerate({*step.drafts, *step.own})}
        kept = agreed([names[w] for w in step.drafts], [names[w] for w in step.own])
        assert len(kept) == made == step.kept + 1 and list(step.done) == seen
        seen = [*seen, *(w for i in kept for w in names if names[w] == i)]
    assert seen == LINE and list(film.frames[-1].done) == LINE


def test_a_poor_draft_model_takes_more_passes_for_the_same_text():
    good, poor = FIGURE.films.values()
    assert sum(good.passes) == sum(poor.passes) and len(good.passes) < len(poor.passes)
    assert good.said == f"7 tokens in {len(good.passes)} passes of the model, 3.5 tokens each."
