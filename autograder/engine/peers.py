"""The two sandboxed processes that grade, and the sockets to them: started when they are needed, and again when they died."""

import contextlib
import os
import socket
import subprocess
from typing import IO

from . import wire
from .sandbox import Host, Limits, Sandbox, available, missing

START = 120  # seconds until a sandbox is warm


class Refused(RuntimeError):
    """One sentence: why nothing is graded here."""


class Peers:
    """A zygote and a checker, started when they are needed and again when they died."""

    def __init__(self, limits: Limits | None = None, host: Host | None = None, course_seed: str = "0"):
        self.limits, self.host, self.course_seed = limits or Limits(), host or available(), course_seed
        if self.host.refusal:
            raise Refused(self.host.refusal)
        self.zygote: Peer | None = None
        self.checker: Peer | None = None
        self.opened: set[str] = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        for peer in filter(None, (self.zygote, self.checker)):
            peer.stop()
        self.zygote = self.checker = None

    def warm_zygote(self, helpers: tuple[str, ...] = ()) -> "Peer":
        """A zygote whose children see these modules of `helpers`."""
        if self.zygote and self.zygote.helpers != helpers:
            self.drop(self.zygote)
        if self.zygote is None:
            self.zygote = Peer("zygote", self, helpers)
        return self.zygote

    def open_checker(self, bundle) -> "Peer":
        """A checker that has the bundle's cells."""
        try:
            return self._open_checker(bundle)
        except wire.Closed:  # it died after the last submission
            self.drop(self.checker)
            return self._open_checker(bundle)

    def _open_checker(self, bundle) -> "Peer":
        if self.checker is None:
            self.checker, self.opened = Peer("checker", self), set()
        if bundle.key not in self.opened:
            cells = [dict(id=i, kind=k, source=s, points=p) for i, k, s, p in bundle.cells]
            reply = self.checker.ask(START, op="open", key=bundle.key, cells=cells, seed=self.course_seed)
            if "fault" in reply:
                raise ValueError(f"The assignment cannot be graded: {reply['fault']}.")
            self.opened.add(bundle.key)
        return self.checker

    def drop(self, peer: "Peer") -> None:
        """End a zygote or checker that died or hangs; the next one that needs it starts another."""
        peer.stop()
        if peer is self.zygote:
            self.zygote = None
        elif peer is self.checker:
            self.checker = None


class Peer:
    """A sandboxed process of ours and the socket to it."""

    def __init__(self, module: str, engine: Peers, helpers: tuple[str, ...] | None = None):
        """helpers: the modules of `helpers` that it sees, if not all"""
        self.helpers = helpers
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.sandbox = Sandbox(module, theirs, engine.host, engine.limits, helpers)
        try:
            wire.receive(self.socket, START)
        except (wire.WireError, TimeoutError):
            words = last_words(self.sandbox.said)
            self.stop()
            raise Refused(
                f"The {module} does not start in its sandbox ({engine.host.level}): {words}.{missing()}"
            ) from None

    def ask(self, seconds: float, descriptors=(), **request) -> dict:
        """Closed if it died, TimeoutError if it hangs; it is ours, so its word counts."""
        wire.send_with_descriptors(self.socket, request, list(descriptors))
        return wire.receive(self.socket, seconds)

    def stop(self) -> None:
        """Let it end by itself, so that whoever waits for us gets the time that it took, then end it and all in it."""
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.sandbox.process.wait(1)
        self.sandbox.stop()


def last_words(said: IO[bytes]) -> str:
    """The last line that a process wrote into a file.

    >>> import io
    >>> last_words(io.BytesIO(b"Traceback\\nOSError: no\\n")), last_words(io.BytesIO())
    ('OSError: no', 'it said nothing')
    """
    said.seek(max(0, said.seek(0, os.SEEK_END) - 2000))
    return (said.read().decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1][:500]
