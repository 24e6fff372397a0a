"""Every variant against its NumPy reference, under Numba's CUDA simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from programs import registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report() -> dict[str, str | None]:
    """What the simulator says of each variant, from one process for all of them."""
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    runner = Path(__file__).with_name("cudasim_runner.py")
    done = subprocess.run(
        [sys.executable, str(runner)], env=env, cwd=ROOT, capture_output=True, text=True, timeout=540
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", registry.names())
def test_matches_reference(report: dict[str, str | None], name: str) -> None:
    assert report[name] is None
