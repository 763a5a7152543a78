"""Rooflines to Racks: predict (`costs`), run (`kernels`), count (`trace`), and hold the three together."""
