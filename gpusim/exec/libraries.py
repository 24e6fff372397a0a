"""The libraries that a program under `gpusim exec` loads: a stub for each function, and `client.c` in the first.

They are compiled once, by the machine's C compiler, and kept in the cache folder under a digest of their sources.
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
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from gpusim.driver.exports import DRIVER, LIBRARIES, Library
from gpusim.driver.registry import EntryPoint, registers
from gpusim.errors import SimulationError
from gpusim.exec.wire import PROTOCOL, REGISTERS
from isa.folders import cache_folder

_GIVES_TEXT, _REGISTERS = 1 << 30, 1 << 29  # client.c
_OTHER_NAMES = {DRIVER: "libcuda.so", "libcudart.so.13": "libcudart.so"}
"""Names without a version that programs open, by the library that they mean."""

_ENTER = {
    "x86_64": """
gpusim_enter:
    pushq %rbp
    movq %rsp, %rbp
    subq $48, %rsp
    movq %rdi, (%rsp)
    movq %rsi, 8(%rsp)
    movq %rdx, 16(%rsp)
    movq %rcx, 24(%rsp)
    movq %r8, 32(%rsp)
    movq %r9, 40(%rsp)
    movl %r11d, %edi
    movq %rsp, %rsi
    leaq 16(%rbp), %rdx
    call gpusim_call@PLT
    leave
    ret
.macro stub name number
.globl \\name
.type \\name, @function
\\name:
    movl $\\number, %r11d
    jmp gpusim_enter
.endm
""",
    "aarch64": """
gpusim_enter:
    stp x29, x30, [sp, #-80]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    mov w0, w16
    add x1, sp, #16
    add x2, sp, #80
    bl gpusim_call
    ldp x29, x30, [sp], #80
    ret
.macro stub name number
.globl \\name
.type \\name, %function
\\name:
    movz w16, #(\\number & 0xffff)
    movk w16, #(\\number >> 16), lsl #16
    b gpusim_enter
.endm
""",
}
"""What all stubs of a library jump to: it puts the registers that pass arguments into memory."""


@cache
def functions() -> tuple[EntryPoint, ...]:
    """What answers each function of all libraries, by the number that its stub sends."""
    return tuple(library.point(symbol) for library in LIBRARIES.values() for symbol in library.symbols)


def _stubs(library: Library, first: int, machine: str) -> str:
    """Assembly of a library's functions, numbered from `first`."""
    rows = [".text", _ENTER[machine]]
    for number, symbol in enumerate(library.symbols, first):
        point = library.point(symbol)
        number |= _GIVES_TEXT if point.gives_text else 0
        number |= _REGISTERS if registers(symbol) else 0
        rows.append(f"stub {symbol} {number}")
    return "\n".join([*rows, '.section .note.GNU-stack,"",%progbits', ""])


def library_folder() -> Path:
    """The folder with the libraries, compiled if they are not there. Raises SimulationError."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in REGISTERS:
        raise SimulationError(
            f"gpusim exec needs Linux on {' or '.join(REGISTERS)}, not {sys.platform} on {machine}"
        )
    client = resources.files("gpusim.exec").joinpath("client.c").read_text()
    sources, first = {}, 0
    for soname, library in LIBRARIES.items():
        sources[soname] = _stubs(library, first, machine)
        first += len(library.symbols)
    parts = [str(PROTOCOL), client, *sources, *sources.values(), *_OTHER_NAMES.values()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder = cache_folder().absolute() / "exec" / digest
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as room:
                made = Path(room, digest)
                made.mkdir()
                _compile(made, client, sources, machine)
                made.rename(folder)
        except OSError as error:
            if not folder.exists():  # another process was faster
                what = f"cannot make the libraries in {folder}: {error.strerror}"
                raise SimulationError(f"{what}; GPUSIM_CACHE_DIR names another folder for them") from None
    _check(folder)
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


def _compile(folder: Path, client: str, sources: dict[str, str], machine: str) -> None:
    compiler = _compiler()
    (folder / "client.c").write_text(client)
    for soname, stubs in sources.items():
        (folder / "stubs.s").write_text(stubs)
        command = [*compiler, "-shared", "-fPIC", "-O2", "-Wall", "-o", soname, f"-Wl,-soname,{soname}", "stubs.s"]
        if soname == DRIVER:
            command += ["-fvisibility=hidden", f"-DGPUSIM_REGISTERS={REGISTERS[machine]}"]
            command += [f"-DGPUSIM_PROTOCOL={PROTOCOL}", "client.c", "-pthread", "-ldl"]
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
    for name in ("client.c", "stubs.s", "version"):
        (folder / name).unlink(missing_ok=True)


def _compiler() -> list[str]:
    """The machine's C compiler, or the one that the PyPI package `ziglang` brings."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        if name and shutil.which(name):
            return [name]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise SimulationError(
        "gpusim exec needs a C compiler once, for the libraries that programs load: install gcc or clang, or the "
        "Python package ziglang"
    )
