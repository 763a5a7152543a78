"""A memory, and SMs with tiles, played step by step."""

import heapq

import pytest

from helpers.costs.rooflines import gpu_machine as machine
from helpers.costs.rooflines.chips import CHIPS
from helpers.costs.rooflines.gpu_machine import SM, gpu, tiled
from tests.helpers.costs.tables import refused, walks


@walks([1, 10, 100, 200, 400])
def test_littles_law_by_a_memory_that_answers_one_load_at_a_time(loads):
    """Each answer is followed by the next load; the memory hands out one line every 1/W, `latency` after it was asked."""
    line, W, latency, moved = 32.0, 3.2e10, 1e-7, 20000
    asked, free, t = [0.0] * loads, 0.0, 0.0
    for _ in range(moved):
        at = heapq.heappop(asked)
        free = max(free, at) + line / W
        t = max(at + latency, free)
        heapq.heappush(asked, t)
    assert moved * line / t == pytest.approx(machine.rate_in_flight(loads * line, latency, W), rel=0.02)
    assert machine.bytes_in_flight(W, latency) / line == 100


def test_warps_and_stages_keep_enough_in_flight():
    W, latency, sms = 3.35e12, 4e-7, 132
    need = machine.bytes_in_flight(W, latency) / sms
    for bytes_each, loads in ((4, 1), (16, 1), (16, 4)):
        warps = machine.warps_in_flight(W, latency, sms, bytes_each, loads)
        assert warps == int(warps) and (warps - 1) * 32 * bytes_each * loads < need <= warps * 32 * bytes_each * loads
    assert machine.warps_in_flight(W, latency, sms) == machine.warps_in_flight(W, latency, sms, 16, 1)
    # with a float each, an SM's 64 warps are too few
    assert machine.warps_in_flight(W, latency, sms, 4) > SM().threads / 32
    stages = machine.stages_in_flight(W, latency, sms, 8192)
    assert stages == int(stages) and (stages - 2) * 8192 < need <= (stages - 1) * 8192


SIZES = [
    (128, 256, 64, 4), (128, 256, 64, 5), (256, 256, 64, 1), (64, 512, 64, 3), (64, 512, 64, 2), (128, 128, 128, 3),
]  # fmt: skip


@walks(SIZES, [1, 2])
def test_tiles_that_fit_by_taking_registers_and_bytes_one_by_one(tile_m, tile_n, tile_k, stages, bytes_each):
    sm = gpu("H100").sm
    registers = sm.registers - sm.registers // 2 - sum(tile_n for _ in range(tile_m))  # half is for all else
    smem = sm.smem_bytes
    for _ in range(stages):
        smem -= sum(tile_k * bytes_each for side in (tile_m, tile_n) for _ in range(side))
    assert machine.tile_fits(sm, tile_m, tile_n, tile_k, stages, bytes_each) is (registers >= 0 and smem >= 0)


@walks([(8192, 8448, 132), (8193, 8448, 132), (300, 700, 4), (128, 256, 132), (1, 1, 8)])
def test_waves_by_simulation(m, n, sms):
    """SMs take the next tile when they are done; every tile takes as long, whether or not its edge is full."""
    left = sum(1 for _ in range(0, m, 128) for _ in range(0, n, 256))
    free, done = [0] * sms, 0
    heapq.heapify(free)
    for _ in range(left):
        end = heapq.heappop(free) + 1
        heapq.heappush(free, end)
        done = max(done, end)
    t = tiled(m, n, sms)
    assert (t.tiles, t.waves) == (left, done)
    assert t.efficiency == pytest.approx(m * n / (done * sms * 128 * 256))


@walks([(64, 64), (128, 256)])
def test_intensity_by_counting(tile_m, tile_n):
    k = 48
    read = 2 * sum(1 for side in (tile_m, tile_n) for _ in range(side) for _ in range(k))
    assert machine.tile_intensity(tile_m, tile_n) == pytest.approx(2 * tile_m * tile_n * k / read)
    assert machine.l2_rate(1e15, tile_m, tile_n) * machine.tile_intensity(tile_m, tile_n) == pytest.approx(1e15)


def test_machines_are_those_of_the_chips():
    for name in (c.name for c in CHIPS.values() if c.l2_bytes):
        g = gpu(name)
        assert 1.3e9 < g.clock < 2.1e9 and g.latency("shared") < g.latency("L2") < g.latency("HBM")
        assert g.sm.smem_bytes * g.chip.cores == pytest.approx(g.chip.fast_bytes)
        assert g.register_bytes == 256 * 1024 * g.chip.cores
        measured = {"A100": 499, "A100-40GB": 499, "B200": 860, "GB200": 860}.get(name, (673 + 690) / 2)  # H800, GH200
        assert g.latency("HBM") * g.clock == pytest.approx(measured, rel=0.01)
        assert g.latency("registers") * g.clock == pytest.approx(1)
    refused(
        (lambda: gpu("v5e"), "no L2 is listed"),
        (lambda: gpu("H100").latency("disk"), "Machine.latency: memory is one of .*, 'HBM', not 'disk'"),
    )
