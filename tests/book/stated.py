"""How a computed number is held against one that a source prints."""

import re

import pytest


def near(got, stated):
    """`got` is `stated`: a whole number or a zero exactly, another one to half a unit of its last printed digit, and to 0.5 percent at
    least; of a tuple each number.
    """
    if isinstance(stated, tuple):
        for one, other in zip(got, stated, strict=True):
            near(one, other)
    elif stated == 0 or isinstance(stated, int) and isinstance(got, int):
        assert got == stated
    else:
        digits = re.sub(r"e.*", "", repr(stated)).replace(".", "").strip("0")
        assert got == pytest.approx(stated, rel=min(0.501 / int(digits), 5e-3))
