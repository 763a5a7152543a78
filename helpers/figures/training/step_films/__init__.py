"""A film of a training step: what four devices hold of each layer at each moment, and what they send, under DP and ZeRO."""
