"""What is the same for everybody in a class, worked out once where many of a class are judged in one process.

It comes from the class's seed and from functions of the check: references at the edges of what is drawn, say, which take longer
than all comparisons together. A function is the same for two submissions if it is the same code and reads the same things, none
of them a learner's.
"""

import sys
from collections.abc import Callable, Collection
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import numpy as np

from .notebook_cells import read_by

kept: dict | None = None
"""The class's values of an assignment; None where nothing is to be kept. The checker sets it, and the next one."""

learners: Collection[str] = ()
"""Names that the check at hand reads and that a learner has given."""

PLAIN = bool, int, float, complex, str, bytes, type(None), type(...), CodeType
NAMED = type, ModuleType, BuiltinFunctionType, np.ufunc
"""What a module made once, and nobody changes; what a check itself makes of these is another one each time."""


CACHED = type(cache(abs))  # what `functools.cache` makes of a function


class Unknown(Exception):
    """What a value depends on cannot be told."""


def once(key: tuple, basis: object, make: Callable):
    """What `make` gives; for a class once, as long as the basis stays what it is.

    key    tells one such value from another
    basis  `identity` of all that it depends on; None if that is not known
    """
    if kept is None or basis is None:
        return make()
    if key not in kept or kept[key][0] != basis:
        kept[key] = basis, make()
    return kept[key][1]


def identity(*values) -> tuple | None:
    """What is equal for the same values and for functions that do the same; None if one may depend on what a learner wrote.

    >>> def adds(n):
    ...     return lambda x: x + n
    >>> identity(adds(1)) == identity(adds(1)), identity(adds(1)) == identity(adds(2)), identity(object())
    (True, False, None)
    """
    try:
        return tuple(_identity(x, ()) for x in values)
    except Unknown:
        return None


def _identity(x, outer_functions: tuple):
    """What is equal for the same value, which stands in `outer_functions`."""
    if type(x) in PLAIN:
        return type(x), x
    jax = sys.modules.get("jax")  # to import it takes long, and who has not done so has nothing of it
    if isinstance(x, NAMED) or jax and isinstance(x, (jax.Device, jax.sharding.Mesh)):
        return x
    if type(x) in (tuple, list):
        return type(x), *(_identity(part, outer_functions) for part in x)
    if type(x) is dict:
        return dict, *(_identity(pair, outer_functions) for pair in x.items())
    if isinstance(x, np.ndarray) and x.dtype != object:
        return x.dtype.str, x.shape, x.tobytes()
    if type(x) is CACHED:
        return _identity(x.__wrapped__, outer_functions)
    if type(x) is not FunctionType or any(name in learners for name in read_by(x.__code__)):
        raise Unknown
    if x in outer_functions:  # it calls itself
        return x.__code__
    try:
        read = [cell.cell_contents for cell in x.__closure__ or ()]
    except ValueError:  # a name that has no value yet
        raise Unknown from None
    parts = x.__defaults__, x.__kwdefaults__, read
    return x.__code__, *(_identity(part, (*outer_functions, x)) for part in parts)
