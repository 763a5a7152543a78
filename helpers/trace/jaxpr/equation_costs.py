"""FLOPs and bytes of one equation: the conventions of the course, in tables.

FLOPs
  dot_general                2 per multiply-add, whatever the number type
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
from jax import dtypes

ARITHMETIC = frozenset("add add_any sub mul div rem neg abs sign max min floor ceil round square clamp".split())
TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p sqrt rsqrt cbrt pow logistic tanh sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh "
    "erf erfc erf_inv lgamma digamma log2".split()
)
REDUCTIONS = frozenset("reduce_sum reduce_max reduce_min reduce_prod cumsum cumprod cummax cummin".split())
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
    if name in _FLOPS and known(eqn):
        return _FLOPS[name](eqn)
    if not known(eqn) or not eqn.outvars or _kind(eqn.outvars[0]) != "f":
        return 0  # counters and indices are bookkeeping
    out = size(eqn.outvars[0])
    if name in ARITHMETIC | TRANSCENDENTAL:
        return out
    if name in REDUCTIONS:
        if not name.startswith("reduce"):  # a running sum, one for each place but those along its axis
            out = size(eqn.invars[0]) // max(1, eqn.invars[0].aval.shape[eqn.params["axis"]])
        return size(eqn.invars[0]) - out
    if name in ACCUMULATES:
        return size(eqn.invars[2])
    return 0


def bytes_moved(eqn) -> int:
    """Bytes of the equation's operands and results, each once; see the module for views, slices and updates."""
    name, ins = eqn.primitive.name, eqn.invars
    if name in VIEWS or (name == "broadcast_in_dim" and size(ins[0]) == size(eqn.outvars[0]) > 1):
        return 0  # a broadcast may only add axes of length 1
    if name in TAKES:  # reads as many bytes as it writes, and its indices
        return 2 * _nbytes(eqn.outvars) + _nbytes(ins[1:])
    if name == "dynamic_update_slice":
        return 2 * nbytes(ins[1]) + _nbytes(ins[2:])
    if name == "scatter" or name in ACCUMULATES:  # these read the old values too
        return (3 if name in ACCUMULATES else 2) * nbytes(ins[2]) + nbytes(ins[1])
    return _nbytes(ins) + _nbytes(eqn.outvars)


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
    shared = size(eqn.invars[2]) if set(dims.lhs_ragged_dimensions) & set(contract) else 1
    return 2 * size(eqn.outvars[0]) // shared * prod(eqn.invars[0].aval.shape[d] for d in contract)


def power_flops(eqn) -> int:
    """Multiplications of x**y by repeated squaring, and one division if y is negative."""
    y = eqn.params["y"]
    each = max(0, abs(y).bit_length() + y.bit_count() - 2) + (y < 0)
    return each * size(eqn.outvars[0]) if _kind(eqn.outvars[0]) == "f" else 0


def size(v) -> int:
    """Elements of a variable; a token has none."""
    return prod(getattr(v.aval, "shape", (0,)))


def nbytes(v) -> int:
    """Bytes of a variable, 4-bit types packed; 0 for a number written into the program and for a token."""
    shape, dtype = getattr(v.aval, "shape", None), getattr(v.aval, "dtype", None)
    if shape is None or dtype is None or (is_literal(v) and not shape):
        return 0
    kinds = ((jnp.floating, jnp.finfo), (jnp.integer, jnp.iinfo))  # the others are bool, complex, random keys
    bits = next((info(dtype).bits for kind, info in kinds if dtypes.issubdtype(dtype, kind)), 8 * dtype.itemsize)
    return -(-prod(shape) * bits // 8)


def _nbytes(variables) -> int:
    """Bytes of some variables, each different one once: x * x reads x once."""
    return sum(nbytes(v) for v in {id(v): v for v in variables}.values())


def short(dtype) -> str:
    """A type's name as costs have it: bf16, f32, int8, fp8."""
    name = str(dtype) if dtypes.issubdtype(dtype, dtypes.extended) else np.dtype(dtype).name
    if m := re.match(r"float([48])_", name):
        return f"fp{m[1]}"
    return name.replace("float", "f")


def array_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of an array, by the name of its type as `short` has it; 4-bit types are packed.

    >>> array_bytes("bf16", (4, 8)), array_bytes("int4", (3,)), array_bytes("bool", (3,))
    (64, 2, 3)
    """
    bits = 8 if dtype == "bool" else int(re.search(r"\d+", dtype)[0])
    return -(-prod(shape) * bits // 8)


def _kind(v) -> str:
    """'f' for floating-point numbers, 'c' for complex ones, '' for whole numbers and for what has no type."""
    dtype = getattr(v.aval, "dtype", None)
    kinds = {"f": jnp.floating, "c": jnp.complexfloating}
    return "" if dtype is None else next((k for k, t in kinds.items() if dtypes.issubdtype(dtype, t)), "")


LONG = {
    "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64",
    "fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn",
}  # fmt: skip
"""JAX's names of types whose names `costs` shortens; others have the same."""
MATMULS = frozenset(["dot_general", "ragged_dot_general"])
_FLOPS = {
    "dot_general": dot_flops,
    "ragged_dot_general": ragged_dot_flops,
    "integer_pow": power_flops,
    "one_minus_square": lambda eqn: 3 * size(eqn.outvars[0]),  # (1 + x) * (1 - x)
    "polynomial": lambda eqn: 2 * (len(eqn.invars) - 2) * size(eqn.outvars[0]),  # Horner's rule
}
_COLLECTIVES = {
    "AllGather": "all_gather all_gather_invariant all_gather_reduced",
    "ReduceScatter": "reduce_scatter unreduced_reduce_scatter",
    "AllReduce": "psum psum2 psum_invariant unreduced_psum pmax pmin unreduced_pmax unreduced_pmin",
    "AllToAll": "all_to_all",
    "Permute": "ppermute",
}
COLLECTIVES = {name: kind for kind, names in _COLLECTIVES.items() for name in names.split()}
"""Kinds, by the names of JAX's primitives."""
KNOWN = frozenset().union(
    ARITHMETIC, TRANSCENDENTAL, REDUCTIONS, VIEWS, TAKES, PUTS, ACCUMULATES, MOVES, COLLECTIVES, _FLOPS
)


def is_literal(v) -> bool:
    """True for a constant written into the equation, False for a variable."""
    return hasattr(v, "val")
