"""FLOPs and bytes of one equation: the conventions of the course, in tables.

FLOPs
  dot_general, convolution   2 per multiply-add, whatever the number type; a convolution's padding is free
  ragged_dot_general         2 per multiply-add of a row with the matrix of its own group
  add, mul, max, exp ...     1 per element of the result, transcendental or not
  reductions                 elements in minus elements out: n numbers take n - 1 additions
  comparing, selecting, converting, moving, integer and bit arithmetic, random bits: 0
  collectives: 0. The additions of an AllReduce or ReduceScatter are at most one per number sent, and sending takes longer
Bytes
  every array operand and every result of the equation once, as if nothing were fused
  a view (reshape, squeeze, a new axis of length 1 ...) moves nothing; numbers written into the program move nothing
  slices and gathers read what they take; updates and scatters touch what they change
An equation that no rule knows costs 0 and is reported by name, never silently.
"""

import re
from math import prod

import jax.numpy as jnp
import numpy as np

ARITHMETIC = frozenset("add add_any sub mul div rem neg abs sign max min floor ceil round square clamp".split())
TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p sqrt rsqrt cbrt pow logistic tanh sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh "
    "erf erfc erf_inv lgamma digamma log2".split()
)
REDUCTIONS = frozenset("reduce_sum reduce_max reduce_min reduce_prod cumsum cumprod cummax cummin".split())
WINDOWS = frozenset("reduce_window_sum reduce_window_max reduce_window_min".split())
VIEWS = frozenset(
    "reshape squeeze bitcast_convert_type stop_gradient optimization_barrier sharding_constraint layout_constraint name "
    "pvary preduced reduced_vary_cast reduced_vary_cast_p vary_unreduced_cast vary_unreduced_cast_p axis_index "
    "random_seed random_wrap random_unwrap debug_print".split()
)
TAKES = frozenset("slice dynamic_slice gather split".split())
PUTS = frozenset("dynamic_update_slice scatter".split())
ACCUMULATES = frozenset("scatter-add scatter-sub scatter-mul scatter-min scatter-max".split())
MOVES = frozenset(
    "broadcast_in_dim broadcast_to transpose concatenate pad rev tile stack unstack iota empty zeros_like copy device_put "
    "reshard select_n convert_element_type reduce_precision real imag complex conj sort top_k argmax argmin "
    "eq ne lt le gt ge eq_to le_to lt_to is_finite and or xor not reduce_and reduce_or reduce_xor nextafter "
    "shift_left shift_right_logical shift_right_arithmetic population_count clz mulhi "
    "random_bits random_fold_in random_split random_clone threefry2x32 threefry4x32 philox2x32 philox4x32 "
    "rng_bit_generator iota_2x32_shape".split()
)


def known(eqn) -> bool:
    """True if a rule says what this equation costs; none does for arithmetic on complex numbers."""
    name = eqn.primitive.name
    if any(_kind(v) == "c" for v in (*eqn.invars, *eqn.outvars)):
        return name in VIEWS | TAKES | PUTS | MOVES
    return name in KNOWN


def flops(eqn) -> int:
    """FLOPs of one run of the equation on one device; 0 if no rule knows it."""
    name = eqn.primitive.name
    if not known(eqn):
        return 0
    if name in _FLOPS:
        return _FLOPS[name](eqn)
    if not eqn.outvars or _kind(eqn.outvars[0]) != "f":
        return 0  # counters and indices are bookkeeping
    out = size(eqn.outvars[0])
    if name in ARITHMETIC or name in TRANSCENDENTAL:
        return out
    if name in REDUCTIONS:
        if not name.startswith("reduce"):  # a running sum, one for each place but those along its axis
            out = size(eqn.invars[0]) // max(1, eqn.invars[0].aval.shape[eqn.params["axis"]])
        return size(eqn.invars[0]) - out
    if name in WINDOWS:
        return out * (prod(eqn.params["window_dimensions"]) - 1)
    if name in ACCUMULATES:
        return size(eqn.invars[2])
    return 0


def bytes_moved(eqn) -> int:
    """Bytes of the equation's operands and results, each once; see the module for views, slices and updates."""
    name = eqn.primitive.name
    if name in VIEWS or (name == "broadcast_in_dim" and size(eqn.invars[0]) == size(eqn.outvars[0]) > 1):
        return 0  # a broadcast may only add axes of length 1
    ins, outs = _nbytes(eqn.invars), _nbytes(eqn.outvars)
    if name in TAKES:  # reads as many bytes as it writes, and its indices
        return 2 * outs + _nbytes(eqn.invars[1:])
    if name == "dynamic_update_slice":
        return 2 * nbytes(eqn.invars[1]) + _nbytes(eqn.invars[2:])
    if name == "scatter":
        return 2 * nbytes(eqn.invars[2]) + nbytes(eqn.invars[1])
    if name in ACCUMULATES:  # the old values are read too
        return 3 * nbytes(eqn.invars[2]) + nbytes(eqn.invars[1])
    return ins + outs


def dot_flops(eqn) -> int:
    """2 * batch * M * N * K of a dot_general: two for each multiply-add."""
    (contract, _), _ = eqn.params["dimension_numbers"]
    return 2 * size(eqn.outvars[0]) * prod(eqn.invars[0].aval.shape[d] for d in contract)


def ragged_dot_flops(eqn) -> int:
    """2 per multiply-add of a product in which each row belongs to one group, as a token to an expert.

    The groups are taken to hold all rows. Where the rows are summed over (the gradient of the experts' weights), each
    group's result sums its own rows only.
    """
    dims = eqn.params["ragged_dot_dimension_numbers"]
    (contract, _), _ = dims.dot_dimension_numbers
    out, groups = size(eqn.outvars[0]), size(eqn.invars[2])
    if set(dims.lhs_ragged_dimensions) & set(contract):
        out //= groups
    return 2 * out * prod(eqn.invars[0].aval.shape[d] for d in contract)


def conv_flops(eqn) -> int:
    """2 per multiply-add of a convolution that meets a real input element, not padding or dilation."""
    p = eqn.params
    lhs, rhs, out = (v.aval.shape for v in (*eqn.invars, eqn.outvars[0]))
    ld, rd, od = p["dimension_numbers"].lhs_spec, p["dimension_numbers"].rhs_spec, p["dimension_numbers"].out_spec
    taps = 1
    for i, (low, _) in enumerate(p["padding"]):
        taps *= _taps(
            lhs[ld[2 + i]], rhs[rd[2 + i]], out[od[2 + i]],
            p["window_strides"][i], low, p["lhs_dilation"][i], p["rhs_dilation"][i],
        )  # fmt: skip
    # Each output feature of each batch element sees the input features of its own group: rhs[rd[1]] of them.
    return 2 * out[od[0]] * out[od[1]] * rhs[rd[1]] * taps


def _taps(n_in: int, n_kernel: int, n_out: int, stride: int, low: int, grow_in: int, grow_kernel: int) -> int:
    """Pairs of output position and kernel tap, along one dimension, that land on an input element."""
    at = np.arange(n_out)[:, None] * stride + np.arange(n_kernel)[None, :] * grow_kernel - low
    return int(np.sum((at >= 0) & (at % grow_in == 0) & (at // grow_in < n_in)))


def power_flops(eqn) -> int:
    """Multiplications of x**y by repeated squaring, and one division if y is negative."""
    y = abs(eqn.params["y"])
    each = max(0, y.bit_length() + y.bit_count() - 2) + (eqn.params["y"] < 0)
    return each * size(eqn.outvars[0]) if _kind(eqn.outvars[0]) == "f" else 0


def size(v) -> int:
    """Elements of a variable; a token has none."""
    return prod(getattr(v.aval, "shape", (0,)))


def nbytes(v) -> int:
    """Bytes of a variable, 4-bit types packed; 0 for a number written into the program and for a token."""
    shape, dtype = getattr(v.aval, "shape", None), getattr(v.aval, "dtype", None)
    if shape is None or dtype is None or (is_literal(v) and not shape):
        return 0
    return -(-prod(shape) * _bits(dtype) // 8)


def _nbytes(variables) -> int:
    """Bytes of some variables, each different one once: x * x reads x once."""
    return sum(nbytes(v) for v in {id(v): v for v in variables}.values())


def _bits(dtype) -> int:
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.finfo(dtype).bits
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).bits
    return dtype.itemsize * 8  # bool, complex, random keys


def short(dtype) -> str:
    """A type's name as costs have it: bf16, f32, int8, fp8."""
    name = np.dtype(dtype).name if not str(dtype).startswith("key") else str(dtype)
    for long, brief in (("bfloat", "bf"), ("float8", "fp8"), ("float4", "fp4"), ("float", "f")):
        if name.startswith(long):
            return brief if brief.startswith("fp") else name.replace(long, brief)
    return name


def array_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array, by the name of its type as `short` has it; 4-bit types are packed.

    >>> array_bytes("bf16", (4, 8)), array_bytes("int4", (3,)), array_bytes("bool", (3,))
    (64, 2, 3)
    """
    bits = 8 if dtype == "bool" else int(re.search(r"\d+", dtype)[0])
    return -(-prod(shape) * bits // 8)


def _kind(v) -> str:
    """'f', 'c' or another letter for the number type of a variable."""
    dtype = getattr(v.aval, "dtype", None)
    if dtype is None:
        return "-"
    return next((k for k, t in (("f", jnp.floating), ("c", jnp.complexfloating)) if jnp.issubdtype(dtype, t)), "i")


LONG = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn",
}  # fmt: skip
"""JAX's names of types whose names `costs` shortens; others have the same."""
MATMULS = frozenset(["dot_general", "ragged_dot_general", "conv_general_dilated"])
_FLOPS = {
    "dot_general": dot_flops,
    "ragged_dot_general": ragged_dot_flops,
    "conv_general_dilated": conv_flops,
    "integer_pow": power_flops,
    "select_and_scatter_add": lambda eqn: size(eqn.invars[0]),
    "one_minus_square": lambda eqn: 3 * size(eqn.outvars[0]),  # (1 + x) * (1 - x)
    "polynomial": lambda eqn: 2 * (len(eqn.invars) - 2) * size(eqn.outvars[0]),  # Horner's rule
}
COLLECTIVES = {
    "all_gather": "AllGather",
    "all_gather_invariant": "AllGather",
    "all_gather_reduced": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "unreduced_reduce_scatter": "ReduceScatter",
    "all_to_all": "AllToAll",
    "ppermute": "Permute",
} | {
    name: "AllReduce"
    for name in "psum psum2 psum_invariant unreduced_psum pmax pmin unreduced_pmax unreduced_pmin".split()
}
KNOWN = frozenset().union(
    ARITHMETIC, TRANSCENDENTAL, REDUCTIONS, WINDOWS, VIEWS, TAKES, PUTS, ACCUMULATES, MOVES, COLLECTIVES, _FLOPS
)


def is_literal(v) -> bool:
    """True for a constant written into the equation, False for a variable."""
    return hasattr(v, "val")
