"""The module that predicts one more token: DeepSeek's own counts, and its price by hand."""

from dataclasses import replace

import pytest

from helpers.costs.inference.multi_token_prediction import draft_cost, module, own_parameters
from helpers.costs.inference.prefill_and_decode_step import Replica
from helpers.costs.inference.speculative_decoding import speed_up
from helpers.costs.rooflines.chips import chip
from helpers.costs.transformers.parameters_and_flops import parameters
from helpers.costs.transformers.public_models import model
from tests.helpers.costs.tables import walks

V3 = model("deepseek-v3")


def test_deepseeks_own_counts():
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 11.5 billion unique parameters, 2.4 billion active with the model's embedding
    and head, 0.9 billion each. These are the layer's; the projection has 2·7168² more."""
    p = parameters(module(V3))
    assert round((p.total - p.embedding - p.unembedding) / 1e9, 1) == 11.5 and round(p.active / 1e9, 1) == 2.4
    assert round(p.embedding / 1e9, 1) == round(p.unembedding / 1e9, 1) == 0.9
    assert own_parameters(V3) == parameters(V3).total - parameters(replace(V3, L=60)).total + 2 * 7168**2 + 2 * 7168


@walks(["llama-3-8b", "mixtral-8x7b", "gemma-2-27b", "llama-4-maverick"])
def test_a_layer_like_the_last(name):
    """What the last layer adds to the model, whatever kind it is."""
    c = model(name)
    last = parameters(c).total - parameters(replace(c, L=c.L - 1)).total
    assert own_parameters(c) == last + 2 * c.D**2 + 2 * c.D


def test_a_drafts_price_by_hand():
    """LLaMA-3-8B on one H100, a short context: the step reads all weights but the embedding's, the module a layer, the
    projection and the unembedding. Caches and activations are a hundredth."""
    r = Replica(model("llama-3-8b"), chip("H100"))
    layer, head, projection = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336, 4096 * 128256, 2 * 4096**2
    assert draft_cost(r, 1, 64) == pytest.approx((layer + head + projection) / (32 * layer + head), rel=0.01)
    assert draft_cost(r, 1, 64) > 0.1 > 5 * draft_cost(Replica(V3, chip("H200"), 16, weights="fp8"), 64, 4096)


def test_the_published_gain():
    """1.8 times the tokens a second at 85 to 90 % acceptance (technical report, 5.4.3): with all experts read in any case, and
    not where the second token's experts are read besides."""
    r = Replica(V3, chip("H200"), 16, weights="fp8", math="fp8")
    gain = {
        B: [speed_up(a, 1, draft_cost(r, B, 4096), r.verify(B, 1, 4096)) for a in (0.85, 0.9)] for B in (16, 64, 256)
    }
    assert gain[64][0] < 1.85 and gain[64][1] > 1.8 and gain[256][0] < 1.8 and gain[16][1] < 1


def test_what_has_no_such_module():
    with pytest.raises(
        ValueError, match="a module that predicts one more token does not know a layer of linear attention"
    ):
        module(model("qwen3-next-80b-a3b"))
