"""A program that is written by hand, so that the compiler sends what nobody counts, is refused in a sentence."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.extend.mlir import ir
from jax.interpreters.mlir import make_ir_context
from jax.sharding import PartitionSpec as P

from autograder.engine.answer_process import lowered
from autograder.engine.one_function_rule import must_be_cut
from autograder.engine.program_data import cuts
from helpers.kernels import mesh as meshes

MESH = {"X": 4, "Y": 2}
INS, OUT = [P("X", None), P(None, "Y")], P(None, "Y")
ARGS = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((16, 8), (8, 12))]
DENSE = """
module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["X"=4, "Y"=2]>
  func.func public @main(%arg0: tensor<16x8xf32>, %arg1: tensor<8x12xf32>) -> (tensor<16x12xf32>) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"X"}, {}]>, <@mesh, [{}, {"Y"}]>]
      out_shardings=[<@mesh, [{}, {"Y"}]>] manual_axes={} (%arg2: tensor<16x8xf32>, %arg3: tensor<8x12xf32>) {
      %1 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0]
        : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
      sdy.return %1 : tensor<16x12xf32>
    } : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
    return %0 : tensor<16x12xf32>
  }
}
"""


def body(a, b):
    return lax.all_gather(a, "X", tiled=True) @ b


def text() -> str:
    """The program of the function above, as JAX writes it."""
    mesh = meshes.mesh(tuple(MESH.values()), tuple(MESH))
    f = jax.shard_map(body, mesh=mesh, in_specs=tuple(INS), out_specs=OUT, check_vma=False)
    with make_ir_context():
        return str(ir.Module.parse(lowered(jax.jit(f, keep_unused=True), ARGS)))


def asked(program: str, args=ARGS) -> None:
    with make_ir_context():
        try:
            module = ir.Module.parse(program)
        except Exception as e:
            raise ValueError("the program cannot be read") from e
        must_be_cut(module, MESH, INS, OUT, args)


def test_the_program_of_jax_is_taken():
    asked(text())


def test_a_dense_program_in_a_manual_computation_over_no_axes_is_refused():
    with pytest.raises(ValueError, match="leaves axes of the mesh to the compiler"):
        asked(DENSE)


END = "      sdy.return"
HOWS = {
    "part-of-the-axes": ('manual_axes={"X", "Y"}', 'manual_axes={"X"}', "cannot be read|leaves axes"),
    "another-mesh": ('@mesh = <["X"=4, "Y"=2]>', '@mesh = <["X"=2, "Y"=4]>', "cannot be read|another mesh"),
    "other-order-of-devices": ('@mesh = <["X"=4, "Y"=2]>', '@mesh = <["X"=4, "Y"=2], device_ids=[7,6,5,4,3,2,1,0]>', "another mesh"),
    "a-mesh-more": ("  func.func", '  sdy.mesh @other = <["Z"=8]>\n  func.func', "another mesh"),
    "fewer-devices": ("num_partitions = 8", "num_partitions = 4", "another number of devices"),
    "replicas": ("num_replicas = 1", "num_replicas = 2", "another number of devices"),
    "only-replicas": (
        "num_partitions = 8 : i32, mhlo.num_replicas = 1", "num_partitions = 1 : i32, mhlo.num_replicas = 8", "another number",
    ),
    "part-of-an-axis": ('<@mesh, [{"X"}, {}]>', '<@mesh, [{"X":(1)2}, {}]>', "cannot be read|other things than whole axes"),
    "open-dimension": ('<@mesh, [{"X"}, {}]>', '<@mesh, [{"X"}, {?}]>', "cannot be read|other things than whole axes"),
    "constraint-inside": (
        END, '      %c = sdy.sharding_constraint %2 <@mesh, [{}, {}]> : tensor<16x6xf32>\n' + END, "cannot be read|once more",
    ),
    "hint-inside": ("precision = [DEFAULT, DEFAULT]", 'precision = [DEFAULT, DEFAULT] {mhlo.sharding = "{replicated}"}', "once more"),
    "whole-again-inside": (
        END,
        '      %c = stablehlo.custom_call @SPMDShardToFullShape(%2) : (tensor<16x6xf32>) -> tensor<16x12xf32>\n' + END,
        "once more",
    ),
    "hint-on-an-argument": (
        "%arg0: tensor<16x8xf32>", '%arg0: tensor<16x8xf32> {mhlo.sharding = "{replicated}"}', "once more",
    ),
    "uncounted": (
        END,
        '      %c = "stablehlo.collective_broadcast"(%2) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>'
        " : (tensor<16x6xf32>) -> tensor<16x6xf32>\n" + END,
        "nobody can count what collective_broadcast sends",
    ),
    "nested": (
        END,
        '      %n = sdy.manual_computation(%2) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={}'
        " (%i: tensor<16x6xf32>) {\n        sdy.return %i : tensor<16x6xf32>\n"
        "      } : (tensor<16x6xf32>) -> tensor<16x6xf32>\n" + END,
        "cannot be read|not one function",
    ),
    "other-arguments": ("16x8xf32", "32x8xf32", "cannot be read|other arrays|not the shapes"),
}  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
def test_what_is_left_open_is_refused(how):
    old, new, says = HOWS[how]
    assert old in text(), f"{how} has nothing to change"
    with pytest.raises(ValueError, match=says) as e:
        asked(text().replace(old, new))
    assert "\n" not in str(e.value)


def test_arrays_and_cuts_are_those_that_were_asked():
    others = [jax.ShapeDtypeStruct((2 * a.shape[0], *a.shape[1:]), a.dtype) for a in ARGS]
    with pytest.raises(ValueError, match="takes other arrays than was asked"):
        asked(text(), others)
    for odd in ('<@mesh, [{"X":(1)2}]>', "<@mesh, [{?}]>", '<@mesh, [{}], replicated={"X"}>', "<mesh<[]>, [{}]>"):
        with pytest.raises(ValueError, match="other things than whole axes"):
            cuts(f"#sdy.sharding_per_value<[{odd}]>")
