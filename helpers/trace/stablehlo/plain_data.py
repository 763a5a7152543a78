"""What a program does on each device as plain data: from the process that reads a graded program to the one that checks it."""

import json

from helpers.trace.jaxpr.collectives import DeviceProgram, Sent

from .collectives import Held, device_program, permutes_before_products


def said_by(module, devices: int, axes: dict[str, int]) -> dict:
    """What an opened module sends, holds and makes on a mesh of these axes."""
    told = device_program(Held(module, devices), axes)
    sent = {"sent": list(told.sent), "doubts": told.sent.doubts, "feeds": told.sent.feeds}
    return vars(told) | sent | {"made": json.dumps(told.made)}


def told_again(data: dict, sizes: dict[str, int]) -> DeviceProgram:
    """What `said_by` was told, on a mesh of these sizes."""
    made = [(tuple(shape), dtype) for shape, dtype in json.loads(data["made"])]
    sent = Sent(data["sent"], sizes, data["doubts"], data["feeds"])
    return DeviceProgram(sent, data["far"], made, data["largest"], data["flops"])


def waits(module, devices: int) -> list[int]:
    """For each product of an opened module, how many permutes in sequence it waits for."""
    return permutes_before_products(Held(module, devices))
