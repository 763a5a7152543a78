"""The best layout of a training step, found in the page."""
