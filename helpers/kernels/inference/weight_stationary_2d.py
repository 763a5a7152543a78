"""An MLP whose weights stay where they are, cut along D and along F: 2D weight-stationary (chapter 5).

With F cut over all devices (1D) a layer sends B·D numbers in and B·D out, however many devices there are. With blocks of the
weights, cut both ways, it sends B·D/|X| in and out and twice B·F/|YZ| in between: both shrink as the mesh grows.

Source: Austin et al. 2025, Section 7, Question 7; Pope et al., "Efficiently Scaling Transformer Inference" (2022).
"""

from collections.abc import Callable, Iterator
from itertools import product

import jax
from jax import lax

from helpers.kernels.mesh import sharded

ONE = ("In[B, D_XYZ]", "W_in[D, F_XYZ]", "W_out[F_XYZ, D]")
TWO = ("In[B, D_XYZ]", "W_in[D_X, F_YZ]", "W_out[F_YZ, D_X]")
OUT = "Out[B, D_XYZ]"


def one(In, W_in, W_out, act: Callable = jax.nn.gelu):
    """1D: F over all devices."""
    In = lax.all_gather(In, ("X", "Y", "Z"), axis=1, tiled=True)  # In[B, D]
    Tmp = act(In @ W_in)  # Tmp[B, F_XYZ]
    Out = Tmp @ W_out  # Out[B, D] {U_XYZ}
    return lax.psum_scatter(Out, ("X", "Y", "Z"), scatter_dimension=1, tiled=True)  # Out[B, D_XYZ]


def two(In, W_in, W_out, act: Callable = jax.nn.gelu):
    """2D, in five steps. `act` needs the whole sum over D, so step 3 cannot be put off."""
    In = lax.all_gather(In, ("Y", "Z"), axis=1, tiled=True)  # 1. In[B, D_X]
    Tmp = In @ W_in  # 2. Tmp[B, F_YZ] {U_X}
    Tmp = act(lax.psum(Tmp, "X"))  # 3. Tmp[B, F_YZ]
    Out = Tmp @ W_out  # 4. Out[B, D_X] {U_YZ}
    return lax.psum_scatter(Out, ("Y", "Z"), scatter_dimension=1, tiled=True)  # 5. Out[B, D_XYZ]


def one_dimension(mesh: jax.sharding.Mesh) -> Callable:
    """(In[B, D], W_in[D, F], W_out[F, D]) -> Out[B, D] over a mesh of X, Y and Z, with weights cut along F."""
    return sharded(one, mesh, ONE, OUT)


def two_dimensions(mesh: jax.sharding.Mesh) -> Callable:
    """The same with weights cut along D over X and along F over Y and Z; an axis may have one device."""
    return sharded(two, mesh, TWO, OUT)


def grids(n: int) -> Iterator[tuple[int, int, int]]:
    """Every (|X|, |Y|, |Z|) of n devices.

    >>> list(grids(2))
    [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    """
    sizes = [d for d in range(1, n + 1) if n % d == 0]
    return ((x, y, n // (x * y)) for x, y in product(sizes, sizes) if n % (x * y) == 0)
