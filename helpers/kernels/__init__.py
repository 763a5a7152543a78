"""Run: the course's programs in JAX (and NumPy), on simulated or real devices."""
