"""A decoder of any sizes: parameters, FLOPs, KV cache, memory to train."""
