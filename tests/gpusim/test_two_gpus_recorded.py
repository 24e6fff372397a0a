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


def test_large_collectives_take_what_they_took():
    errors = {}
    for case, recorded in RECORDED["collective_us"].items():
        name, nbytes = case.split("/")
        if int(nbytes) >= LARGE:
            found = collective(name, int(nbytes), 2)
            errors[case] = (found.time_us - found.launch_us) / recorded - 1
    assert len(errors) == 21 and max(map(abs, errors.values())) < 0.08, errors
    assert statistics.mean(map(abs, errors.values())) < 0.035


def test_large_copies_between_peers_take_what_they_took():
    for nbytes, recorded in RECORDED["copy_us"].items():
        if int(nbytes) >= LARGE:
            system = System("hgx_h200", gpus=2)
            system.copy(1, 0, int(nbytes), system.stream(0))
            assert abs(system.run().copies[0].duration_us / recorded - 1) < 0.03


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
