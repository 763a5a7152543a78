"""Run: attention, from softmax to rings (chapter 6). q[B, T, N, H], k and v[B, S, K, H], K a divisor of N; the result is [B, T, N, H].

On one device. Scores and sums are float32, the result has q's type; a query that sees no key gets zeros. The last query stands at
the last key. mask is a rule, Mask(causal=False, window=None, sinks=0), True where a query sees a key; lengths[B] says how many of
its S places each text fills, and what stands behind them, NaN too, is not looked at. Values may be wider than keys. Block sizes need
not divide anything. Integers and shapes that do not fit are refused by
`kernels.operands`.

softmax   naive, safe, online, reduced, folded (x[..., n]) -> softmax; prefixes(x) -> Running; top_k(x, k, chunk=128) -> values, indices
          Running(M, L, O): nothing(shape, H=None), chunk(q, k, v, mask), together(a, b), onward(seen, q, k, v, mask),
          result(r), logsum(r): what keys leave behind, ⊕ with its identity
masks     Mask, CAUSAL, FULL, padding(lengths, S), flipped(hidden);
          plan(T, S, rows, columns, mask, skip=True) -> Plan: blocks, row(i), scores: what is visited
dense_attention  attention(q, k, v, mask=None), mask a rule or an array
          plain, stabilised (q, k, v, mask); efficient(q, k, v, mask, lengths, rows, columns, keep="state");
          empty(B, K, H, mask), extend(cache, q, k, v, at, mask) -> result, cache: window + sinks rows, however long the text
flash_attention  flash(q, k, v, mask, lengths, rows=128, columns=128, skip=True), with its own gradient: FlashAttention-2;
          first(q, k, v, mask, rows, columns, writes="Olm"): FlashAttention-1, forward
          flash_all_blocks(q, k, v, causal, rows, columns): without skipping, as chapter 3 needs it;
          forward_by_rows(q, k, v, plan, order), backward_by_columns(q, k, v, out, total, dout, plan, order): in any order;
          eight_bit(q, k, v, size=128, kind="fp8", mask), quantised, error: 8 bits, a scale for each block
pallas_flash_attention_tpu  flash(q, k, v, mask, lengths, rows, columns, interpret=None), softmax(x, rows=8, interpret=None)
pallas_flash_attention_gpu  flash(q, k, v, mask, lengths, rows, columns, interpret=None): forward, in the form that a GPU takes

Linear attention and its feature maps: `linear_attention`.
On many devices: `ring_attention` (also striped), `tree_attention`.

May import: rooflines, sharding and transformers of this floor, kernels.mesh; helpers.costs.
Tests: tests/helpers/kernels/attention.
"""
