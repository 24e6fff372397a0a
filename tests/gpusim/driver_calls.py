"""Calls of the driver's functions as C makes them, in this process and without a library."""

from __future__ import annotations

import ctypes
from typing import Any

import gpusim.driver.library  # noqa: F401 - it declares the functions
from gpusim.driver.exports import LIBRARIES
from gpusim.driver.registry import answer
from gpusim.driver.state import Driver

PTX = """
.version 8.0
.target sm_80
.address_size 64
.global .align 8 .u64 counter;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry put(.param .u64 p, .param .u32 value) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [p]; ld.param.u32 %v, [value]; st.global.u32 [%p], %v; ret;
}
.visible .entry bump(.param .u64 p) {
  .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [p]; atom.global.add.u32 %v, [%p], 1; ret;
}
.visible .entry kept(.param .u64 p) {
  .shared .align 4 .b8 room[1000]; .reg .b64 %p; .reg .b32 %v;
  ld.param.u64 %p, [p]; ld.shared.u32 %v, [room]; st.global.u32 [%p], %v; ret;
}
.visible .entry bounded() .maxntid 128, 1, 1 { ret; }
"""
PTX_90 = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry clustered() .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }
"""


class Calls:
    """A driver with a context, and its functions by name: `calls("cuMemFree_v2", address)` is what C gets."""

    def __init__(
        self, gpu: str = "tiny", library: str = "libcuda.so.1", mode: str = "functional", gpus: int = 1, **how: Any
    ) -> None:
        self.driver = Driver(gpu, threads=1, mode=mode, memory_bytes=1 << 30, gpus=gpus, **how)
        self._library = LIBRARIES[library]
        self._kept: list[Any] = []
        self("cuInit", 0)
        self.context = self.handle("cuDevicePrimaryCtxRetain", 0)
        self("cuCtxSetCurrent", self.context)

    def __call__(self, name: str, *arguments: Any) -> int:
        """arguments: integers as they are; anything of ctypes, and bytes, by their address."""
        of = LIBRARIES["libcudart.so.13"] if name.startswith(("cuda", "__cuda")) else self._library
        point = of.point(name)
        passed = arguments[: len(point.letters)]  # of a function that is refused, none
        return answer(self.driver, point, [self.address(each) for each in passed])

    def address(self, argument: Any) -> Any:
        if isinstance(argument, bytes | str):
            data = argument.encode() if isinstance(argument, str) else argument
            argument = ctypes.create_string_buffer(data, len(data) + 1)
        if isinstance(argument, int | tuple):
            return argument
        if argument is None:
            return 0
        self._kept.append(argument)
        return ctypes.addressof(argument)

    def do(self, name: str, *arguments: Any) -> None:
        code = self(name, *arguments)
        assert code == 0, (name, code)

    def handle(self, name: str, *arguments: Any) -> int:
        """What the first place gets, where the call succeeds."""
        made = ctypes.c_uint64()
        self.do(name, made, *arguments)
        return made.value

    def number(self, name: str, *arguments: Any) -> int:
        """The same, 32 bits."""
        return self.handle(name, *arguments) & 0xFFFFFFFF

    def kernel(self, name: str, text: str = PTX) -> int:
        return self.handle("cuModuleGetFunction", self.handle("cuModuleLoadData", text), name)

    def memory(self, words: int = 64) -> int:
        """Device memory that holds zeros."""
        address = self.handle("cuMemAlloc_v2", 4 * words)
        self.do("cuMemsetD32_v2", address, 0, words)
        return address

    def words(self, address: int, count: int = 1) -> list[int]:
        read = (ctypes.c_uint32 * count)()
        self.do("cuMemcpyDtoH_v2", read, address, 4 * count)
        return list(read)

    def parameters(self, *values: Any) -> ctypes.Array[Any]:
        """Pointers to values, as a launch takes them."""
        return (ctypes.c_void_p * len(values))(*(self.address(value) for value in values))
