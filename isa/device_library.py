"""Functions that the driver links into a kernel as code: grid-wide barriers of CUDA's device runtime.

`cudaCGSynchronize` in libcudadevrt.a calls functions that are in no file. These here do what that library's header
cooperative_groups.h does inline: the first thread of every block adds to a counter in the grid's workspace, block 0 so
much that the sum of all changes the counter's top bit, and waits until that bit has changed. Environment registers 1
and 2 hold the workspace's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from isa.assemble import assemble
from isa.cubin import Cubin, CubinKernel, read_cubin

NAMES = frozenset({"__cuda_syscall_CGS_get_intrinsic_handle", "__cuda_syscall_CGS_sync"})

_PTX = Path(__file__).with_suffix(".ptx").read_text()


@lru_cache(maxsize=8)
def device_library(arch: str) -> tuple[bytes, Mapping[str, CubinKernel]]:
    """The functions for an architecture, as an object file and as its code sections by name. Raises ToolchainMissing
    (there is no ptxas)."""
    number = int("".join(filter(str.isdigit, arch)))
    text = _PTX.replace("VERSION", "8.8" if number >= 100 else "7.8").replace("ARCH", arch)
    data = assemble(text, arch, path="the device library", relocatable=True)
    return data, read_cubin(data, "the device library").functions


def added_to(cubin: Cubin) -> Cubin:
    """The cubin with those of the functions that it calls. Raises ToolchainMissing."""
    if not cubin.externals & NAMES:
        return cubin
    functions = device_library(cubin.arch)[1]
    wanted = {name: section for name, section in functions.items() if name in cubin.externals}
    inside = {name: (home, at) for home, section in wanted.items() for name, at in section.functions.items()}
    return replace(
        cubin,
        functions={**cubin.functions, **wanted},
        places={**cubin.places, **inside},
        code_bytes={**cubin.code_bytes, **{name: len(section.code) for name, section in wanted.items()}},
        externals=cubin.externals - wanted.keys(),
    )
