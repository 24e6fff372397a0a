"""The energy of a launch: every number of its model matters, its parts are the whole, and values count."""

from __future__ import annotations

import gzip
from functools import cache
from typing import Any

import numpy as np
import pytest

import gpusim
import isa
from gpusim.config import describe_keys, load_config
from gpusim.result import Result
from gpusim.results.energy import EVENTS, PARTS, Clocking
from isa.listing import programs_from_cubin
from validate.energy.kernels import CUBIN, words

SMALL = {"matrix": (2, 32, 0), "group": (1, 128, 65536)}
# Each event and a kernel that has it: (entry, a, b).
KERNELS = {
    **{event: ("op_lop3", 32, 0) for event in ("launch", "warp", "issue", "operand", "alu")},
    "integer_product": ("op_imad", 32, 0), "wide_product": ("op_imad_wide", 32, 0), "vote": ("op_vote", 32, 0),
    "single_product": ("op_ffma", 32, 0), "half_product": ("op_hfma2", 32, 0), "double_sum": ("op_dadd", 32, 0),
    "double_product": ("op_dfma", 32, 0), "special": ("op_ex2", 32, 0), "shuffle": ("op_shfl", 32, 0),
    "matrix_half": ("mma_f16", 0, 0), "matrix_single": ("mma_tf32", 0, 0), "matrix_byte": ("mma_s8", 0, 0),
    "matrix_double": ("mma_f64", 0, 0), "group_half": ("wgmma_f16_n64", 0, 0), "group_single": ("wgmma_tf32", 0, 0),
    "group_int8": ("wgmma_s8", 0, 0), "group_fp8": ("wgmma_e4m3", 0, 0), "constant": ("ldc", 0, 0),
    "access": ("lds", 1, 0), "shared_wavefront": ("lds", 1, 0), "shared_word": ("lds", 1, 0),
    "shared_atomic": ("reds", 1, 0), "l1_tag": ("l1", 1, 0), "l1_word": ("l1", 1, 0),
    "l2_request": ("read32", 15, 4), "l2_read": ("read32", 15, 4), "l2_write": ("write32", 15, 4),
    "l2_atomic": ("red32", 15, 4), "fabric": ("read32", 63, 4), "dram_read": ("read32", 63, 4),
    "dram_write": ("write32", 255, 32), "dram_row": ("read32", 63, 32),
    "link": ("read32", 63, 4),
}  # fmt: skip
OTHERS = ("clock_mhz", "board_w", "sm_w", "still_share", "volts_per_clock", "least_volts", "limit_w",
          "logic_scale", "memory_scale")  # fmt: skip


@cache
def _kernels() -> dict[str, isa.Program]:
    return programs_from_cubin(gzip.decompress(CUBIN.read_bytes()), path="kernels.cubin")


def run(entry: str, a: int = 32, b: int = 0, *, fill: str = "u32", rounds: int = 2, **how: Any) -> Result:
    """A microbenchmark on a GPU of two SMs and little L2."""
    kind = entry.split("_")[0].removeprefix("w").replace("gmma", "group").replace("mma", "matrix")
    grid, block, shared = SMALL.get(kind, (4, 64, 0))
    overrides = {"l2.bytes": 131072} | how.pop("overrides", {})
    room = np.zeros(1 << 18, np.uint32)
    arguments = (words(fill, 1 << 16), room, np.uint32(rounds), np.uint32(a), np.uint32(b))
    program = _kernels()[entry]
    return gpusim.simulate(program, grid, block, arguments, "tiny", shared, overrides=overrides, **how)


@pytest.mark.parametrize("kernel", sorted({*KERNELS.values()}), ids=lambda kernel: kernel[0])
def test_each_event_costs_what_the_configuration_says(kernel):
    """All events cost more at once, each by its own amount."""
    own = {event for event, each in KERNELS.items() if each == kernel and event != "link"}
    rounds = 40 if "dram_write" in own else 2
    overrides = {"l2.partitions": 2, "l2.gpc_partitions": [0, 1]} if "fabric" in own else {}
    price = load_config("tiny", overrides).energy
    more = [(1000.0 + 10 * number, 500.0 + 7 * number) for number in range(len(EVENTS))]
    changed = {
        f"energy.{event}_pj": [old + new for old, new in zip(getattr(price, f"{event}_pj"), added, strict=True)]
        for event, added in zip(EVENTS, more, strict=True)
    }
    first, second = (run(*kernel, rounds=rounds, overrides=overrides | each) for each in ({}, changed))
    counts = first.energy.events
    assert all(counts[:, EVENTS.index(event)].sum() > 0 for event in own)
    still, random = 1e-12 * np.array(more).T
    added = (counts @ still).sum() + (first.energy.activity * (counts @ random)).sum()
    assert second.energy_j - first.energy_j == pytest.approx(added, rel=1e-6)


def test_what_goes_to_another_gpu_takes_energy_here():
    found = []
    for link in (0.0, 1000.0):
        first = gpusim.Device("tiny", overrides={"energy.link_pj": [link, 0.0]})
        room = gpusim.Device(beside=first).device_array(1 << 18, np.uint32)
        data = first.to_device(words("u32", 1 << 16))
        arguments = (data, room, np.uint32(2), np.uint32(63), np.uint32(4))
        found.append(first.launch(_kernels()["read32"], 4, 64, arguments))
    sectors = found[0].energy.events[:, EVENTS.index("link")].sum()
    assert sectors == 2 * 4 * 64 * 8 * 4 / 32
    assert found[1].energy_j - found[0].energy_j == pytest.approx(1e-9 * sectors)
    assert found[1].energy.parts["links"] == pytest.approx(1e-9 * sectors)


def test_every_key_of_the_model_is_tested_here():
    keys = {key for key in describe_keys() if key.startswith("energy.")}
    assert keys == {f"energy.{event}_pj" for event in KERNELS} | {f"energy.{key}" for key in OTHERS}
    assert set(KERNELS) == set(EVENTS)


def test_the_parts_are_the_whole():
    result = run("read32", 63, 4)
    energy = result.energy
    assert set(energy.parts) == {"static", *PARTS} and sorted(sum(PARTS.values(), ())) == sorted(EVENTS)
    assert result.energy_j == pytest.approx(sum(energy.parts.values()))
    assert result.energy_j == pytest.approx(
        energy.parts["static"] + energy.parts["launch"] + energy.instruction_j.sum()
    )
    assert result.power_w == pytest.approx(result.energy_j / (1e-6 * result.time_us))
    for costs in (result.source_lines, result.instructions):
        assert sum(each.energy_j for each in costs) == pytest.approx(energy.instruction_j.sum())


def test_events_are_those_of_the_counters():
    result = run("lds", 2)
    events = dict(zip(EVENTS, result.energy.events.sum(axis=0).tolist(), strict=True))
    metrics = result.metrics
    assert events["issue"] == metrics["smsp__inst_executed.sum"] and events["warp"] == 8
    assert events["shared_wavefront"] >= 2 * 32 * 2 * 8  # two ways, 32 loads in each of two rounds, 8 warps
    products = run("mma_f16")
    operations = products.roofline.operations["tensor"]
    assert 2 * products.energy.events[:, EVENTS.index("matrix_half")].sum() == operations > 0


@pytest.mark.parametrize("entry, fill", [("op_ffma", "f32"), ("op_lop3", "u32"), ("op_dfma", "f64"), ("lds", "u32")])
def test_random_values_take_more_than_zeros(entry, fill):
    a = 1 if entry == "lds" else 32
    random, zeros = (run(entry, a, fill=each, rounds=8) for each in (fill, "zeros"))
    event = {"lds": "shared_word", "op_lop3": "alu"}.get(entry, "single_product" if fill == "f32" else "double_product")
    loop = random.energy.events[:, EVENTS.index(event)].argmax()
    assert random.energy.activity[loop] > 0.6 > 0.1 > zeros.energy.activity[loop]
    assert random.energy_j > zeros.energy_j and random.cycles == zeros.cycles


def test_what_is_looked_at_does_not_depend_on_the_machine():
    results = [
        run("op_imad", rounds=5, overrides=each)
        for each in ({}, {"sm.count": 1}, {"pipes.fma.initiation_cycles": 8})
    ]
    first = results[0].energy
    for each in results[1:]:
        assert np.array_equal(each.energy.activity, first.activity)
        assert np.array_equal(each.energy.events[:, 2:12], first.events[:, 2:12])


def test_static_power_goes_with_time_and_sms():
    of = load_config("tiny").energy
    found = run("op_ex2")
    sms = found.record.config.sm.count
    assert found.energy.parts["static"] == pytest.approx((of.board_w + sms * of.sm_w) * 1e-6 * found.time_us)
    more = run("op_ex2", overrides={"energy.board_w": of.board_w + 10, "energy.sm_w": of.sm_w + 1})
    assert more.energy.parts["static"] / found.energy.parts["static"] == pytest.approx(
        1 + (10 + sms) / (of.board_w + sms * of.sm_w)
    )


def test_a_slower_clock_takes_less_for_the_same_work():
    of = load_config("tiny").energy
    full, slow, deep = (run("op_ffma", fill="f32", overrides={"gpu.clock_mhz": mhz}) for mhz in (1980, 1584, 600))
    issue = [each.energy.parts["issue"] for each in (full, slow, deep)]
    assert issue[1] / issue[0] == pytest.approx((1 - 0.2 * of.volts_per_clock) ** 2)
    assert issue[2] / issue[0] == pytest.approx(of.least_volts**2)
    assert slow.energy.parts["memory"] == pytest.approx(full.energy.parts["memory"])  # off the chip
    watts = [each.energy.parts["static"] / (1e-6 * each.time_us) for each in (full, slow)]
    assert watts[1] / watts[0] == pytest.approx(of.still_share + (1 - of.still_share) * 0.8)


def test_other_technologies_scale():
    first, second = (
        run("read32", 63, 4, overrides=each).energy.parts
        for each in ({}, {"energy.logic_scale": 2.0, "energy.memory_scale": 3.0})
    )
    assert second["memory"] == pytest.approx(3 * first["memory"])
    assert second["issue"] == pytest.approx(2 * first["issue"]) and second["L2"] == pytest.approx(2 * first["L2"])


@pytest.mark.parametrize("limit", [100_000.0, 700.0, 300.0])
def test_a_board_over_its_limit_lowers_its_clock(limit):
    of = load_config("h100").energy.model_copy(update={"limit_w": limit})
    law = Clocking(of, 132)
    clock, time, joules, watts = law.settle(1980, 20e-6, 0.015, 0.001)
    assert watts == pytest.approx(joules / (1e-6 * time)) and time == pytest.approx(20 * 1980 / clock)
    if limit == 100_000.0:
        assert clock == 1980 and joules == pytest.approx(0.016 + 20e-6 * law.static_w(1980))
    else:
        assert watts == pytest.approx(limit, rel=1e-6) and clock < 1980
        lower = Clocking(of.model_copy(update={"volts_per_clock": 0.0}), 132)
        assert lower.settle(1980, 20e-6, 0.015, 0.001)[0] < clock  # without a lower voltage the clock falls further
