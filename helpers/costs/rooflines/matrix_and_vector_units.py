"""FLOPs/s of a TPU's matrix unit (MXU) and vector unit (VPU), from their sizes and clock (chapter 1).

Source: Austin et al. 2025, Section 2.
"""

from helpers.arguments import entries


def mxu_rate(clock=1.5e9, size=128, rows=8, cycles=8):
    """FLOPs/s of one systolic array: every `cycles` cycles it multiplies [rows, size] by [size, size].

    >>> f"{mxu_rate():.2e}", f"{4 * mxu_rate():.3e}"         # a v5e has four
    ('4.92e+13', '1.966e+14')
    """
    return 2 * rows * size * size / cycles * clock


def vpu_rate(clock=1.5e9, lanes=128, sublanes=8, alus=2):
    """Elementwise operations per second of one vector unit: `sublanes` x `lanes` positions with `alus` units each.

    alus  2 on a v4, 4 on a v5e and v5p

    >>> f"{vpu_rate():.2e}", f"{vpu_rate(alus=4):.2e}"
    ('3.07e+12', '6.14e+12')
    """
    return lanes * sublanes * alus * clock


entries(__name__)
