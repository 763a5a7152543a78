"""Multi-token prediction: a layer of the model's own that drafts the token after the next, what it costs and gives (chapter 5).

The module takes the model's last activations of a token and the embedding of the token that came after it, [2D] in all,
projects them to D, and passes them through one more layer like the last one and the model's own unembedding. So it drafts one
token for the price of a layer; for more the modules, or one of them again and again, run in turn. It is trained
with the model, and can be dropped.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), sections 2.2 and 5.4.3; Gloeckle et al., "Better & faster large
language models via multi-token prediction" (2024), whose heads draft at once and don't see each other's tokens.
"""

from dataclasses import replace

from helpers.arguments import entries
from helpers.costs.rooflines.roofline import matmul, time
from helpers.costs.sharding.sharded_array import bytes_each
from helpers.costs.transformers.config import Config
from helpers.costs.transformers.parameters_and_flops import parameters

from .prefill_and_decode_step import Replica


def module(c: Config) -> Config:
    """The module's layer as a decoder of one layer, with the model's vocabulary: one like the last, and a full one.

    >>> from helpers.costs.transformers.public_models import model
    >>> module(model("deepseek-v3")).L, module(model("deepseek-v3")).moe.first_dense
    (1, 0)
    """
    c.check_usual("a module that predicts one more token", "indexer")
    moe = replace(c.moe, first_dense=0, every=1) if c.moe and c.L % c.moe.every == 0 else None
    return replace(c, L=1, moe=moe, window=None, full_every=None, name="")


def own_parameters(c: Config):
    """Parameters that the module has to itself: a layer, the projection of 2D to D and the norms of what comes in.

    Embedding and unembedding are the model's. DeepSeek says 11.5 billion, which is the layer without the projection.

    >>> from helpers.costs.transformers.public_models import model
    >>> f"{own_parameters(model('deepseek-v3')) / 1e9:.1f} billion"
    '11.6 billion'
    """
    p = parameters(module(c))
    final = c.D if c.final_norm else 0
    return p.total - p.embedding - p.unembedding - final + 2 * c.D**2 + 2 * c.D


def draft_cost(r: Replica, B, S):
    """Seconds of one drafted token of each of B sequences that see S keys, in decode steps: c of `speculative_decoding.speed_up`.

    >>> from helpers.costs.rooflines.chips import chip
    >>> from helpers.costs.transformers.public_models import model
    >>> r = Replica(model("deepseek-v3"), chip("H200"), 16, weights="fp8", math="fp8")
    >>> [round(draft_cost(r, B, 4096), 3) for B in (1, 16, 256)]
    [0.044, 0.02, 0.019]
    """
    x, w, D = bytes_each(r.math), bytes_each(r.weights) if isinstance(r.weights, str) else r.weights, r.config.D
    projection = time(matmul(B, 2 * D, D, x, w, x, dtype=r.math), r.C, r.W_hbm)
    step = replace(r, config=module(r.config)).decode(B, S).seconds
    return (step + projection.lower) / r.decode(B, S).seconds


entries(__name__)
