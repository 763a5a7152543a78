"""Run: inference, on the decoder of `kernels.transformers.decoder`: caches, engines, sharded decoding (chapter 5).

May import: rooflines, sharding, transformers, attention and training of this floor, kernels.mesh; helpers.costs.
Tests: tests/helpers/kernels/inference.

    c a Config; tokens[B, T] whole numbers; at[B] the position at which a row's first token stands; lengths[B] how many of its
    T tokens count: the others write nothing and their logits mean nothing, so lengths 0 leaves a row alone. Everything may be
    put under `jax.jit` (c, sizes, keep and chunk are plain values: close over them); the cache goes in and comes out.

tiny_language_model    a decoder trained on the page; from any decoder the whole text in every step, and with a cache: the same tokens
    recompute(params, prompt[B, T], n, c, choose=greedy)           -> tokens[B, n], logits[B, n, V]
    generate(params, prompt[B, T], n, c, choose=greedy, size=None) -> tokens[B, n], logits[B, n, V]

kv_cache               a cache of B rows of which each stands at a position of its own
    empty(c, B, size, dtype=jnp.float32, slack=0, keep=0) -> cache   dtype may be jnp.int8 (with scales) or an fp8
    extend(params, cache, tokens, at, c, lengths=None, keep=0) -> logits[B, T, V], cache
        T = 1: a step of generation; T = C: a chunk of a prompt; T = γ + 1: the check of a draft
    room(c, size, prompt, new=0)           says in one sentence why a request does not fit; nothing if it does. The last of
        the new tokens needs no place
    A rejected draft needs no undoing: go on at the position after the last accepted token, and the next tokens overwrite
    it. Local layers are rings: their slack is at least the γ tokens that may be rejected at once.
    keep: the first tokens of a text that local layers see besides their window.
    prefill(params, cache, tokens, c, chunk, at=None, lengths=None, keep=0) -> logits[B, V] after the last token, cache
        a prompt `chunk` tokens at a time
    mixed(params, cache, tokens[B], at[B], piece[T], done, c, row) -> logits[B + 1, V], cache     a decode step and a chunk in one pass
    strip(params, c, group), empty_shared(c, B, size, group), extend_shared(params, cache, tokens, at, c,
        group, lengths=None)    layers that use the keys and values of the first one of their group

paged_kv_cache         the same extend over pages
    empty(c, pages, size, dtype=jnp.float32) -> pool
    extend(params, pool, tables[B, P], tokens, at, c, lengths=None) -> logits[B, T, V], pool     P tables places; -1: no page
    copy(pool, pairs) -> pool              what Blocks.append asks for
    take(pool, pages) -> held, on the host;   put(pool, held, [(number in held, page)]) -> pool
    attend(q[B, N, H], k[B, S, K, H], v, lengths[B], block) -> y[B, N, H], blocks read: each row over its true length
    and whose pages are whose, in plain Python:
    Blocks(pages, size): allocate(name, length, first=()), append(name, n=1) -> [(from, to)] pages to copy first,
    fork(name, new, length=None), free(name), table(name), length(name), needs(name, n),
    keep(page), drop(page), replace(name, i, page), resume({name: (table, length)}, here), available
    Exhausted is raised where pages are wanting; nothing has changed then. A name is anything hashable.

engine                 a pool of pages, and one pass over sequences that have some
    Engine(c, slots, size, page, pages, chunk=8): prefill(params, tokens) -> prefix, insert(prefix, state, slot, table),
    generate(params, state) -> state, tokens[slots], free(state, slot), extend(params, pool, [Row(tokens, at, table)]) -> logits, pool
    greedy, sampler(temperature, seed)     (logits[V], name, sample, position) -> token

continuous_batching    requests, the log, and four designs on one engine or two, by the scheduler of costs.inference
    Orchestrator(engine, params, design, network=None): submit(request), run() -> Log, serve(requests) -> Log

paged_batching         pages as tokens come, shared by reference, and taken back when there are none left
    PagedServer(engine, params, policy, tree=None, choose=greedy): submit(request, samples=1), run() -> Log; policy is
    "reserve", "recompute" or "swap"

transformers.quantisation  int8, int4, fp8 weights and caches
    quantise(w, axis, kind="int8") -> Quantised(q, scale); .plain(dtype); matmul(x, Quantised)
    weights(params, kind="int8") -> params whose matrices are Quantised: `kv_cache.extend` and `paged_kv_cache.extend` take them as they are

`trace.attended(f, *args)` counts tokens, scores, the largest block of scores and the bytes read from a cache.
"""
