"""What L1 does with stores and with loads that meet, as an H200 does: counters of launches recorded by Nsight Compute
(`data/h200_l1.cu`, `data/h200_l1.json.gz`).

The recording also has launches that read random places of a gigabyte (`memory`), of which
`dram.activate_interval_cycles` follows; they want more memory than a test may hold.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim.config import load_config
from tests.gpusim.kernels import Kernels

DATA = Path(__file__).parent / "data"
RECORDING = json.loads(gzip.decompress((DATA / "h200_l1.json.gz").read_bytes()))
LAUNCHES = {each["name"]: each for each in RECORDING["launches"]}
KERNELS = Kernels((DATA / "h200_l1.cu").read_text("utf-8"), "sm_90", str(DATA / "h200_l1.cu"))

#: Launches whose stores join as often as timing has it, here and there within so much of the sectors written.
BY_TIME = {"8x32 b1 w1": 0.13, "8x32 b1 w8": 0.01, "loop 4x32 lane 16 b1 w8": 0.05}


def simulated(each):
    data, out = np.zeros(1 << 20, np.uint32), np.zeros(1 << 13, np.uint32)
    numbers = [np.int32(value) for value in each["arguments"]]
    if len(numbers) > 8:
        numbers[8] = np.int64(each["arguments"][8])
        arguments = [data, out, *numbers]
    else:
        arguments = [data, *numbers, out]
    return gpusim.simulate(KERNELS[each["kernel"]], each["grid"], each["block"], arguments, "h200")


# Of some groups every seventh launch, so that each warmth, count of warps and kind of address is among them.
@pytest.mark.parametrize(
    ("kernels", "step"), [("mid", 7), ("st_then_ld", 7), ("st32", 1), ("st8x32", 1), ("ld_meet", 7), ("ld_back", 7)]
)
def test_sectors_and_hits_are_counted_as_on_the_hardware(kernels, step):
    differing = []
    for name, each in [item for item in LAUNCHES.items() if item[1]["kernel"].startswith(kernels)][::step]:
        found = [simulated(each).metrics[counter] for counter in RECORDING["counters"]]
        wanted = each["counters"]
        if name in BY_TIME:
            assert found[0] == pytest.approx(wanted[0], rel=BY_TIME[name])
            found[0] = wanted[0]
        # A block's one or two last stores, of its clock, may join each other.
        if found[1:] != wanted[1:] or abs(found[0] - wanted[0]) > each["block"] // 32:
            differing.append((name, found, wanted))
    assert not differing


def test_the_interval_of_activations_is_the_recorded_one():
    """Of random sectors each costs a row, of which 64 bytes are fetched; 4,500 cycles are the launch and its ends."""
    h200 = load_config("h200")
    each = next(each for each in RECORDING["memory"] if each["name"] == "random sectors of 1 GiB b132 w32")
    fetches = each["dram_bytes_read"] / h200.l2.fetch_bytes / (each["cycles"] - 4500)
    assert h200.dram.channels / fetches == pytest.approx(h200.dram.activate_interval_cycles, rel=0.01)


def test_rows_of_threads_take_a_turn_of_the_data_stage_for_each_lane():
    """Every thread its own row: be the sectors there or on their way."""
    each = LAUNCHES["row sum b1 w8"]
    assert simulated(each).cycles == pytest.approx(each["cycles"], rel=0.03)


TURNS = Kernels()
for name, sends in {
    "load": 'asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(w) : "l"(p)); v += w;',
    "add": 'asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(w) : "l"(p)); v += w;',
    "swap": 'asm volatile("atom.global.cas.b32 %0, [%1], 0, 1;" : "=r"(w) : "l"(p)); v += w;',
    "reduction": 'asm volatile("red.global.add.u32 [%0], 1;" : : "l"(p));',
    "rows": """for (int k = 0; k < 4; k++) {
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(w) : "l"(p + 4 * k)); v += w; }""",
}.items():
    TURNS.add(f"""extern "C" __global__ void {name}(
        char *data, int lines, int step, int words, int round, unsigned *out) {{
        char *p = data + threadIdx.x % lines * step + threadIdx.x / lines * words; unsigned v = 0, w;
        for (int i = 0; i < 4; i++, p += round) {{ {sends} }}
        if (v == 77) out[0] = v; }}
    """)


# Kernel; lines, bytes between them, between lanes of one and between rounds; wavefronts of a round on an H200.
@pytest.mark.parametrize(
    ("kernel", "arguments", "wavefronts", "tolerance"),
    [
        ("load", (32, 128, 0, 4224), 32.06, 0.01), ("load", (32, 132, 0, 4224), 8.6, 0.05),
        ("reduction", (32, 128, 0, 4224), 32.0, 0.01), ("reduction", (8, 128, 4, 1152), 8.0, 0.01),
        ("add", (32, 128, 0, 4224), 64.1, 0.01), ("add", (32, 144, 0, 4736), 25, 0.15),
        ("add", (16, 128, 4, 2176), 49.4, 0.04), ("add", (8, 128, 32, 1152), 22.1, 0.1),
        ("swap", (32, 128, 0, 4224), 64.1, 0.01), ("swap", (8, 128, 32, 1152), 42.4, 0.15),
        ("rows", (32, 3136, 0, 32), 88.1, 0.06), ("rows", (32, 3200, 0, 32), 128.1, 0.01),
    ],
)  # fmt: skip
def test_what_l1_does_not_keep_takes_turns_of_the_data_stage(kernel, arguments, wavefronts, tolerance):
    """So do loads of lines that are on their way, as many as the one that has asked for them (`rows`, four each)."""
    data, out = np.zeros(1 << 18, np.uint32), np.zeros(1, np.uint32)
    result = gpusim.simulate(TURNS[kernel], 1, 32, (data, *map(np.int32, arguments), out), "h200")
    found = result.metrics["l1tex__data_pipe_lsu_wavefronts.sum"] / 4
    assert found == pytest.approx(wavefronts, rel=tolerance, abs=0.3)
