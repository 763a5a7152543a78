"""A simulated timeline as a Chrome trace, for chrome://tracing and ui.perfetto.dev (chapter 5).

    Path("trace.json").write_text(json.dumps(chrome_trace(log)))

Source: Google, "Trace Event Format": a complete event has the phase X and begins at ts, for dur, both in microseconds; a
process pid and a thread tid are rows, and metadata events (phase M) name them.
"""

from collections.abc import Iterable

from helpers.arguments import entries

from .request_log import Log, Span


def chrome_trace(log: Log) -> dict:
    """The trace of a log, ready for `json.dumps`.

    What servers, network and hosts do is process 1, requests in their slots process 2, with a thread for each lane; an event is
    named after its kind, and its arguments are the requests' numbers.

    >>> from helpers.costs.inference.engine_simulation import interleaved
    >>> log = interleaved([(0, 8, 2)], 1, prefill=lambda T: T / 8, step=lambda B, S: 0.5)
    >>> events = chrome_trace(log)["traceEvents"]
    >>> [(e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 1]
    [('prefill', 0.0, 1000000.0), ('generate', 1000000.0, 500000.0)]
    """
    events = _process(1, "servers", log.spans) + _process(2, "slots", log.slot_spans())
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _process(pid: int, name: str, spans: Iterable[Span]) -> list[dict]:
    """A row for each lane and a bar for each span; what takes no time has none."""
    spans = [s for s in spans if s.end > s.start]
    lanes = {lane: tid for tid, lane in enumerate(sorted({s.lane for s in spans}, key=_by_number), 1)}
    named = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}]
    named += [
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}}
        for lane, tid in lanes.items()
    ]
    bars = [
        {
            "ph": "X",
            "name": s.kind,
            "pid": pid,
            "tid": lanes[s.lane],
            "ts": 1e6 * s.start,
            "dur": 1e6 * (s.end - s.start),
            "args": {"requests": list(s.requests)},
        }
        for s in spans
    ]
    return named + bars


def _by_number(lane: str) -> tuple:
    """Slot 0.10 comes after slot 0.9."""
    return tuple(int(part) if part.isdigit() else part for part in lane.replace(".", " ").split())


entries(__name__)
