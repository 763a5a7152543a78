"""Stands for `helpers.check.compare` where answers run: what is off limits there says so when it is used."""

import dataclasses
from contextlib import contextmanager


class OffLimits(Exception):
    """An answer used what it was asked to write."""


@contextmanager
def closed():
    """Nothing needs closing: the formulas are not here."""
    yield


def refuse(name: str):
    raise OffLimits(f"{name} is off limits inside an answer: write it out")


def function(name: str):
    """In place of the function of that name."""

    def refusal(*_, **__):
        refuse(name)

    refusal.__module__, _, refusal.__name__ = name.rpartition(".")
    refusal.__qualname__ = refusal.__name__
    return refusal


def kind(name: str, methods: tuple[str, ...] = (), properties: tuple[str, ...] = (), fields: tuple | None = None):
    """In place of the class of that name.

    fields  of a record: such a class can be handed over by its fields, though nobody here can make one
    """
    module, _, own = name.rpartition(".")
    members = {m: function(f"{name}.{m}") for m in methods}
    members |= {p: property(function(f"{name}.{p}")) for p in properties}
    members |= {"__module__": module, "__init__": function(name)}
    if fields is None:
        return type(own, (), members)
    made = dataclasses.make_dataclass(own, fields, namespace=members, frozen=True, init=False, repr=False)
    made.__module__ = module
    return made


class Value:
    """In place of a table."""

    def __init__(self, name: str):
        object.__setattr__(self, "_name", name)

    def __getattr__(self, attribute: str):
        if attribute.startswith("__"):  # inspect and copy ask for these
            raise AttributeError(attribute)
        refuse(self._name)

    def __iter__(self):
        refuse(self._name)

    __getitem__ = __contains__ = __call__ = __len__ = lambda self, *_, **__: refuse(self._name)
