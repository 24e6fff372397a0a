"""Run the suite on this machine's GPU: the stored cubins, through CuPy. Compiles nothing and needs NumPy, Numba,
numba-cuda and CuPy alone."""

from __future__ import annotations

import datetime
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cupy as cp  # type: ignore[import-not-found,import-untyped,unused-ignore]
import numpy as np

from validate import abi, worker
from validate.microbench import images, results, suite
from validate.microbench.bench import BLANK_BYTES, Bench, Case, last_array

_SHARED_BYTES = 200 * 1024
"""Dynamic shared memory that kernels may ask for."""
_PADDING_BYTES = 13 * 173 * 4096
_SMI = "driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem"


class _Launch:
    """A case of a benchmark on the GPU, with device arrays of its own."""

    def __init__(self, bench: Bench, case: Case) -> None:
        self.case = case
        self.function = _function(bench.name)
        self.args = case.make()
        self.arrays = [_device_array(value) if isinstance(value, np.ndarray) else None for value in self.args]
        addresses = [None if array is None else array.data.ptr for array in self.arrays]
        self.words = tuple(abi.flatten(self.args, addresses))
        abi.check(self.words, images.cubin_of(bench).parameters)

    def reset(self) -> None:
        """Put the contents of the arrays back in place."""
        for value, array in zip(self.args, self.arrays, strict=True):
            if array is not None and array.nbytes < BLANK_BYTES:
                array.set(value)

    def run(self) -> None:
        self.function((self.case.grid,), (self.case.block,), self.words, shared_mem=self.case.shared_bytes)

    def outcome(self) -> np.ndarray:
        """What the kernel left in its last array."""
        return cp.asnumpy(self.arrays[last_array(self.args)])  # type: ignore[no-any-return]


def _device_array(value: np.ndarray) -> Any:
    if value.nbytes >= BLANK_BYTES:
        return cp.empty(value.shape, value.dtype)
    return cp.asarray(value)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()


@cache
def _function(name: str) -> Any:
    # The file is kept until the process ends, since CuPy opens it when it pleases.
    cubin = images.cubin_of(suite.benches()[name])
    path = Path(_folder().name, f"{cubin.file}.cubin")
    path.write_bytes(cubin.code)
    function = cp.RawModule(path=str(path)).get_function(cubin.symbol)
    function.max_dynamic_shared_size_bytes = _SHARED_BYTES
    return function


def measure(
    benches: Sequence[Bench], repeats: int, raw: dict[str, np.ndarray] | None = None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Every case of every benchmark so many times; the document that `results.py` describes.

    raw: takes what every launch left in its last array, by 'bench|case', [repeats, n].
    """
    flush = worker.flush_kernel()
    evict = [_Launch(bench, case) for bench, case in suite.evicting()]
    for _ in range(2000):  # a second or so, for the clocks to rise
        flush.run()
    cp.cuda.runtime.deviceSynchronize()
    found: dict[str, Any] = {}
    for bench in benches:
        cases = {}
        for case in bench.cases:
            outcomes, found_each = [], []
            for repeat in range(repeats):
                # Arrays lie elsewhere each time, since slices and channels of L2 and memory go by address.
                padding = cp.empty(1 + repeat * _PADDING_BYTES, cp.uint8)
                launch = _Launch(bench, case)
                outcomes.append(_outcome(launch, flush, evict))
                found_each.append(case.reduce(_with(launch.args, outcomes[-1])))
                del launch, padding
                cp.get_default_memory_pool().free_all_blocks()
            cases[case.key] = _spread(found_each)
            if raw is not None:
                raw[f"{bench.name}|{case.key}"] = np.stack(outcomes)
        found[bench.name] = {"unit": bench.unit, "code_sha256": images.code_of(bench), "cases": cases}
        say(f"{bench.name}: {len(cases)} cases")
    return {"recordings": [_provenance(repeats)], "benches": found}


def _outcome(launch: _Launch, flush: worker.Kernel, evict: Sequence[_Launch]) -> np.ndarray:
    before = launch.case.before
    launch.reset()
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


def _with(args: Sequence[Any], outcome: np.ndarray) -> tuple[Any, ...]:
    index = last_array(args)
    return (*args[:index], outcome, *args[index + 1 :])


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
        "arch": images.index()["arch"],
    }


def main(out: Path, benches: Sequence[Bench], repeats: int, raw: Path | None) -> int:
    """Measure and write the results, and the arrays themselves if `raw` is given."""
    arrays: dict[str, np.ndarray] | None = {} if raw else None
    document = measure(benches, repeats, arrays, lambda text: print(text, file=sys.stderr, flush=True))
    results.write(document, out)
    if raw and arrays:
        np.savez_compressed(raw, **arrays)  # type: ignore[arg-type]
    return 0
