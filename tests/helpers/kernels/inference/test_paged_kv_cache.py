"""Pages: an allocator that loses none, the same extend over them as over rows; and reads of what is there alone."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers.kernels.inference import kv_cache, paged_kv_cache
from helpers.kernels.inference.paged_kv_cache import Blocks, Exhausted
from helpers.kernels.transformers import decoder
from tests.helpers.kernels.attention import reference
from tests.helpers.kernels.inference.token_pages import check_pages
from tests.helpers.kernels.transformers.families import FAMILIES, random_params, tokens, toy
from tests.tiers import repeats

close = partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-4)

# ---- whose pages are whose


class Model:
    """What an allocator has to know, kept as texts: equal tokens of equal beginnings are what may stand in one page."""

    def __init__(self, pages, size):
        self.blocks, self.texts, self.next = Blocks(pages, size), {}, 0
        self.written = np.full((pages, size), -1)

    def write(self, name, start, pairs=()):
        """Copy, then write the tokens from `start` on: where a page is shared wrongly, somebody's text changes."""
        for a, b in pairs:
            self.written[b] = self.written[a]
        for t in range(start, len(self.texts[name])):
            page = self.blocks.table(name)[t // self.blocks.size]
            self.written[page, t % self.blocks.size] = self.texts[name][t]

    def tokens(self, n):
        self.next += n
        return list(range(self.next - n, self.next))

    def right(self):
        """Every text stands in its pages, no page is lost, no sequence wastes a page."""
        b = self.blocks
        check_pages(b)
        assert sorted(list(b._tables)) == sorted(self.texts)
        assert sum(len(b.table(n)) * b.size - b.length(n) for n in list(b._tables)) == sum(
            -len(text) % b.size for text in self.texts.values()
        )
        for name, text in self.texts.items():
            table = b.table(name)
            assert self.written[table].reshape(-1)[: len(text)].tolist() == text
            assert len(table) * b.size - len(text) < b.size


def one_request(m: Model, draw, name: int) -> str:
    """A random thing is asked for; returns what it was, or that there were too few pages."""
    b = m.blocks
    kind = draw.choice(["allocate", "append", "fork", "free"], p=[0.3, 0.3, 0.15, 0.25])
    had = draw.choice(list(b._tables)).item() if list(b._tables) else None
    if kind != "allocate" and had is None:
        return "nothing"
    n = int(draw.integers(1, 3 * b.size))
    before = (b.available, {k: b.table(k) for k in list(b._tables)})
    wants = b.needs(name if kind == "allocate" else had, n)
    try:
        if kind == "allocate":
            b.allocate(name, n)
            m.texts[name] = m.tokens(n)
            m.write(name, 0)
        elif kind == "append":
            m.texts[had] += m.tokens(n)
            m.write(had, len(m.texts[had]) - n, b.append(had, n))
        elif kind == "fork":
            k = int(draw.integers(1, b.length(had) + 1))
            b.fork(had, name, k)
            m.texts[name] = m.texts[had][:k]
        else:
            b.free(had)
            del m.texts[had]
    except Exhausted:
        assert kind in ("allocate", "append") and wants > before[0]
        if kind == "append":
            m.texts[had] = m.texts[had][:-n]
        assert before == (b.available, {k: b.table(k) for k in list(b._tables)})  # nothing has changed
        return "exhausted"
    if kind in ("allocate", "append"):
        assert before[0] - b.available == wants
    return str(kind)


def test_random_requests():
    draw, m = np.random.default_rng(0), Model(pages=24, size=4)
    happened, requests = [], repeats(1_000, 10_000)
    for i in range(requests):
        happened.append(one_request(m, draw, i))
        if i % 7 == 0:
            m.right()
    m.right()
    assert min(happened.count(k) for k in ("allocate", "append", "fork", "free", "exhausted")) > requests // 50
    for name in list(m.blocks._tables):
        m.blocks.free(name)
    assert m.blocks.available == 24


def test_too_little_is_said():
    b = Blocks(pages=3, size=4)
    b.allocate("a", 9)
    with pytest.raises(Exhausted, match="5 tokens of 'b' take 2 pages, and 0 of 3 are free: wait, or free some"):
        b.allocate("b", 5)
    with pytest.raises(Exhausted, match="4 more tokens of 'a' take 1 pages, and 0 of 3 are free"):
        b.append("a", 4)
    assert b.length("a") == 9 and b.append("a", 3) == []
    for sentence, call in {
        "length is a whole number, 1 or more, not 0": lambda: b.allocate("b", 0),
        "there is a sequence 'a' already": lambda: b.allocate("a", 1),
        "there is no sequence 'b': allocate it first": lambda: b.free("b"),
        "a fork takes 1 to 12 of them, not 13": lambda: b.fork("a", "b", 13),
        "Blocks.append: n_tokens is 0 or more, not -1": lambda: b.append("a", -1),
        "pages is a whole number of 1 or more, not 0": lambda: Blocks(0, 4),
    }.items():
        with pytest.raises(ValueError, match=sentence):
            call()
    check_pages(b)


def test_pages_are_kept_begun_with_and_come_back():
    """A tree keeps two pages when their sequence is gone; another one begins with them, is freed, and comes back on other pages."""
    b = Blocks(pages=6, size=2)
    first = b.allocate("a", 4)
    for page in first:
        b.keep(page)
    b.free("a")
    assert (b.available, [b._count[page] for page in first]) == (4, [1, 1])
    assert b.allocate("b", 5, first)[:2] == first and b.fork("b", "c", 5)[:2] == first and b.available == 3
    gone = {name: (b.table(name), b.length(name)) for name in "bc"}
    b.free("b"), b.free("c")
    b.allocate("d", 2)  # takes the page that they shared beyond the first two
    now = b.resume(gone, {first[0]: first[0]})
    assert b.table("b") == b.table("c") == [now[page] for page in gone["b"][0]] and now[first[0]] == first[0]
    assert now[first[1]] != first[1] and [b._count[p] for p in b.table("b")] == [3, 2, 2]
    b.replace("b", 1, first[1])
    assert [b._count[now[first[1]]], b._count[first[1]]] == [1, 2]
    check_pages(b, first)
    with pytest.raises(Exhausted, match="take 2 pages, and 1 of 6 are free"):
        b.allocate("e", 5, [first[0]])
    b.drop(first[1])
    for name in list(b._tables):
        b.free(name)
    b.drop(first[0])
    assert b.available == 6
    check_pages(b)


# ---- the same logits, wherever the pages are

T, C, PAGES, SIZE, P = 10, 4, 12, 3, 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "c",
    [pytest.param(toy(D=8, N=2, K=1, H=4, F=12, V=29, L=2, window=3, full_every=2), id="mixed")]
    + [pytest.param(FAMILIES[n], id=n) for n in ("gpt-oss", "gpt-2", "deepseek-v3")],
)
def test_pages_are_a_cache(c):
    """Two samples go on from one prompt, and write copies; a third text gets pages that were freed, in any order."""
    params, text = random_params(c), np.array(tokens(c, 3, T))
    text[1, :5] = text[0, :5]
    whole = jax.jit(lambda x: decoder.forward(params, x, c))(text)
    extend = jax.jit(lambda pool, tables, x, at, n: paged_kv_cache.extend(params, pool, tables, x, at, c, n))
    b, pool, at = Blocks(PAGES, SIZE), paged_kv_cache.empty(c, PAGES, SIZE), [0, 0, 0]

    def go(pool, n):
        x = np.zeros((3, C), np.int32)
        for i in range(3):
            x[i, : n[i]] = text[i, at[i] : at[i] + n[i]]
        tables = np.array([[*(b.table(i) if i in b._tables else []), *[-1] * P][:P] for i in range(3)])
        said, pool = extend(pool, tables, x, np.array(at), np.array(n))
        for i in range(3):
            close(said[i, : n[i]], whole[i, at[i] : at[i] + n[i]])
            at[i] += n[i]
        return pool

    b.allocate("gone", 7)
    b.allocate(0, 4)
    pool = go(pool, [4, 0, 0])
    b.append(0)
    b.free("gone")
    pool = go(pool, [1, 0, 0])
    b.fork(0, 1)
    at[1] = 5
    b.allocate(2, 2)
    copies = []
    for n in ([2, 2, 2], [3, 1, 4], [0, 2, 4]):
        for i in range(3):
            if new := at[i] + n[i] - b.length(i):
                pairs = b.append(i, new)
                pool, copies = paged_kv_cache.copy(pool, pairs), copies + pairs
        pool = go(pool, n)
    assert len(copies) == 1 and b.table(0)[0] == b.table(1)[0] and b.table(0)[1] != b.table(1)[1]
    check_pages(b)


def test_bad_tables():
    c = toy(L=1)
    params, text, pool = random_params(c), tokens(c, 2, 4), paged_kv_cache.empty(c, 8, 3)
    with pytest.raises(
        ValueError, match="row 1 would reach 4 tokens, and its pages have places for 3: append to it first"
    ):
        paged_kv_cache.extend(params, pool, np.array([[0, 1], [2, -1]]), text, np.zeros(2, int), c)
    with pytest.raises(ValueError, match="and B is 3: make it"):
        paged_kv_cache.extend(params, pool, np.zeros((3, 2), int), text, np.zeros(2, int), c)
    with pytest.raises(ValueError, match="size is a whole number, 1 or more, not 0"):
        paged_kv_cache.empty(c, 8, 0)


# ---- what is read is what is there


@pytest.mark.slow("compiles two caches and their gradients")
@pytest.mark.parametrize("name", ["llama", "gpt-oss", "deepseek-v3"])
def test_a_cache_whose_empty_places_hold_anything(name):
    """Rows and pages: logits, and the gradient of the parameters through the cache, are those over an empty one."""
    c = FAMILIES[name]
    params, text, at, lengths = random_params(c), tokens(c, 2, 4), jnp.array([0, 0]), jnp.array([4, 2])
    tables = jnp.array([[0, 1], [2, 3]])

    def rows(params, fill):
        cache = jax.tree.map(lambda a: jnp.full_like(a, fill), kv_cache.empty(c, 2, 8))
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


def test_ragged_reads_by_blocks():
    """Of each row its own keys, with NaN behind them."""
    B, N, K, H, S, block = 4, 4, 2, 6, 12, 3
    q, k, v, _ = reference.draw(B, 1, S, N, K, H)
    rows = jax.jit(partial(paged_kv_cache.attend, block=block))
    for n in ([12, 1, 0, 7], [3, 3, 4, 12], [0, 0, 0, 1], [0, 0, 0, 0]):
        there = np.arange(S) < np.array(n)[:, None]
        y, read = rows(q[:, 0], *(reference.spoilt(a, n) for a in (k, v)), np.array(n))
        np.testing.assert_allclose(y, reference.dense(q, k, v, q, there[:, None, None])[0][:, 0], rtol=1e-4, atol=1e-5)
        assert read == sum(-(-x // block) for x in n)
        assert read * block - sum(n) < B * block  # Σ lengths, up to a block for each row, and not B · S
    with pytest.raises(ValueError, match="blocks of 5 do not fill the 12 places of a row: take a divisor of 12"):
        paged_kv_cache.attend(q[:, 0], k, v, np.array(n), 5)
