"""Rooflines to Racks: predict (`costs`), run (`kernels`), count (`trace`), and hold the three together.

    costs     FLOPs, bytes and seconds as arithmetic        check     what a learner's answer is told
    kernels   JAX programs on a mesh                        plot      figures
    trace     what a program does, read from it             live      a cost function as JavaScript;  figures: live figures and films

    numeric   functions for floats, arrays and tracers      arguments what a cost function takes, and says of the rest
    show      numbers as people read them
    prose     numbers in text, computed                     versus    predicted beside measured
    plan      layouts of a model on chips, from a shell

Each of these is a floor; costs, kernels, plot and figures have the same rooms, named like the chapters: rooflines, sharding,
transformers, attention, training, inference. What may import what stands in pyproject.toml. Tests: tests/helpers.
"""

from . import moved

__version__ = "0.4.0"

__oldest_jax__ = "0.7.1"
"""Chapters and exercises run on this JAX and newer ones; requirements.txt pins the one that this clone installs."""

moved.install()
