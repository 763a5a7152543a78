"""Rooflines to Racks: predict (`costs`), run (`kernels`), count (`trace`), and hold the three together."""

__version__ = "0.2.0"
