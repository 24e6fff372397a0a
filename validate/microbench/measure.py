"""Run the suite on this machine's GPU: the stored cubins. Compiles nothing and needs NumPy and Numba alone."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from gpusim.launch import Launch
from validate import gpu, worker
from validate.microbench import images
from validate.microbench.bench import BLANK_BYTES, CALIBRATED, Bench, Case, evicting, last_array, select

_PADDING_BYTES = 13 * 173 * 4096
_SMI = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem"


class _Launch(worker.DeviceKernel):
    """A case of a benchmark on the GPU, with device arrays of its own."""

    def __init__(self, real: gpu.RealGpu, bench: Bench, case: Case) -> None:
        launch = Launch(bench.kernel, case.grid, case.block, case.make(), case.shared_bytes)
        super().__init__(real, images.program_of(bench), launch, BLANK_BYTES)
        self.before = case.before
        self.reset()

    def outcome(self) -> tuple[Any, ...]:
        """The arguments with what the kernel left in the last array."""
        index = last_array(self.launch.args)
        return (*self.launch.args[:index], self.output(index), *self.launch.args[index + 1 :])


def measure(benches: Sequence[Bench], repeats: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Every case of every benchmark so many times, first of those that calibrate, until the time is over; the document
    that `results.py` describes."""
    real, deadline = gpu.RealGpu(), time.monotonic() + seconds
    flush = worker.flush_kernel(real)
    evict = [_Launch(real, bench, case) for bench, case in evicting()]
    for _ in range(2000):  # a second or so, for the clocks to rise
        flush.run()
    real.synchronize()
    found: dict[str, Any] = {}
    calibrating = {row["bench"] for row in CALIBRATED}
    for bench in sorted(benches, key=lambda each: each.name not in calibrating):
        if time.monotonic() > deadline:
            say(f"{bench.name}: not reached in {seconds:.0f} s")
            continue
        cases = {}
        for case in bench.cases:
            rows = []
            for repeat in range(repeats):
                # Arrays lie elsewhere each time, since slices and channels of L2 and memory go by address.
                padding = real.alloc(1 + repeat * _PADDING_BYTES)
                launch = _Launch(real, bench, case)
                with launch:
                    rows.append(case.reduce(_outcome(launch, flush, evict)))
                real.free(padding)
            cases[case.key] = _spread(rows)
        found[bench.name] = {"unit": bench.unit, "code_sha256": images.code_of(bench), "cases": cases}
        say(f"{bench.name}: {len(cases)} cases")
    return {"recordings": [_provenance(real, repeats)], "benches": found}


def _outcome(launch: _Launch, flush: worker.DeviceKernel, evict: Sequence[_Launch]) -> tuple[Any, ...]:
    before = launch.before
    launch.run()
    if before != "same":
        launch.gpu.synchronize()
        launch.reset()
    if before in ("cold", "other"):
        flush.run()
    if before in ("evicted", "other"):
        for each in evict:
            each.run()
    launch.run()
    launch.gpu.synchronize()
    return launch.outcome()


def _spread(found: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Of each number the median, the least and the greatest."""
    rows = {name: [each[name] for each in found] for name in found[0]}
    return {name: [float(f"{each:.6g}") for each in (np.median(row), min(row), max(row))] for name, row in rows.items()}


def _provenance(real: gpu.RealGpu, repeats: int) -> dict[str, Any]:
    found = gpu.provenance(_SMI)
    about = {"numba": version("numba"), "date": found["date"], "repeats": repeats}
    return {**real.about(), **found["smi"], **about, "compiled_by": images.index()["tools"]}


def command(options: argparse.Namespace) -> int:
    """`validate microbench measure`."""
    say = partial(print, file=sys.stderr, flush=True)
    document = measure(select(options.only), options.repeats, options.seconds, say)
    options.out.write_text(gpu.compact_text(document))
    try:
        from validate.microbench import calibrate
    except ModuleNotFoundError as error:  # it needs more than a machine must have to measure
        say(f"what would change is not told: {error}")
        return 0
    base = calibrate.nearest(document["recordings"][-1])
    print(calibrate.table(calibrate.rows_of(document, base), only_changes=True))
    print(f"python -m validate calibrate --results {options.out} --write my_gpu.toml  # based on {base}")
    return 0
