"""Functions that the driver links into a kernel as code: grid-wide barriers of CUDA's device runtime.

`cudaCGSynchronize` in libcudadevrt.a calls functions that are in no file. These here do what that library's header
cooperative_groups.h does inline: the first thread of every block adds to a counter in the grid's workspace, block 0 so
much that the sum of all changes the counter's top bit, and waits until that bit has changed. Environment registers 1
and 2 hold the workspace's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from isa.assemble import assemble
from isa.cubin import Cubin, CubinKernel, read_cubin
from isa.link import with_functions

NAMES = frozenset({"__cuda_syscall_CGS_get_intrinsic_handle", "__cuda_syscall_CGS_sync"})

_PTX = """
.version {version}
.target {arch}
.address_size 64

.visible .func (.param .b64 handle) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope)
{{
    .reg .b32 high, low;
    .reg .b64 both;
    mov.u32 high, %envreg1;
    mov.u32 low, %envreg2;
    mov.b64 both, {{low, high}};
    st.param.b64 [handle], both;
    ret;
}}

.visible .func (.param .b32 status) __cuda_syscall_CGS_sync(.param .b64 handle)
{{
    .reg .b64 workspace;
    .reg .b32 part, any, blocks, step, before, now;
    .reg .pred other, waits;
    ld.param.b64 workspace, [handle];
    bar.sync 0;
    mov.u32 any, %tid.x;
    mov.u32 part, %tid.y;
    or.b32 any, any, part;
    mov.u32 part, %tid.z;
    or.b32 any, any, part;
    setp.ne.u32 other, any, 0;
    @other bra together;
    mov.u32 blocks, %nctaid.x;
    mov.u32 part, %nctaid.y;
    mul.lo.u32 blocks, blocks, part;
    mov.u32 part, %nctaid.z;
    mul.lo.u32 blocks, blocks, part;
    sub.u32 step, 0x80000001, blocks;
    mov.u32 any, %ctaid.x;
    mov.u32 part, %ctaid.y;
    or.b32 any, any, part;
    mov.u32 part, %ctaid.z;
    or.b32 any, any, part;
    setp.ne.u32 other, any, 0;
    selp.u32 step, 1, step, other;
    fence.acq_rel.gpu;
    atom.relaxed.gpu.global.add.u32 before, [workspace+4], step;
again:
    ld.acquire.gpu.global.u32 now, [workspace+4];
    xor.b32 now, now, before;
    setp.ge.s32 waits, now, 0;
    @waits bra again;
together:
    bar.sync 0;
    st.param.b32 [status], 0;
    ret;
}}
"""


@lru_cache(maxsize=8)
def device_library(arch: str) -> tuple[bytes, Mapping[str, CubinKernel]]:
    """The functions for an architecture, as an object file and as its code sections by name.

    Raises:
        ToolchainMissing: there is no ptxas.
    """
    number = int("".join(filter(str.isdigit, arch)))
    text = _PTX.format(arch=arch, version="8.8" if number >= 100 else "7.8")
    data = assemble(text, arch, path="the device library", relocatable=True)
    return data, read_cubin(data, "the device library").functions


def added_to(cubin: Cubin) -> Cubin:
    """The cubin with those of the functions that it calls. Raises ToolchainMissing."""
    return with_functions(cubin, device_library(cubin.arch)[1]) if cubin.externals & NAMES else cubin
