"""Seconds of a processor decide when something has to end, so that a verdict does not depend on what else the machine does.

The clock is a second and wider limit, for what sleeps and for a machine that is too busy: what it ends has no verdict, unless
its processes wanted no processor.
"""

import time
from collections.abc import Callable
from socket import socket

from . import wire
from .sandbox import Sandbox

LOOK = 0.2  # seconds between two looks at what has been used


class Over(Exception):
    """Something has to end.

    sandbox  the one that has used too many seconds of a processor; None if too many have gone by on the clock
    seconds  how many that are
    used     seconds of a processor that it had
    slept    its processes neither ran nor stood in line for a processor for half of the time
    """

    def __init__(self, sandbox: Sandbox | None, seconds: float, used: float, slept: bool = False):
        self.sandbox, self.seconds, self.used, self.slept = sandbox, seconds, used, slept

    def said(self, what: str) -> str:
        """A sentence without its end, on what had to end.

        >>> Over(None, 120, 4.25).said("the cell")
        'the cell got 4.2 s of a processor in 120 s: this machine was too busy'
        """
        if self.sandbox:
            return f"{what} used more than {self.seconds:.3g} s of a processor"
        if self.slept:
            return f"{what} waited: in {self.seconds:g} s it used {self.used:.1f} s of a processor"
        return f"{what} got {self.used:.1f} s of a processor in {self.seconds:g} s: this machine was too busy"


class Watch:
    """What sandboxes may use from now on.

    most   sandbox -> seconds of a processor, of all that is in it
    clock  seconds for all of them
    """

    def __init__(self, most: dict[Sandbox, float], clock: float):
        self.most, self.clock, self.began = most, clock, time.monotonic()
        self.before = {sandbox: sandbox.processor() for sandbox in most}
        self.asleep = 0.0  # seconds in which none of them wanted a processor

    def used(self) -> float:
        """Seconds of a processor so far."""
        return sum(sandbox.processor() - before for sandbox, before in self.before.items())

    def look(self, waited: float) -> None:
        """Over if something has to end; waited: seconds in which no message came."""
        self.asleep += waited * (not any(sandbox.wants() for sandbox in self.before))
        for sandbox, most in self.most.items():
            if (used := sandbox.processor() - self.before[sandbox]) > most:
                raise Over(sandbox, most, used)
        if (gone := time.monotonic() - self.began) > self.clock:
            raise Over(None, self.clock, self.used(), slept=self.asleep > gone / 2)

    def receive(self, sock: socket, handle: Callable | None = None):
        """The next message."""
        while True:
            began = time.monotonic()
            try:
                return wire.receive(sock, LOOK, handle)
            except TimeoutError:
                self.look(time.monotonic() - began)
