"""Messages between processes that do not trust each other: JSON and raw buffers, a closed list of types, no pickle.

A frame is two lengths (JSON, then raw bytes), the JSON text, the raw bytes.
None, truth values, numbers, texts and lists are JSON's own; everything else is an object with one key, its tag:

>>> json_, raw = dumps({"x": (1, 2.5)})
>>> json_.decode()
'{"dict": [["x", {"tuple": [1, 2.5]}]]}'
>>> loads(json_, raw)
{'x': (1, 2.5)}

Whatever a sender writes, a reader gets a value of these types or a `WireError` with one sentence; it imports nothing for it.
"""

import itertools
import json
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction

import numpy as np

from .wire_types import (
    BITS,
    DTYPES,
    NAMES,
    RAW_LIMIT,
    WireError,
    dtype_name,
    is_abstract,
    is_array,
    is_spec,
    number_tree,
    plain_list,
    record_name,
    spec_axes,
    text_array,
    to_number,
    to_record,
    to_shape,
)  # fmt: skip

JSON_LIMIT = 4_000_000  # bytes of a message's text
DEPTH, COUNT = 60, 400_000  # nesting and values
KEYS = 1000  # of one dict or set, for a sender can choose keys that all have one hash
KEY_PARTS = 10_000  # values in all keys of a message
PLAIN = frozenset((bool, float, str))
STALE = 100  # replies to nobody that are passed over for one request

HEAD = struct.Struct("!QQ")
REST = 5  # seconds for a message that has begun
AT_ONCE = 1 << 16  # raw bytes that are worth a copy for the sake of one call of the system


class Closed(WireError):
    """The other side is gone."""


def dumps(value, handle: Callable | None = None) -> tuple[bytes, bytes]:
    """A value as JSON and raw bytes.

    handle  object -> a small dict that names it, for what has no value; without it such a thing is an error
    """
    writer = _Writer(handle)
    try:
        text = json.dumps(writer.tree(value, 0)).encode()
    except RecursionError:
        raise WireError("The value is nested too deep.") from None
    raw = b"".join(writer.raw)
    if len(text) > JSON_LIMIT or len(raw) > RAW_LIMIT:
        raise WireError(f"The value is too large: {(len(text) + len(raw)) / 1e6:.0f} MB.")
    return text, raw


def fitting(texts: list[str]) -> list[str]:
    """The first of these texts, as many as one message holds beside other things."""
    lengths = itertools.accumulate(len(json.dumps(text)) for text in texts)
    return [text for text, length in zip(texts, lengths) if length < JSON_LIMIT / 2]


def loads(text: bytes, raw: bytes = b"", handle: Callable | None = None):
    """The value of `dumps`; handle: the dict that names an object -> what stands for it here."""
    if len(text) > JSON_LIMIT:  # the head of a message within a message was not checked
        raise WireError("The message is too large.")
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("The message is not JSON.") from None
    reader = _Reader(raw, handle)
    try:
        value = reader.value(tree, 0)
    except WireError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError) as e:
        raise WireError(f"The message has a part of a wrong form ({type(e).__name__}).") from None
    if reader.at != len(raw):
        raise WireError("The message has bytes that belong to nothing.")
    return value


class _Writer:
    def __init__(self, handle):
        self.raw, self.size, self.count, self.keys, self.handle = [], 0, 0, 0, handle

    def tree(self, x, depth: int):
        """A value as what `json` writes."""
        self.count += 1
        if depth > DEPTH or self.count > COUNT:
            raise WireError("The value is nested too deep." if depth > DEPTH else "The value has too many parts.")
        kind = type(x)
        if x is None or kind in PLAIN:  # most are: what follows takes longer
            return x
        if kind is tuple or kind is list or kind is dict:
            return self.tagged(x, depth + 1)
        if kind is not int and (isinstance(x, np.generic) or is_array(x)):
            return {"words": self.tree(x.tolist(), depth + 1)} if x.dtype.kind == "U" else self.array(x)
        if isinstance(x, int):
            if int.bit_length(x) > BITS:
                raise WireError(f"A whole number has more than {BITS} bits.")
            return int.__index__(x)
        if isinstance(x, (float, str)):
            return float.__float__(x) if isinstance(x, float) else str.__str__(x)
        return self.tagged(x, depth + 1)

    def tagged(self, x, depth: int):
        tree = self.tree
        if type(x) is list:
            return [tree(a, depth) for a in x]
        if type(x) is tuple:
            return {"tuple": [tree(a, depth) for a in x]}
        if x is Ellipsis or x is NotImplemented:
            return {"mark": "..." if x is Ellipsis else "NotImplemented"}
        if is_spec(x):
            return {"spec": [tree(a, depth) for a in tuple(x)]}
        if isinstance(x, list):
            return [tree(a, depth) for a in x]
        for kind, tag in ((tuple, "tuple"), (set, "set"), (frozenset, "frozenset")):
            if isinstance(x, kind):
                return {tag: [tree(a, depth) for a in x] if tag == "tuple" else self.all_keys(x, depth)}
        if isinstance(x, Mapping):
            return {"dict": list(zip(self.all_keys(x, depth), [tree(v, depth) for v in x.values()]))}
        if isinstance(x, (bytes, bytearray)):
            self._add(bytes(x))
            return {"bytes": len(x)}
        if isinstance(x, (complex, Fraction, Decimal)):
            return number_tree(x)
        if isinstance(x, np.dtype):
            return {"dtype": dtype_name(x)}
        if name := record_name(type(x)):
            return {"record": [name, [tree(getattr(x, f.name), depth) for f in fields(x)]]}
        if is_abstract(x):
            return {"shape": [list(x.shape), dtype_name(np.dtype(x.dtype))]}
        if self.handle is None:
            raise WireError(f"A {type(x).__name__} has no plain value that could be handed over.")
        return {"handle": self.handle(x)}

    def all_keys(self, x, depth: int) -> list:
        if len(x) > KEYS:
            raise WireError(f"A {type(x).__name__[:40]} of more than {KEYS:,} keys cannot be handed over.")
        before, made = self.count, [self.tree(k, depth) for k in x]
        self.keys += self.count - before
        if self.keys > KEY_PARTS:
            raise WireError("The keys of the value have too many parts.")
        return made

    def array(self, x):
        kind = "scalar" if isinstance(x, np.generic) else "array" if isinstance(x, np.ndarray) else "jax"
        if (dtype := NAMES.get(x.dtype)) is None:
            raise WireError(f"An array of {x.dtype} cannot be handed over.")
        if x.size * x.dtype.itemsize > RAW_LIMIT:
            raise WireError(f"An array of {x.size * x.dtype.itemsize / 1e6:.0f} MB is too large to be handed over.")
        self._add(np.asarray(x).tobytes())
        return {kind: [dtype, list(x.shape)]}

    def _add(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > RAW_LIMIT:
            raise WireError(f"The value is too large: more than {RAW_LIMIT / 1e6:.0f} MB.")
        self.raw.append(data)


class _Reader:
    def __init__(self, raw, handle):
        self.raw, self.at, self.count, self.keys, self.handle = memoryview(raw), 0, 0, 0, handle

    def value(self, t, depth: int):
        """What a JSON tree stands for."""
        self.count += 1
        if depth > DEPTH or self.count > COUNT:
            raise WireError("The message is nested too deep or has too many parts.")
        if t is None or type(t) in PLAIN:
            return t
        if type(t) is int:
            if t.bit_length() > BITS:
                raise WireError(f"A whole number has more than {BITS} bits.")
            return t
        if isinstance(t, list):
            return [self.value(a, depth + 1) for a in t]
        if len(t) != 1:
            raise WireError("The message has an object that is not one tag.")
        (tag, body), part = next(iter(t.items())), lambda a: self.value(a, depth + 1)
        match tag:
            case "tuple":
                return tuple([self.value(a, depth + 1) for a in plain_list(body)])
            case "set" | "frozenset":
                return {"set": set, "frozenset": frozenset}[tag](self.all_keys(plain_list(body), depth + 1))
            case "dict":
                return dict(zip(self.all_keys([k for k, _ in plain_list(body)], depth + 1), [part(v) for _, v in body]))
            case "array" | "jax" | "scalar":
                return self.array(tag, *plain_list(body))
            case "bytes":
                return bytes(self._take(body))
            case "mark":
                return {"...": Ellipsis, "NotImplemented": NotImplemented}[body]
            case "complex" | "fraction" | "decimal":
                return to_number(tag, body)
            case "words":
                return text_array(part(body))
            case "dtype":
                return DTYPES[body]
            case "spec" if "jax" in sys.modules:
                return sys.modules["jax"].sharding.PartitionSpec(*(spec_axes(part(a)) for a in plain_list(body)))
            case "shape" if "jax" in sys.modules:
                return sys.modules["jax"].ShapeDtypeStruct(to_shape(body[0]), DTYPES[body[1]])
            case "record":
                return to_record(body[0], [part(a) for a in plain_list(body[1])])
            case "handle" if self.handle is not None and isinstance(body, dict):
                return self.handle(body)
        raise WireError(f"The message has the unknown tag {ascii(tag)[:40]}.")

    def all_keys(self, trees: list, depth: int) -> list:
        """Keys of one dict or set, counted before anything is made of them."""
        if len(trees) > KEYS:
            raise WireError(f"The message has a dict or a set of more than {KEYS:,} keys.")
        before, made = self.count, [self.value(k, depth) for k in trees]
        self.keys += self.count - before
        if self.keys > KEY_PARTS:
            raise WireError("The keys of the message have too many parts.")
        return made

    def array(self, kind, dtype, shape):
        dtype, shape = DTYPES[dtype], to_shape(shape)
        n = 1
        for d in shape:
            n = min(n * d, RAW_LIMIT + 1)
        data = np.frombuffer(self._take(n * dtype.itemsize), dtype).reshape(shape).copy()
        if kind == "scalar" and shape:
            raise WireError("The message has a scalar with dimensions.")
        if kind == "jax" and "jax" in sys.modules:
            return sys.modules["jax"].device_put(data)  # `asarray` would compile a program for each shape
        return data[()] if kind == "scalar" else data

    def _take(self, n):
        if type(n) is not int or not 0 <= n <= len(self.raw) - self.at:
            raise WireError("The message promises more bytes than it has.")
        self.at += n
        return self.raw[self.at - n : self.at]


def send(sock: socket.socket, value, handle: Callable | None = None, seconds: float = 60) -> None:
    """Write one message; Closed if nobody reads it."""
    send_bytes(sock, *dumps(value, handle), seconds)


def send_bytes(sock: socket.socket, text: bytes, raw: bytes, seconds: float = 60) -> None:
    """Write what `dumps` made."""
    try:
        sock.settimeout(seconds)  # each time: processes that share a socket share this
        sock.sendall(HEAD.pack(len(text), len(raw)) + text + (raw if len(raw) <= AT_ONCE else b""))
        if len(raw) > AT_ONCE:
            sock.sendall(raw)
    except OSError:
        raise Closed("The other side is gone or does not read.") from None


def receive(sock: socket.socket, seconds: float | None = None, handle: Callable | None = None):
    """Read one message; Closed at the end, TimeoutError if none has begun after so many seconds.

    One that has begun is read to its end: who asks again after half of it would take the rest for another one's head.
    """
    head = exactly(sock, 1, None if seconds is None else time.monotonic() + seconds)
    deadline = None if seconds is None else time.monotonic() + REST
    try:
        n_text, n_raw = HEAD.unpack(head + exactly(sock, HEAD.size - 1, deadline))
        if n_text > JSON_LIMIT or n_raw > RAW_LIMIT:
            raise WireError("The message is too large.")
        whole = memoryview(exactly(sock, n_text + n_raw, deadline))
    except TimeoutError:
        raise WireError("The message does not end.") from None
    return loads(bytes(whole[:n_text]), whole[n_text:], handle)


def reply(receive: Callable[[], object], number: str) -> dict:
    """The reply to the request of this number; those to earlier ones, which come late, are passed over."""
    for _ in range(STALE):
        found = receive()
        if not isinstance(found, dict):
            raise WireError("The message is no reply.")
        if found.pop("number", None) == number:
            return found
    raise WireError("The message is one of too many that nobody asked for.")


def receive_with_descriptors(sock: socket.socket, seconds: float | None = None):
    """A message and the descriptors that came with its first bytes."""
    sock.settimeout(seconds)
    try:
        head, found, *_ = socket.recv_fds(sock, HEAD.size, 4)
    except ConnectionError:
        head = b""
    if not head:
        raise Closed("The other side is gone.")
    n_text, n_raw = HEAD.unpack(head + exactly(sock, HEAD.size - len(head), None))
    return loads(bytes(exactly(sock, n_text, None)), exactly(sock, n_raw, None)), list(found)


def send_with_descriptors(sock: socket.socket, value, descriptors: list[int]) -> None:
    """A message whose first bytes carry descriptors."""
    text, raw = dumps(value)
    try:
        sock.settimeout(60)
        socket.send_fds(sock, [HEAD.pack(len(text), len(raw))], descriptors)
        sock.sendall(text + raw)
    except OSError:
        raise Closed("The other side is gone or does not read.") from None


def exactly(sock: socket.socket, n: int, deadline: float | None) -> bytearray:
    """So many bytes."""
    data = bytearray()
    while len(data) < n:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimeoutError
        try:
            sock.settimeout(left)
            part = sock.recv(min(n - len(data), 1 << 20))
        except TimeoutError:
            raise
        except OSError:
            part = b""
        if not part:
            raise Closed("The other side is gone.")
        data += part
    return data
