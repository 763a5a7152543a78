"""A trace that is written and read back says what the log's spans say, in every design."""

import json
from collections import defaultdict
from itertools import pairwise

import pytest

from helpers.costs.inference.chrome_trace import chrome_trace
from helpers.costs.inference.request_log import mixed_load
from helpers.costs.inference.token_budget import budgeted
from tests.helpers.costs.inference.test_engine_simulation import ENGINES

PAGES = {"pages": 24, "page": 4, "policy": "swap", "swap": lambda n: n / 8}
DESIGNS = ENGINES | {
    "budgeted": lambda load, slots: budgeted(load, slots, lambda B, S, pieces: 1 + len(pieces), 16, **PAGES)
}
LOAD = (*mixed_load(20, seed=2, rate=0.5, prompts=(4, 40), outputs=(1, 40)), (3.0, 8, 1), (4.0, 24, 60))


@pytest.mark.parametrize("name", DESIGNS)
def test_the_trace_is_the_log(name, tmp_path):
    log, file = DESIGNS[name](LOAD, 11), tmp_path / "trace.json"
    file.write_text(json.dumps(chrome_trace(log)), encoding="utf-8")
    read = json.loads(file.read_text(encoding="utf-8"))
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in read["traceEvents"] if e["name"] == "thread_name"}
    bars = [e for e in read["traceEvents"] if e["ph"] == "X"]
    for pid, spans in ((1, log.spans), (2, log.slot_spans())):
        told = [
            (threads[pid, e["tid"]], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"], tuple(e["args"]["requests"]))
            for e in bars
            if e["pid"] == pid
        ]
        wanted = [tuple(s) for s in spans if s.end > s.start]
        assert len(told) == len(wanted) > 20
        for a, b in zip(sorted(told), sorted(wanted)):
            assert (a[0], *a[3:]) == (b[0], *b[3:]) and a[1:3] == pytest.approx(b[1:3])
    # Bars of a row must not overlap: the viewers would draw one inside the other, or leave it out.
    rows = defaultdict(list)
    for e in bars:
        rows[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    assert all(a[1] <= b[0] + 1e-3 for row in rows.values() for a, b in pairwise(sorted(row)))
    slots = [name for (pid, _), name in sorted(threads.items()) if pid == 2 and name.startswith("slot 0.")]
    assert slots == sorted(slots, key=lambda s: int(s[7:])) and len(slots) > 1
    assert {e["args"]["name"] for e in read["traceEvents"] if e["name"] == "process_name"} == {"servers", "slots"}
    assert set(read) == {"traceEvents", "displayTimeUnit"} and {e["ph"] for e in read["traceEvents"]} == {"M", "X"}
