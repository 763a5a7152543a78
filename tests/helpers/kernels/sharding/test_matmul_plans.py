"""A plan is accepted only if its program sends exactly what the plan says, and gives the dense product."""

import random
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from helpers import trace
from helpers.costs.sharding.matmul_plans import plans
from helpers.costs.sharding.resharding import shardings
from helpers.costs.sharding.sharded_array import Mesh, Sharding
from helpers.kernels import mesh as meshes
from helpers.kernels.sharding import sharded_matmul as mm
from tests.tiers import repeats

MESHES = {"4x2": Mesh({"X": 4, "Y": 2}), "2x4": Mesh({"X": 2, "Y": 4}), "8": Mesh({"X": 8})}
MESHES["2x2x2"] = Mesh({"X": 2, "Y": 2, "Z": 2})
SIZES = {"I": 16, "J": 24, "K": 8}
DIMS = {"A": ("I", "J"), "B": ("J", "K"), "C": ("I", "K")}


def every(name, mesh):
    return shardings(name, DIMS[name], mesh)


def cases(mesh, n, seed):
    """n random (A, B, C), the same on every run; some wished results are partial sums."""
    draw = random.Random(seed)
    for _ in range(n):
        A, B, C = (draw.choice(every(name, mesh)) for name in DIMS)
        left = [a for a in mesh.names if a not in C.used]
        if left and draw.random() < 0.2:
            C = Sharding("C", C.dims, C.axes, (draw.choice(left),))
        yield A, B, C


def sends_what_it_says(plan, mesh=None):
    """Trace only; without devices if no mesh is given."""
    mesh = mesh or abstract(plan.mesh)
    shape = lambda *dims: jax.ShapeDtypeStruct([plan.sizes[d] for d in dims], NUMBERS[plan.case.dtype])  # noqa: E731
    sent = tuple(trace.sent(mm.program(plan, mesh), shape("I", "J"), shape("J", "K")))
    assert sent == plan.collectives, f"{plan}\nsends {[str(c) for c in sent]}"


NUMBERS = {"bf16": jnp.bfloat16, "f32": jnp.float32, "int8": jnp.int8, "int32": jnp.int32}


def abstract(grid):
    return jax.sharding.AbstractMesh(
        tuple(grid.sizes.values()), grid.names, axis_types=(jax.sharding.AxisType.Auto,) * len(grid.names)
    )


def gives_the_product(plan):
    """Run on the eight devices: the dense product, on every device its block of it."""
    draw = np.random.default_rng(0)
    A = draw.integers(-4, 5, (plan.sizes["I"], plan.sizes["J"])).astype(NUMBERS[plan.case.dtype])
    B = draw.integers(-4, 5, (plan.sizes["J"], plan.sizes["K"])).astype(NUMBERS[plan.case.dtype])
    out, dense = mm.program(plan, meshes.like(plan.mesh))(A, B), A @ B
    if plan.operands[2].unreduced:
        assert np.array_equal(np.asarray(out).sum(0), dense), str(plan)
        return
    for shard in out.addressable_shards:
        assert np.array_equal(shard.data, dense[shard.index]), str(plan)
    assert meshes.holds(out) == meshes.holders(plan.operands[2], plan.mesh, plan.sizes)


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.sample(quick=1)
def test_random_plans_send_what_they_say(name):
    draw = random.Random(name)
    for A, B, C in cases(MESHES[name], repeats(30, 60), name):
        sends_what_it_says(draw.choice(plans(A, B, C, SIZES, MESHES[name])))


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.sample(quick=2)
def test_random_plans_give_the_product(name):
    draw = random.Random(name)
    for A, B, C in cases(MESHES[name], repeats(5, 8), name + "?"):
        gives_the_product(draw.choice(plans(A, B, C, SIZES, MESHES[name], "int32")))


@settings(max_examples=repeats(8, 20), phases=(Phase.reuse, Phase.generate))  # to shrink is to plan afresh, for minutes
@given(st.data())
@pytest.mark.slow("plans and traces on random meshes")
def test_any_mesh_sizes_and_types(data):
    """Random meshes, also of three unequal axes and axes of one device, random multiples of what divides."""
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=3))
    mesh = Mesh(dict(zip("XYZ", sizes)))
    A, B, C = (data.draw(st.sampled_from(every(name, mesh))) for name in DIMS)
    each = {d: mesh.devices * data.draw(st.integers(1, 3)) for d in "IJK"}
    found = plans(A, B, C, each, mesh, data.draw(st.sampled_from(["bf16", "f32", "int8"])))
    sends_what_it_says(data.draw(st.sampled_from(found)))


@pytest.mark.parametrize("name", ["4x2", "2x2x2"])
@pytest.mark.sample(quick=1)
def test_gradients_of_random_plans(name):
    """Slices, gathers, sums and permutes are pulled back to the gradients of the dense product."""
    draw, values = random.Random(name), np.random.default_rng(0)
    A, B, weigh = (values.integers(-4, 5, (SIZES[i], SIZES[j])).astype(np.float32) for i, j in ("IJ", "JK", "IK"))
    for a, b, c in islice((t for t in cases(MESHES[name], 40, name + "'") if not t[2].unreduced), repeats(3, 5)):
        run = mm.program(draw.choice(plans(a, b, c, SIZES, MESHES[name], "f32")), meshes.like(MESHES[name]))
        back = jax.jit(jax.grad(lambda x, y, run=run: jnp.sum(run(x, y) * weigh), (0, 1)))(A, B)
        for mine, dense in zip(back, (weigh @ B.T, A.T @ weigh)):
            assert np.array_equal(mine, dense)


def test_sizes_that_some_axes_do_not_divide():
    """Where I is 4 and K is 2, plans keep to what divides."""
    sizes = {"I": 4, "J": 16, "K": 2}
    for A, B, C in cases(MESHES["4x2"], repeats(30, 60), 5):
        try:
            found = plans(A, B, C, sizes, MESHES["4x2"])
        except ValueError as e:
            assert "does not divide" in str(e)
            continue
        for plan in found[::20]:
            sends_what_it_says(plan)


def test_dimensions_in_another_order():
    """B[K, J] and C[K, I]: the program multiplies by names."""
    plan = plans("A[J_X, I]", "B[K, J]", "C[K_X, I]", SIZES, MESHES["4x2"], "int32")[0]
    A, B = np.arange(24 * 16).reshape(24, 16) % 7, np.arange(8 * 24).reshape(8, 24) % 5
    out = mm.program(plan, meshes.like(plan.mesh))(A.astype(np.int32), B.astype(np.int32))
    assert np.array_equal(out, (A.T @ B.T).T)


# The notation against JAX's own book-keeping.


@pytest.mark.parametrize("name", ["4x2", "2x2x2"])
def test_the_notation_places_blocks_where_jax_does(name):
    """Every sharding of a matrix, every device, and the local shape."""
    grid, mesh = MESHES[name], meshes.like(MESHES[name])
    number = {d: i for i, d in enumerate(mesh.devices.flat)}
    for a in every("A", grid):
        cut = jax.NamedSharding(mesh, meshes.spec(a))
        theirs = {
            number[d]: tuple(s.indices(n)[:2] for s, n in zip(index, (16, 24)))
            for d, index in cut.devices_indices_map((16, 24)).items()
        }
        assert meshes.holders(a, grid, SIZES) == theirs
        assert a.local(SIZES, grid) == cut.shard_shape((16, 24))
