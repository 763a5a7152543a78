"""FSDP over X and tensor parallelism over Y: seven steps forward, twelve backward (chapter 4).

The activations that Y sends are B_X tokens only, the weights that X sends F_Y columns only: each makes the other cheaper.

Source: Austin et al. 2025, Section 5.
"""

from jax import lax

from .mlp_training_step import Weights
from .tensor_parallel import regathering_or_keeping


def mixed_forward(In, w: Weights, keep: bool = False):
    shard = In
    In = lax.all_gather(In, "Y", axis=1, tiled=True)  # 1  [B_X, D]: waited for
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # 2  [D, F_Y]: can be done ahead
    Tmp = In @ W_in  # 3  [B_X, F_Y]
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # 4  [F_Y, D]: can be done ahead
    Out = Tmp @ W_out  # 5  [B_X, D] {U_Y}
    Out = lax.psum_scatter(Out, "Y", scatter_dimension=1, tiled=True)  # 6  [B_X, D_Y]: waited for
    return Out, (In if keep else shard, Tmp)  # 7  the loss, after the last layer


def mixed_backward(dOut, kept, w: Weights, keep: bool = False):
    In, Tmp = kept  # 1  dOut[B_X, D_Y] comes from the layer above
    dOut = lax.all_gather(dOut, "Y", axis=1, tiled=True)  # 2  [B_X, D]: waited for
    dW_out = Tmp.T @ dOut  # 3  [F_Y, D] {U_X}
    dW_out = lax.psum_scatter(dW_out, "X", scatter_dimension=1, tiled=True)  # 4  [F_Y, D_X]
    W_out = lax.all_gather(w.W_out, "X", axis=1, tiled=True)  # 5  [F_Y, D]: can be done ahead
    dTmp = dOut @ W_out.T  # 6  [B_X, F_Y]
    if not keep:
        In = lax.all_gather(In, "Y", axis=1, tiled=True)  # 7  [B_X, D]: again, and can be done ahead
    dW_in = In.T @ dTmp  # 8  [D, F_Y] {U_X}
    dW_in = lax.psum_scatter(dW_in, "X", scatter_dimension=0, tiled=True)  # 9  [D_X, F_Y]
    W_in = lax.all_gather(w.W_in, "X", axis=0, tiled=True)  # 10  [D, F_Y]: can be done ahead
    dIn = dTmp @ W_in.T  # 11  [B_X, D] {U_Y}
    dIn = lax.psum_scatter(dIn, "Y", scatter_dimension=1, tiled=True)  # 12  [B_X, D_Y]: waited for
    return dIn, Weights(dW_in, dW_out)


MIXED, MIXED_KEEPING = regathering_or_keeping(  # with In kept, step 7 falls away
    "FSDP+TP", ("In[B_X, D_Y]", "W_in[D_X, F_Y]", "W_out[F_Y, D_X]"), "Tmp[B_X, F_Y]", mixed_forward, mixed_backward
)
