"""NaN where nobody looks, before every window or in a cache's empty places, reaches no result and no gradient.

Behind the lengths of texts it stands in `test_forms`, and in the tests of rings, trees, linear attention and steps over a mesh.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.attention import (
    dense_attention,
    flash_attention,
)
from helpers.kernels.attention.masks import FULL, Mask
from helpers.kernels.inference import kv_cache, paged_kv_cache
from tests.helpers.kernels.attention import reference
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, tokens

B, T, S, N, K, H = 2, 5, 9, 4, 2, 8
LENGTHS = [6, 0]


def spoilt(x, lengths=LENGTHS):
    """x[B, S, ...] with NaN behind each row's length."""
    behind = np.arange(x.shape[1]) >= np.asarray(lengths)[:, None]
    return jnp.where(behind.reshape(*behind.shape, *[1] * (x.ndim - 2)), jnp.nan, x)


@pytest.mark.parametrize("f", [dense_attention.attention, flash_attention.flash], ids=["dense", "flash"])
def test_nothing_leaks_from_before_every_window(f):
    q, k, v, do = reference.draw(B, 2, S, N, K, H)
    rule = Mask(True, 3, 1)
    gone = jnp.asarray(~rule.reach(2, S))[None, :, None, None]
    assert gone.sum() == S - 5
    spoilt = [jnp.where(gone, jnp.nan, x) for x in (k, v)]
    assert all(np.isfinite(x).all() for x in jax.jit(reference.pulled(lambda *x: f(*x, rule)))(q, *spoilt, do))


@pytest.mark.slow("compiles two caches and their gradients")
@pytest.mark.parametrize("name", ["llama", "gpt-oss", "deepseek-v3"])
def test_a_cache_whose_empty_places_hold_anything(name):
    """Rows and pages: logits, and the gradient of the parameters through the cache, are those over an empty one."""
    c = FAMILIES[name]
    params, text, at, lengths = random_params(c), tokens(c, B, 4), jnp.array([0, 0]), jnp.array([4, 2])
    tables = jnp.array([[0, 1], [2, 3]])

    def rows(params, fill):
        cache = jax.tree.map(lambda a: jnp.full_like(a, fill), kv_cache.empty(c, B, 8))
        return kv_cache.extend(params, cache, text, at, c, lengths)[0]

    def pages(params, fill):
        pool = jax.tree.map(lambda a: jnp.full_like(a, fill), paged_kv_cache.empty(c, 4, 4))
        return paged_kv_cache.extend(params, pool, tables, text, at, c, lengths)[0]

    real = (jnp.arange(4) < lengths[:, None])[..., None]
    for f in (rows, pages):
        run = jax.jit(jax.value_and_grad(lambda p, fill, f=f: jnp.where(real, f(p, fill), 0).sum()))
        got, want = run(params, jnp.nan), run(params, 0.0)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            assert np.isfinite(a).all()
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_no_mask_looks_at_everything():
    """What somebody sees is read: NaN there is the reader's to know."""
    q, k, v, _ = reference.draw(1, 2, 3, 1, 1, 4)
    assert np.isnan(jax.jit(dense_attention.attention, static_argnums=3)(q, k.at[0, 0].set(jnp.nan), v, FULL)).all()
