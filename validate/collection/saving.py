"""Run a built program functionally, and save those launches that were counted with all that they read.

python -m validate.collection.saving FILE SYMBOLS EXECUTABLE [ARGUMENT ...]
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gpusim
from gpusim.config import GPUConfig, load_config
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.outputs.replay import Replay
from gpusim.driver.outputs.saved import SavedLaunch, SavedLaunches
from gpusim.driver.work.launches import LaunchCall, Observer
from gpusim.errors import SimulationError
from isa import Program
from isa.cubin import read_cubin
from validate import gpu

_HASHES = re.compile(r"(?<=_)[0-9a-f]{8}(?=_)|(?<=INTERNAL_)[0-9a-f]+(?=_)")
"""Digests of a file's path, which nvcc puts into the names of kernels that are local to the file."""


class NotSaved(RuntimeError):
    """A program did not run, launched something else, or has no launch that is kept; the message says why."""


def plain_symbol(symbol: str) -> str:
    """A mangled name without what depends on where it was compiled."""
    return _HASHES.sub("0", symbol) if "INTERNAL" in symbol or "_GLOBAL__N_" in symbol else symbol


@dataclass(frozen=True)
class FirstLaunches(Telling):
    """Chooses the first launch of each kernel with one of these names, in the form of `plain_symbol`."""

    symbols: Collection[str] = ()
    _first: dict[str, int] = field(default_factory=dict)

    def chooses(self, number: int, symbol: str) -> bool:
        return plain_symbol(symbol) in self.symbols and self._first.setdefault(symbol, number) == number

    def observers(self, config: GPUConfig, mode: str, gpus: Any = None) -> list[Observer]:
        return [*super().observers(config, mode, gpus), _Enough(self)]


class _Enough(Observer):
    """Ends the program once all that is wanted of it has run."""

    def __init__(self, telling: FirstLaunches):
        self._telling = telling

    def launched(self, call: LaunchCall, result: gpusim.Result, cycle: int) -> None:
        if len(self._telling._first) == len(self._telling.symbols):
            os.kill(os.getppid(), signal.SIGTERM)  # which passes it on to the program that it has started


def saved(folder: Path, program: dict[str, Any], symbols: Collection[str], seconds: float) -> Path:
    """The file of the first launches of these kernels, made once. folder: of all built programs; program: an entry of
    its manifest. Raises NotSaved."""
    home = (folder / program["folder"]).resolve()
    what = json.dumps([program["sha256"], program["arguments"], sorted(symbols)])
    path = home / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.launches"
    if path.exists():
        return path
    for old in home.glob("*.launches"):
        old.unlink()
    made = path.with_suffix(".new")
    line = [sys.executable, "-m", "validate.collection.saving", str(made), json.dumps(sorted(symbols))]
    line += [str(home / program["executable"]), *program["arguments"]]
    status, said = gpu.run(line, seconds, home, {"PYTHONPATH": str(Path(gpusim.__file__).parents[1])})
    if status is None:
        made.unlink(missing_ok=True)
        raise NotSaved(f"took more than {seconds:.0f} s to run functionally")
    if not made.exists():
        raise NotSaved(" ".join(said.split())[-160:] or "it launched nothing")
    os.replace(made, path)
    return path


def launches(path: Path) -> dict[str, tuple[SavedLaunch, str]]:
    """Return the launches in a file, each with `isa.Program.code_sha256`, by `plain_symbol` in the order of time.
    Raises SimulationError."""
    found = {}
    with SavedLaunches(str(path)) as file:
        cubins: dict[int, str] = {}
        for step in file.steps():
            cubins |= {module.number: module.cubin for module in step.modules}
            if (it := step.launch) is not None:
                cubin = read_cubin(file.content("cubins", cubins[it.module]))
                program = Program.from_bytes(file.content("programs", it.program), str(path), cubin)
                found[plain_symbol(it.symbol)] = it, program.code_sha256
    return found


class _Result(Observer):
    """Keeps what came of a launch."""

    result: gpusim.Result | None = None

    def launched(self, call: LaunchCall, result: gpusim.Result, cycle: int) -> None:
        self.result = result


def simulate(
    path: Path, number: int, gpu: Any = "h200", *, mode: str = "detailed", threads: int | None = None
) -> gpusim.Result:
    """Run one launch of a file with cold caches. Raises SimulationError."""
    found, telling = _Result(), Telling(first=number, last=number)
    with (
        SavedLaunches(str(path)) as file,
        Replay(file, load_config(gpu), telling, mode=mode, threads=threads) as replay,
    ):
        replay.observers.append(found)
        replay.run()
    if found.result is None:
        raise SimulationError("the kernel failed")
    return found.result


def _main(file: str, symbols: str, *command: str) -> int:
    """Run the program and save its first launches of kernels with these names, as JSON; its status."""
    from gpusim.driver import library  # noqa: F401 - it declares all functions
    from gpusim.driver.state import Driver
    from gpusim.exec.program import run

    telling = FirstLaunches(save=file, symbols=json.loads(symbols))

    def driver(process: int) -> Driver:
        return Driver("h200", mode="functional", telling=replace(telling, process=process))

    return run(list(command), driver, Driver.close).status


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
