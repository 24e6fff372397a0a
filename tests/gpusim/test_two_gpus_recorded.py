"""What two H200s computed and took of PyTorch's programs (`data/two_gpus.py`), against the stand-in for NCCL and the
model of the links. `data/nccl_sums.npz` has what was summed, as PyTorch's generator draws it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpusim import collective
from gpusim.driver.libraries.nccl.calls import BFLOAT16, FLOAT, HALF, RankCall, move
from gpusim.launch.memory import DeviceMemory
from gpusim.node import System
from tests.house import ROOT

DATA = Path(__file__).with_name("data")
RECORDED = json.loads((DATA / "two_gpus_h200.json").read_text())
KINDS = {"f4": FLOAT, "f2": HALF, "bf16": BFLOAT16, "i4": 2}
OPERATIONS = {"sum": 0, "max": 2, "avg": 4}
LARGE = 64 << 20
SHOWN = (64 << 10, 1 << 20, 16 << 20, 256 << 20)


@pytest.mark.parametrize("what", RECORDED["sums"])
def test_sums_are_those_of_the_hardware_bit_for_bit(what):
    kind, operation = what.split()
    inputs, memory = np.load(DATA / "nccl_sums.npz"), DeviceMemory(1 << 20)
    sent = [memory.upload(inputs[f"{kind}_{rank}"]) for rank in range(2)]
    count, nbytes = inputs[f"{kind}_0"].size, inputs[f"{kind}_0"].nbytes
    how = count, KINDS[kind], OPERATIONS[operation]
    move(memory, [RankCall("all_reduce", address, address, *how) for address in sent])
    for address in sent:
        assert hashlib.sha256(memory.view(address, nbytes).tobytes()).hexdigest() == RECORDED["sums"][what]


def simulated_us(name: str, nbytes: int) -> float:
    """Microseconds of a copy from one GPU to the other, or of a collective's kernels."""
    if name == "copy":
        system = System("hgx_h200", gpus=2)
        system.copy(1, 0, nbytes, system.stream(0))
        return system.run().copies[0].duration_us
    return collective(name, nbytes, 2).kernel_us


def compared(least: int) -> dict[tuple[str, int], tuple[float, float]]:
    """What was recorded and what is simulated of so many bytes or more, by name and bytes."""
    cases = RECORDED["collective_us"] | {f"copy/{nbytes}": each for nbytes, each in RECORDED["copy_us"].items()}
    split = {(case.split("/")[0], int(case.split("/")[1])): recorded for case, recorded in cases.items()}
    return {case: (recorded, simulated_us(*case)) for case, recorded in split.items() if case[1] >= least}


def table() -> str:
    """Microseconds as recorded and as simulated."""
    sizes = SHOWN
    rows = ["".ljust(16) + "".join(f"{nbytes >> 10:,} KiB".rjust(20) for nbytes in sizes)]
    found = compared(sizes[0])
    for name in dict.fromkeys(name for name, _ in found):
        cells = ("{:,.1f} {:,.1f}".format(*found[name, nbytes]) for nbytes in sizes)
        rows.append(name.ljust(16) + "".join(cell.rjust(20) for cell in cells))
    return "\n".join(rows)


def test_large_collectives_take_what_they_took():
    found = {case: both for case, both in compared(LARGE).items() if case[0] != "copy"}
    errors = {case: simulated / recorded - 1 for case, (recorded, simulated) in found.items()}
    assert len(errors) == 21 and max(map(abs, errors.values())) < 0.08, errors
    assert statistics.mean(map(abs, errors.values())) < 0.035


def test_large_copies_between_peers_take_what_they_took():
    found = [both for case, both in compared(LARGE).items() if case[0] == "copy"]
    assert len(found) == 5
    assert all(abs(simulated / recorded - 1) < 0.03 for recorded, simulated in found)


def test_the_document_shows_the_table():
    assert table() in (ROOT / "docs" / "several_gpus.md").read_text("utf-8"), (
        "python -m tests.gpusim.test_two_gpus_recorded"
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("way", RECORDED["training"])
def test_training_computes_what_it_computed(way, tmp_path):
    """To six digits: the library adds up in another order than its stand-in."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(DATA / "two_gpus.py")]
    command = [sys.executable, "-m", "gpusim.cli", "exec", "--gpus", "2", "--functional", *launcher]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, str(tmp_path), way], check=True, env=environment, timeout=600)
    for rank in range(2):
        told = json.loads((tmp_path / f"two_gpus_{rank}.json").read_text())[way]
        for name, values in told.items():
            np.testing.assert_allclose(values, RECORDED["training"][way][name][rank], rtol=1e-6)


if __name__ == "__main__":
    print(table())
