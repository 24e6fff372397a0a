"""The libraries that a program under `gpusim exec` loads: a stub for each function, and `client.c` in the first.

They are compiled once, by the machine's C compiler, and kept in the cache folder under a digest of their sources. Kept
there as well is a folder laid out as a CUDA toolkit, made of links into the vendor's wheels beside this interpreter.
These have compiler, headers and libraries, but no `lib64`, and their libraries have no names without a version, such as
`libcudart.so`, which linkers look for. nvcc finds everything relative to the folder from which it is called.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from gpusim.driver.exports import DRIVER, LIBRARIES, Library, declare_all
from gpusim.driver.registry import EntryPoint, registers, signatures
from gpusim.errors import SimulationError
from gpusim.exec.wire import PROTOCOL, REGISTERS
from isa.folders import cache_folder
from isa.toolchain import find_tool, library_folders

declare_all()
_GIVES_TEXT, _REGISTERS = 1 << 30, 1 << 29  # client.c
_OTHER_NAMES = {DRIVER: "libcuda.so", "libcudart.so.13": "libcudart.so"}  # without a version, as programs open them


class NoCompiler(SimulationError):
    """There is no C compiler for the libraries."""


@cache
def functions() -> tuple[EntryPoint, ...]:
    """Return the entry point of each function of all libraries, by the number that its stub sends."""
    return tuple(library.point(symbol) for library in LIBRARIES.values() for symbol in library.symbols)


def _stubs(library: Library, first: int) -> str:
    """Assembly of a library's functions, numbered from `first`."""
    rows = ['#include "enter.S"']
    for number, symbol in enumerate(library.symbols, first):
        point = library.point(symbol)
        number |= _GIVES_TEXT if point.gives_text else 0
        number |= _REGISTERS if registers(symbol) else 0
        rows.append(f"stub {symbol} {number}")
    return "\n".join([*rows, ""])


def library_folder() -> Path:
    """The folder with the libraries, compiled if they are not there. Raises SimulationError."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in REGISTERS:
        raise SimulationError(f"gpusim exec needs Linux on {' or '.join(REGISTERS)}, not {sys.platform} on {machine}")
    own = {name: resources.files("gpusim.exec").joinpath(name).read_text() for name in ("client.c", "enter.S")}
    stubs, first = {}, 0
    for soname, library in LIBRARIES.items():
        stubs[soname] = _stubs(library, first)
        first += len(library.symbols)
    parts = [str(PROTOCOL), *own.values(), *stubs, *stubs.values(), *_OTHER_NAMES.values(), signatures()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder = kept_folder("exec", digest, "libraries", lambda made: _compile(made, own, stubs))
    _check(folder)
    return folder


def kept_folder(kind: str, digest: str, what: str, fill: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled and put in its place at once if it is not there. what: its contents, for messages.
    Raises SimulationError where it cannot be made."""
    folder = cache_folder().absolute() / kind / digest
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as room:
                made = Path(room, digest)
                made.mkdir()
                fill(made)
                made.rename(folder)
        except OSError as error:
            if not folder.exists():  # another process was faster
                words = f"cannot make the {what} in {folder}: {error.strerror}"
                raise SimulationError(f"{words}; GPUSIM_CACHE_DIR names another folder for them") from None
    return folder


def _check(folder: Path) -> None:
    """Raises SimulationError for a folder that programs cannot load libraries from, or should not."""
    if re.search(r"[\s:;$]", str(folder)):
        raise SimulationError(
            f"programs cannot load libraries from {folder}, for the space, ':', ';' or '$' in its name; "
            "GPUSIM_CACHE_DIR names another folder for them"
        )
    for each in (folder, *folder.parents[:2]):
        state = each.stat()
        of_others = state.st_uid not in (0, os.getuid())
        if of_others or (state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX):
            raise SimulationError(
                f"the libraries that programs would load from {folder} could be another user's, as {each} "
                f"{'is' if of_others else 'can be written by all'}; GPUSIM_CACHE_DIR names another folder for them"
            )


def _compile(folder: Path, own: dict[str, str], stubs: dict[str, str]) -> None:
    """Make each library of its stubs, the first with the client. own: this package's sources, by their names."""
    compiler = _compiler()
    for name, text in own.items():
        (folder / name).write_text(text)
    for soname, text in stubs.items():
        (folder / "stubs.S").write_text(text)
        command = [*compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", soname, f"-Wl,-soname,{soname}", "stubs.S"]
        if soname == DRIVER:
            command += ["-fvisibility=hidden", f"-DGPUSIM_PROTOCOL={PROTOCOL}", "client.c", "-pthread", "-ldl"]
        else:
            command += ["-nostdlib", "-L.", f"-l:{DRIVER}"]
        if LIBRARIES[soname].versioned:
            (folder / "version").write_text(f"{soname} {{ *; }};\n")
            command.append("-Wl,--version-script=version")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SimulationError(f"{compiler[0]} cannot make {soname}: {done.stderr.strip()[:500]}")
        if soname in _OTHER_NAMES:
            os.symlink(soname, folder / _OTHER_NAMES[soname])
    (folder / "signatures").write_text(signatures())  # for modules in CuPy's place
    for name in (*own, "stubs.S", "version"):
        (folder / name).unlink(missing_ok=True)


def _compiler() -> list[str]:
    """The machine's C compiler, or the one that the PyPI package `ziglang` brings."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return [name]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise NoCompiler(
        "gpusim exec needs a C compiler once, for the libraries that programs load: install gcc or clang, or the "
        "Python package ziglang"
    )


_PARTS = {"nvcc": "bin/nvcc", "the CUDA runtime's headers": "include/cuda_runtime.h", "nvvm": "nvvm/bin/cicc"}
_NVCC = """#!/bin/sh
case " $*" in
*" -cudart"* | *" --cudart"*) ;;
*) export NVCC_PREPEND_FLAGS="--cudart shared $NVCC_PREPEND_FLAGS" ;;
esac
exec "$(dirname "$0")/../vendor/nvcc" "$@"
"""


def toolkit_folder() -> Path:
    """The folder, which `$CUDA_HOME` may name: bin, include, lib, lib64 and nvvm. It is made when it is not there.

    Its `bin/nvcc` links the shared runtime unless its arguments choose another, so makefiles and CMake do as well.
    Libraries of the vendor's that are not installed, such as cuBLAS, are those that `gpusim exec` puts in their place.
    Raises SimulationError if a part of the tool chain is missing, ToolchainMissing without nvcc.
    """
    compiler = Path(find_tool("nvcc"))
    root = compiler.parent.parent
    for name, part in _PARTS.items():
        if not (root / part).exists():
            raise SimulationError(
                f"{name} is not in {root}; install the parts of one release: "
                "pip install 'cuda-toolkit[cccl,crt,cudart,nvcc,nvvm]==13.*'"
            )
    libraries = {**_libraries(library_folder()), **_libraries(*map(Path, library_folders()))}
    links = {path: root / path for path in ("include", "nvvm")}
    own = root / "vendor"  # $CUDA_HOME names such a folder already
    tools = sorted((own if own.is_dir() else compiler.parent).iterdir())
    links |= {f"{folder}/{each.name}": each for each in tools for folder in ("bin", "vendor")}
    links |= {f"lib64/{name}": path for name, path in libraries.items()}
    del links["bin/nvcc"]
    digest = hashlib.sha256("\0".join([_NVCC, *(f"{name}\0{path}" for name, path in sorted(links.items()))]).encode())

    def link(made: Path) -> None:
        for name, path in links.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).symlink_to(path)
        (made / "lib").symlink_to("lib64")
        (made / "bin" / "nvcc").write_text(_NVCC)
        (made / "bin" / "nvcc").chmod(0o755)

    return kept_folder("toolkit", digest.hexdigest()[:16], "links", link)


def _libraries(*folders: Path) -> dict[str, Path]:
    """Libraries by each name under which a linker may look for them."""
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("lib*.*"), reverse=True):  # the newest release first
            found[path.name] = path
            found.setdefault(re.sub(r"\.so[.\d]+$", ".so", path.name), path)
    return found
