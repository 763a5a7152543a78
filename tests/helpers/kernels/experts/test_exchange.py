"""Rows that arrive on each device are those of the routing, spread as exact probabilities say; no chunk's exchange waits for another's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from helpers import trace
from helpers.costs.experts.balance import fullest_distribution
from helpers.costs.transformers.config import MoE
from helpers.kernels import mesh as meshes
from helpers.kernels.experts import two_meshes
from helpers.kernels.transformers.mixture_of_experts import dispatch, experts, route
from helpers.trace.jaxpr.equation_costs import is_literal
from helpers.trace.jaxpr.walk import walk
from tests.helpers.kernels.transformers.families import random_params, toy

C = toy(L=1, N=8, K=4, moe=MoE(E=16, k=2, F=9))
E, K, N = C.moe.E, C.moe.k, 8
ALL = ("X", "Y")
DRAWS, DEVIATIONS = 2000, 4  # of a mean over all draws: of right ones one in 16,000 lies outside


def on_devices(f, ins, outs):
    return jax.shard_map(f, mesh=meshes.mesh((2, 4), ALL), in_specs=ins, out_specs=outs, check_vma=False)


# Rows of each device.


def arriving(logits):
    """(rows that arrive on each device [8], experts chosen [T, k]): one random batch, dispatched to experts that only count."""

    def f(logits):
        routed, counted = route(logits, K), []

        def work(queues):  # [E / 8, 8·places, D]: ones where a token stands
            counted.append(queues[..., 0].sum())
            return queues

        two_meshes.exchanged(dispatch(jnp.ones((len(logits), 1)), routed, E, len(logits)), work, ALL)
        return counted[0][None], routed.expert

    return on_devices(f, P(ALL), (P(ALL), P(ALL)))(logits)


@pytest.fixture(scope="module")
def drawn():
    """(rows [DRAWS, 8], experts [DRAWS, 8, k]): one token on each device."""
    logits = jax.random.normal(jax.random.key(8), (DRAWS, N, E))
    rows, chosen = jax.jit(lambda batches: lax.map(arriving, batches))(logits)
    return np.asarray(rows).astype(int), np.asarray(chosen)


def near(values, mean, variance) -> bool:
    """Whether the mean of independent values is that of their distribution, by the distribution's own variance."""
    return abs(np.mean(values) - mean) <= DEVIATIONS * (variance / len(values)) ** 0.5


def moments(distribution: dict[int, float]) -> tuple[float, float]:
    mean = sum(n * p for n, p in distribution.items())
    return mean, sum((n - mean) ** 2 * p for n, p in distribution.items())


def test_as_many_rows_arrive_as_the_routing_counts(drawn):
    rows, chosen = drawn
    counts = [np.bincount(batch.ravel() // (E // N), minlength=N) for batch in chosen]
    assert (rows == counts).all()


def test_the_fullest_device_is_as_full_as_the_exact_distribution_says(drawn):
    fullest = drawn[0].max(1)
    exact = fullest_distribution(N, E, K, N)
    assert near(fullest, *moments(exact))
    assert all(near(fullest == n, p, p * (1 - p)) for n, p in exact.items())
    # The multinomial of 16 choices that may repeat is fuller, for a token's own two experts differ.
    assert not near(fullest, *moments(fullest_distribution(N * K, E, 1, N)))


def test_products_cost_what_the_rows_of_a_device_do():
    """6·D·F FLOPs for each place; if all queues are full, that is each row."""
    p = random_params(C, 0)["layers"][0]["experts"]
    p = jax.tree.map(lambda a: a[0], p)
    routing = np.eye(E, dtype="float32")[np.arange(N * E) % E] + np.eye(E, dtype="float32")[(np.arange(N * E) + 1) % E]

    def f(p, x, logits):
        return two_meshes.exchanged(dispatch(x, route(logits, K), E, K), lambda queues: experts(p, queues, C), ALL)

    run = on_devices(f, (P(ALL), P(ALL), P(ALL)), P(None, ALL))
    rows = arriving(jnp.asarray(routing))[0]
    assert (rows == E * K).all()
    got = trace.count(run, p, np.ones((N * E, C.D), "float32"), routing)
    assert got.matmul_flops == 6 * C.D * C.moe.F * rows.sum()


# Chunks.


def waits(pieces: int) -> list[tuple[int, int]]:
    """(AllToAlls, products of experts) that each AllToAll of a layer needs, directly or by way of other equations."""
    p = jax.tree.map(lambda a: a[0], random_params(C, 0)["layers"][0])
    closed = jax.make_jaxpr(two_meshes.forward(C, meshes.mesh((2, 4), ALL), ALL, 4, pieces))(p, np.ones((4, 8, C.D)))
    (body,) = (visit.eqn.params["jaxpr"] for visit in walk(closed) if visit.name == "shard_map")
    needs, exchanges, products = {}, set(), set()
    found = []
    for i, eqn in enumerate(body.eqns):
        before = set().union(*(needs.get(v, set()) for v in eqn.invars if not is_literal(v)))
        if eqn.primitive.name == "all_to_all":
            found.append((len(before & exchanges), len(before & products)))
            exchanges.add(i)
        # Products that need no AllToAll are attention's and the router's.
        elif eqn.primitive.name == "dot_general" and before & exchanges:
            products.add(i)
        needs.update(dict.fromkeys(eqn.outvars, before | {i}))
    return found


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_chunk_is_sent_without_the_products_of_the_chunk_before_it(pieces):
    """Out: no other AllToAll and no product of an expert. Back: the chunk's own AllToAll and its own three products."""
    assert waits(pieces) == [(0, 0), (1, 3)] * pieces
