"""The ways between SMs and L2, and what lasts over launches in the instruction caches, beside an H200's.

`data/ways_h200.json` has what groups of SMs that work alone take, and kernels that run after others.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import gpusim
from gpusim import load_config
from gpusim.engine.memory.place import CPC, GPC, place_of
from gpusim.engine.memory.system import MemorySystem
from tests.gpusim.kernels import Kernels

DATA = Path(__file__).parent / "data"
RECORDED = json.loads((DATA / "ways_h200.json").read_text())
KERNELS = Kernels((DATA / "ways.cu").read_text(), "sm_90")
LINES, SMS = 512, 132


ALL = "SM", "TPC", "CPC", "GPC", "all"
HELD = (  # the greatest distance
    ("store_line", ALL, 0.15),
    ("store_sector", ALL, 0.25),
    ("store_word", ALL[:-1], 0.3),  # where all do again and again, known_gaps.md
    ("reduce_word", ALL, 0.2),
    ("load_line", ("GPC", "all"), 0.1),
    ("load_sector", ("all",), 0.2),
)


def sms_of(group: str) -> list[int]:
    """SMs of a group of `ALL`, that of SM 20."""
    system = MemorySystem(load_config("h200"), SMS).state
    gpc = [sm for sm in range(SMS) if place_of(system, sm, GPC) == place_of(system, 20, GPC)]
    cpc = [sm for sm in gpc if place_of(system, sm, CPC) == place_of(system, 20, CPC)]
    return {"SM": [20], "TPC": [20, 21], "CPC": cpc, "GPC": gpc, "all": list(range(SMS))}[group]


@pytest.fixture(scope="module")
def device():
    return gpusim.Device("h200")


@pytest.mark.parametrize(("kernel", "groups", "near"), HELD)
def test_what_sms_hold_each_other_up_by(device, kernel, groups, near):
    memory = device.to_device(np.zeros(SMS * LINES * 32, np.float32))
    took = device.to_device(np.zeros(SMS, np.uint32))
    off = {}
    for name in groups:
        sms = sms_of(name)
        chosen = device.to_device(np.isin(np.arange(SMS), sms).astype(np.uint8))
        threads = 1024 if kernel.startswith("load") else 512
        cycles = []
        for rounds in (1, 2, 6):  # the first brings the lines near
            device.launch(KERNELS[kernel], SMS, threads, [memory, np.int32(LINES), np.int32(rounds), chosen, took])
            cycles.append(took.copy_to_host()[sms].mean())
        off[name] = (cycles[2] - cycles[1]) / 4 / LINES / RECORDED["ways"][kernel][name] - 1
    assert max(map(abs, off.values())) < near, off


@pytest.mark.parametrize("size", ["16", "32", "96"])
def test_a_kernel_finds_its_code_in_the_caches_where_no_other_has_pushed_it_out(device, size):
    took, out = device.to_device(np.zeros(SMS, np.uint32)), device.to_device(np.zeros(1, np.float32))
    cycles = {}
    for after in ("again", "2", "32", "64"):
        device.launch(KERNELS[f"straight_{size}"], SMS, 32, [took, out])
        if after != "again":
            device.launch(KERNELS[f"other_{after}"], SMS, 32, [took, out])
        device.launch(KERNELS[f"straight_{size}"], SMS, 32, [took, out])
        cycles[after] = float(np.median(took.copy_to_host()))
    assert cycles == pytest.approx({after: RECORDED["code"][size][after] for after in cycles}, rel=0.16)


@pytest.mark.parametrize("blocks", ["25", "75"])
def test_loads_wait_behind_the_stores_of_their_sm(blocks):
    """Beside reading alone, in 32 rounds; a store that nothing waits for would add a sixth of that.

    In the mean of four places in memory: by place 25 SMs take 0.8 to 1.0 us more, and an H200 1.3. The last stores are
    on their way beside the fence at the end, which reading has as well: 0.06 us less than if it waited for them.
    """
    device, cycles = gpusim.Device("h200"), {"update": 0.0, "read": 0.0}
    for memory in [device.to_device(np.zeros(75 * 65536, np.float32)) for _ in range(4)]:
        for kernel in cycles:
            for _ in range(2):
                result = device.launch(KERNELS[kernel], int(blocks), 512, [memory, np.int32(16384)])
            cycles[kernel] += result.record.cycles / 4
    update, read, _ = RECORDED["update"][blocks]
    assert (cycles["update"] - cycles["read"]) / 1980 == pytest.approx(update - read, rel=0.35)
