"""Run: attention, from softmax to rings (chapter 6). q[B, T, N, H], k and v[B, S, K, H], K a divisor of N; the result is [B, T, N, H].

On one device. Scores and sums are float32, the result has q's type; a query that sees no key gets zeros. The last query stands at
the last key. mask is a rule, Mask(causal=False, window=None, sinks=0), True where a query sees a key; lengths[B] says how many of
its S places each text fills. Block sizes need not divide anything. tau is the scale of the scores, 1 / sqrt(H) if left out.

softmax   naive, safe, online, reduced, folded (x[..., n]) -> softmax; prefixes(x) -> Running; top_k(x, k, chunk=128) -> values, indices
running   Running(M, L, O): nothing(shape, H=None), chunk(q, k, v, mask, tau), together(a, b), onward(seen, q, k, v, mask, tau),
          result(r), logsum(r): what keys leave behind, ⊕ with its identity
masks     Mask, CAUSAL, FULL, padding(lengths, S), flipped(hidden), additive(mask);
          plan(T, S, rows, columns, mask, skip=True) -> Plan: blocks, row(i), scores: what is visited
dense     attention(q, k, v, mask=None, tau=None), weights(q, k, mask=None, tau=None) -> P[B, N, T, S]; mask a rule or an array
lazy      plain, stabilised (q, k, v, mask, tau); efficient(q, k, v, mask, lengths, rows, columns, keep="state", tau=None)
flash     flash(q, k, v, mask, lengths, rows=128, columns=128, skip=True, tau=None), with its own gradient: FlashAttention-2;
          first(q, k, v, mask, rows, columns, skip, tau, writes="Olm"): FlashAttention-1, forward
order     forward(q, k, v, plan, order), backward(q, k, v, out, total, dout, plan, order): rows, and columns, in any order
pallas_flash   flash(q, k, v, mask, lengths, rows, columns, tau, interpret=None) and softmax(x, rows=8, interpret=None) as kernels
pallas_gpu     flash(q, k, v, mask, lengths, rows, columns, tau, interpret=None): the forward pass in the form that a GPU takes
rolling        empty(B, K, H, mask), extend(cache, q, k, v, at, mask, tau) -> result, cache: window + sinks rows, however long the text
quantised      attention(q, k, v, size=128, kind="fp8", mask, tau), blocks, round_trip, spread, error: 8 bits, a scale for each block

Linear attention: `linear`, `features`. On many devices: `ring`, `stripes`, `tree`.
"""
