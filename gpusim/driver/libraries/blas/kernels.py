"""Kernels of the stand-in: compiled for the simulated architecture when first used, and kept on disk."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from gpusim.driver.api.kernel import MAX_DYNAMIC_SHARED
from gpusim.driver.api.launch import describe
from gpusim.driver.codes import DriverError, ResultCode
from gpusim.driver.objects import DEVICE, LoadedKernel
from gpusim.driver.state import Driver
from isa.compile import compile_cuda
from isa.errors import SimulationError
from isa.folders import cache_folder, put_file
from isa.toolchain import identity


def run(
    driver: Driver, stream: int, file: str, name: str, grid: Sequence[int], threads: int, values: bytes,
    shared: int = 0, **macros: Any,
) -> None:  # fmt: skip
    """Launch a kernel, as for `kernel`, in a stream by its handle. values: its parameters. shared: bytes of shared
    memory beside what it declares."""
    found = kernel(driver, file, name, **macros)
    found.attributes[MAX_DYNAMIC_SHARED] = driver.config.sm.shared_bytes_per_block_max
    values = bytes(found.program.parameters[0].offset) + values
    launch = describe(driver, found, grid, (threads, 1, 1), shared, values=values)
    driver.enqueue(driver.stream_of(stream), launch)


def kernel(driver: Driver, file: str, name: str, **macros: str | int) -> LoadedKernel:
    """A kernel of one of this folder's files, called `name` in the table of launches, compiled with these macros and
    loaded in the current context. Raises NOT_SUPPORTED where there is no compiler."""
    context = driver.context()
    loaded = driver.kept.setdefault((__name__, context.handle), {})
    text = text_of(file, {**macros, "NAME": name})
    found = loaded.get(text)
    if found is None or found.module.handle not in context.modules:
        arch = driver.config.gpu.arch + ("a" if "TYPES" in macros else "")  # what no later architecture has
        module = driver.place(_cubin(file, text, arch), [text.encode()] if driver.telling.save else ())
        found = loaded[text] = module.kernel(name)
    return found


def workspace(driver: Driver, stream: int, side: int, nbytes: int) -> int:
    """Memory for a stream's kernels, several by `side`. What is too small stays: a captured graph may use it."""
    spaces: dict[tuple[int, int, int], tuple[int, int]] = driver.kept.setdefault(workspace.__qualname__, {})
    key = driver.context().handle, stream, side
    if key not in spaces or spaces[key][1] < nbytes:
        spaces[key] = driver.allocate(nbytes, DEVICE), nbytes
    return spaces[key][0]


def text_of(file: str, macros: Mapping[str, str | int]) -> str:
    """A file's text behind its macros: as arguments nvcc gives them to a shell, where quotes and commas are lost."""
    return "".join(f"#define {key} {value}\n" for key, value in macros.items()) + f"#line 1\n{_source(file)}"


@cache
def _source(file: str) -> str:
    """A file's text with those that it includes in their places."""
    text = resources.files("gpusim.driver.libraries.blas").joinpath(file).read_text()
    return re.sub(r'#include "(.+)"', lambda found: _source(found[1]), text)


@cache
def _cubin(file: str, text: str, arch: str) -> bytes:
    parts = (text, arch, *map(str, identity("nvrtc")))
    path = cache_folder() / "blas" / (hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32] + ".cubin")
    try:
        return path.read_bytes()
    except OSError:
        pass
    try:
        cubin = compile_cuda(text, arch, path=str(Path(__file__).parent / file))
    except SimulationError as error:
        raise DriverError(ResultCode.NOT_SUPPORTED, f"a kernel of a library cannot be compiled: {error}") from None
    with contextlib.suppress(OSError):  # it is compiled again next time
        put_file(path, cubin)
    return cubin
