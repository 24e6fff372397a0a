"""Small PTX kernels for tests of single instructions."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from isa import Program, assemble
from isa.listing import programs_from_cubin

_NAMES = {
    "%mine": "x5", "%from": "x4", "%in": "x0", "%out": "x1", "%t,": "t0,", "%t;": "t0;", "%s": "t1", "bar]": "t2]",
}  # fmt: skip


def kernel(body: str, scalars: int = 0, arch: str = "sm_90") -> str:
    """PTX of kernel k(in, out, scalars...), in which every thread has 16 bytes of both arrays and of shared memory.

    %t is the thread, %s the shared address of its 16 bytes, %from and %mine its places in `in` and `out`, [bar] an
    mbarrier, q0... the scalars. Free: t6..t9, v0..v7, x6..x9, st, predicates u, w.
    """
    for name, register in _NAMES.items():
        body = body.replace(name, register)
    parameters = "".join(f",.param .u32 p{k}" for k in range(scalars))
    loads = "".join(f"ld.param.u32 q{k},[p{k}];" for k in range(scalars))
    return f"""
.version 8.5
.target {arch}
.address_size 64
.visible .entry k(.param .u64 pi,.param .u64 po{parameters}) {{
.shared .align 1024 .b8 room[16384];
.shared .align 8 .b64 object;
.reg .b64 x<10>; .reg .b64 st; .reg .b32 t<10>; .reg .b32 v<8>; .reg .b32 q<{max(scalars, 1)}>; .reg .pred u,w;
mov.u32 t0,%tid.x; mov.u32 t1,room; mad.lo.u32 t1,t0,16,t1; mov.u32 t2,object;
ld.param.u64 x0,[pi]; ld.param.u64 x1,[po]; mad.wide.u32 x4,t0,16,x0; mad.wide.u32 x5,t0,16,x1;
{loads}
{body}
ret;
}}
"""


def listed(texts: Iterable[str], arch: str) -> dict[str, Program]:
    """Programs by their PTX, each of which has the entry k behind one and the same head; one file for all of them."""
    texts = list(dict.fromkeys(texts))
    head = texts[0].partition(".visible")[0]
    entries = [text.removeprefix(head).replace(".entry k(", f".entry kernel{n}(", 1) for n, text in enumerate(texts)]
    made = programs_from_cubin(assemble(head + "".join(entries), arch))
    return {text: made[f"kernel{n}"] for n, text in enumerate(texts)}


class Bodies:
    """Kernels of a test file by name, from their bodies; assembled and listed together when the first is asked for."""

    def __init__(self, bodies: Mapping[str, str | tuple[str, int]]):
        self.texts = {name: kernel(*((each,) if isinstance(each, str) else each)) for name, each in bodies.items()}

    def __getitem__(self, name: str) -> Program:
        return self._programs[self.texts[name]]

    @cached_property
    def _programs(self) -> dict[str, Program]:
        return listed(self.texts.values(), "sm_90")
