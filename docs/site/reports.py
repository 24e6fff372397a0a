"""Reports of bundled programs, simulated while the site is made: pages to open, with source view and stepper."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

REPORTS = {
    "transpose/tiled": "The advice names the line at which 32 lanes meet in one bank; the stepper shows them.",
    "transpose/padded": "The same with a word more in each row: a wavefront for each request.",
    "reduction/interleaved_divergent": "Lanes that drop out of the loop, more of them in each round.",
    "reduction/shuffle": "The last step of that ladder: shuffles between lanes instead of words in shared memory.",
    "matmul/tiled": "Two barriers for each tile: who waits there, and for how long.",
    "divergence/8": "Eight ways through one warp, which run one after the other and meet again.",
    "access/strided": "The map of lanes to sectors: 32 of them for a load, where four would do.",
    "histogram/global_atomics": "Atomics that touch 20 sectors a request, and warps that wait for them.",
    "spmv/csr_scalar": "Rows of unequal length: three lanes of 32 are active in the mean.",
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
