"""What a sharded program says, from the process that reads it to the one that checks it, as plain data."""

import json

from helpers.trace.jaxpr.collectives import Sent
from helpers.trace.stablehlo.arrivals import permutes_before_products
from helpers.trace.stablehlo.collectives import Held, Told, told_by


def said_by(module, devices: int, axes: dict[str, int]) -> dict:
    """What an opened module sends, holds and makes on a mesh of these axes."""
    told = told_by(Held(module, devices), axes)
    return {"sent": list(told.sent), "doubts": told.sent.doubts, "feeds": told.sent.feeds, "far": told.far,
            "largest": told.largest, "made": json.dumps(told.made), "flops": told.flops}  # fmt: skip


def told_again(said: dict, sizes: dict[str, int]) -> Told:
    """What `said_by` was told, on a mesh of these sizes."""
    made = [(tuple(shape), dtype) for shape, dtype in json.loads(said["made"])]
    return Told(
        Sent(said["sent"], sizes, said["doubts"], said["feeds"]), said["far"], made, said["largest"], said["flops"]
    )


def waits(module, devices: int) -> list[int]:
    """For each product of an opened module, how many permutes in sequence it waits for."""
    return permutes_before_products(Held(module, devices))
