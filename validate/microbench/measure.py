"""Run the suite on this machine's GPU: the stored cubins, through CuPy. Compiles nothing and needs NumPy, Numba,
numba-cuda and CuPy alone."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cupy as cp  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np

from gpusim.launch import Launch
from validate import worker
from validate.microbench import images, results, suite
from validate.microbench.bench import BLANK_BYTES, Bench, Case, last_array

_PADDING_BYTES = 13 * 173 * 4096
_SMI = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem"


class _Launch(worker.DeviceKernel):
    """A case of a benchmark on the GPU, with device arrays of its own."""

    def __init__(self, bench: Bench, case: Case) -> None:
        launch = Launch(bench.kernel, case.grid, case.block, case.make(), case.shared_bytes)
        super().__init__(images.cubin_of(bench), launch, BLANK_BYTES)
        self.function.max_dynamic_shared_size_bytes = case.shared_bytes
        self.before = case.before
        self.reset()

    def outcome(self) -> tuple[Any, ...]:
        """The arguments with what the kernel left in the last array."""
        index = last_array(self.launch.args)
        return (*self.launch.args[:index], cp.asnumpy(self.arrays[index]), *self.launch.args[index + 1 :])


def measure(benches: Sequence[Bench], repeats: int, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Every case of every benchmark so many times; the document that `results.py` describes."""
    flush = worker.flush_kernel()
    evict = [_Launch(bench, case) for bench, case in suite.evicting()]
    for _ in range(2000):  # a second or so, for the clocks to rise
        flush.run()
    cp.cuda.runtime.deviceSynchronize()
    found: dict[str, Any] = {}
    for bench in benches:
        cases = {}
        for case in bench.cases:
            found_each = []
            for repeat in range(repeats):
                # Arrays lie elsewhere each time, since slices and channels of L2 and memory go by address.
                padding = cp.empty(1 + repeat * _PADDING_BYTES, cp.uint8)
                launch = _Launch(bench, case)
                found_each.append(case.reduce(_outcome(launch, flush, evict)))
                del launch, padding
                cp.get_default_memory_pool().free_all_blocks()
            cases[case.key] = _spread(found_each)
        found[bench.name] = {"unit": bench.unit, "code_sha256": images.code_of(bench), "cases": cases}
        say(f"{bench.name}: {len(cases)} cases")
    return {"recordings": [_provenance(repeats)], "benches": found}


def _outcome(launch: _Launch, flush: worker.DeviceKernel, evict: Sequence[_Launch]) -> tuple[Any, ...]:
    before = launch.before
    launch.run()
    if before != "same":
        launch.reset()
    if before in ("cold", "other"):
        flush.run()
    if before in ("evicted", "other"):
        for each in evict:
            each.run()
    launch.run()
    cp.cuda.runtime.deviceSynchronize()
    return launch.outcome()


def _spread(found: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Of each number the median, the least and the greatest."""
    rows = {name: [each[name] for each in found] for name in found[0]}
    return {name: [_short(each) for each in (np.median(row), min(row), max(row))] for name, row in rows.items()}


def _short(value: Any) -> float:
    return float(f"{float(value):.6g}")


def _provenance(repeats: int) -> dict[str, Any]:
    line = ["nvidia-smi", f"--query-gpu={_SMI}", "--format=csv,noheader"]
    texts = subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip().split(", ")
    return {
        **worker.device(),
        **dict(zip(_SMI.split(","), texts, strict=True)),
        "numba": version("numba"),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "repeats": repeats,
        "compiled_by": images.index()["tools"],
    }


def main(out: Path, benches: Sequence[Bench], repeats: int) -> int:
    """Measure and write the results."""
    results.write(measure(benches, repeats, lambda text: print(text, file=sys.stderr, flush=True)), out)
    return 0
