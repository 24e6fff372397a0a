"""Kernel traces for Accel-Sim: a folder with `kernelslist.g`, and a file for each launch. See docs/traces.md.

    traces = AccelSimTraces("folder")
    gpusim.simulate(kernel, grid, block, args, mode="functional", accel_sim=traces)

Every launch is executed without time, since such a trace has none. `accel_lines` says what is written of an
instruction, `accel_launch` writes it and puts blocks together.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from gpusim.engine.sm.space import LOCAL_WINDOW, SHARED_WINDOW
from gpusim.errors import TraceError
from gpusim.launch import Launch
from gpusim.launch.arguments import BoundArguments
from gpusim.tracing import BINARY_VERSIONS
from gpusim.tracing.accel_launch import AccelSimLaunch, writing
from gpusim.tracing.accel_lines import Lines, binary_version, lines_of
from isa import Program

LIST = "kernelslist.g"
_HEADER = Path(__file__).with_name("accel_sim_header.txt").read_text()


def empty_folder(folder: Path) -> None:
    """Make a folder if there is none. Raises TraceError if that cannot be, or if there is something in it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if next(folder.iterdir(), None) is not None:
            raise TraceError(f"{folder} is not empty; traces go to a folder of their own")


class AccelSimTraces:
    """Writes every launch and every copy to the device that it is told of.

    folder: is made; it may exist if it is empty. binary: version of machine code whose table of opcodes the reader is
    to use, one of BINARY_VERSIONS; None for the kernel's own. `kernels`, `copies`, `instructions` and `nbytes` say what
    has been written, `seconds` how long that and its execution took; `stream` is the handle of the stream that launches
    are in from now on.

    Raises TraceError, here and later, if something cannot be written.
    """

    def __init__(self, folder: str | Path, *, binary: int | None = None):
        if binary is not None and binary not in BINARY_VERSIONS:
            names = ", ".join(map(str, BINARY_VERSIONS))
            raise TraceError(f"Accel-Sim has no opcodes of binary version {binary}; there are {names}")
        self.folder = Path(folder)
        self.kernels = self.copies = self.instructions = self.nbytes = 0
        self.seconds = 0.0
        self.stream = 0
        self._binary = binary
        self._lines: dict[Hashable, Lines] = {}
        empty_folder(self.folder)
        self._list("x", "")

    def memcpy_htod(self, address: int, nbytes: int) -> None:
        """Memory of the device gets so many bytes from the host."""
        self._list("a", f"MemcpyHtoD,0x{address:016x},{nbytes}\n")
        self.copies += 1

    def arguments(self, placed: BoundArguments) -> None:
        """Arguments of a launch have been copied."""
        for address in placed.owned:
            if (allocation := placed.memory.holding(address)) is not None:
                self.memcpy_htod(address, allocation.nbytes)

    @contextmanager
    def launch(
        self, program: Program, launch: Launch, par: np.ndarray, together: bool = False
    ) -> Iterator[AccelSimLaunch]:
        """The taker of a launch's log while it runs, for the engine. par, together: as for `AccelSimLaunch`."""
        binary = self._binary or binary_version(program.arch)
        key = program.sha256, program.symbol, binary
        if key not in self._lines:
            self._lines[key] = lines_of(program, binary)
        lines = self._lines[key]
        number = self.kernels + 1
        name = f"kernel-{number}.traceg"
        header = _HEADER.format(
            name=program.symbol,
            number=number,
            grid=",".join(map(str, launch.grid)),
            block=",".join(map(str, launch.block)),
            shared=program.static_shared_bytes + launch.shared_bytes,
            registers=program.registers,
            binary=binary,
            stream=self.stream,
            SHARED_WINDOW=SHARED_WINDOW,
            LOCAL_WINDOW=LOCAL_WINDOW,
        )
        path = self.folder / name
        with writing(self.folder):
            out = path.open("wb")  # closed below, where that may fail
        taken = AccelSimLaunch(out, lines, program, par, together, self.folder)
        try:
            with writing(self.folder):
                out.write(header.encode())
            yield taken
            with writing(self.folder):
                out.close()
            self.seconds += time.perf_counter() - taken.started
        except BaseException:
            with suppress(OSError):
                out.close()
            path.unlink(missing_ok=True)
            raise
        self.kernels, self.instructions = number, self.instructions + taken.instructions
        self.nbytes += path.stat().st_size
        self._list("a", f"{name}\n")

    def _list(self, mode: str, line: str) -> None:
        with writing(self.folder), (self.folder / LIST).open(mode) as file:
            file.write(line)
