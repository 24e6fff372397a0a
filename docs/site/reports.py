"""Reports of bundled programs, simulated while the site is made: pages to open, with source view and stepper."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

REPORTS = {
    "transpose/tiled": "The advice names the line whose 32 lanes meet in one bank; the stepper shows them.",
    "transpose/padded": "The same with a word more in each row: no conflict, and what then limits it.",
    "reduction/interleaved_divergent": "Lanes that drop out one after the other, step by step.",
    "reduction/shuffle": "The last of that ladder, without shared memory between lanes.",
    "matmul/tiled": "A barrier before and after each tile: who waits, and for what.",
    "divergence/8": "Eight ways through one warp, which run one after the other and meet again.",
    "access/strided": "A sector of 32 bytes for each word: the map of lanes to lines.",
    "histogram/global_atomics": "Atomics that queue at the slices of L2.",
    "spmv/csr_scalar": "Rows of unequal length, gathered words.",
    "matmul_hopper/wgmma": "Copies by TMA beside products on the tensor cores.",
}
"""Program: what to look at in its report."""


def file_of(program: str) -> str:
    """The page's name in the site's folder `reports`."""
    return program.replace("/", "-") + ".html"


def write(folder: Path) -> None:
    """Simulate every program and write its page into `folder`. Raises RuntimeError if one goes wrong."""
    from gpusim.cli import main

    folder.mkdir(parents=True, exist_ok=True)
    for program in REPORTS:
        with contextlib.redirect_stdout(io.StringIO()):
            code = main(["run", program, "--no-progress", "--report", str(folder / file_of(program))])
        if code:
            raise RuntimeError(f"gpusim run {program} ends with {code}")
