"""Kernels of a test file in one module: nvdisasm takes half a second for a file, however little is in it."""

from __future__ import annotations

from functools import cached_property

from isa import Program, compile_cuda
from isa.listing import programs_from_cubin


class Kernels:
    """CUDA C++ kernels by name, compiled and listed together when the first of them is asked for.

    Kernels are `extern "C"`, and all of a file are added when it is imported.
    """

    def __init__(self, head: str = "", arch: str = "sm_90a", path: str = "kernel.cu"):
        self.text, self.arch, self.path = head, arch, path

    def add(self, text: str) -> str:
        """Adds kernels, and returns their text."""
        self.text += text
        return text

    def __getitem__(self, name: str) -> Program:
        return self._programs[name]

    @cached_property
    def _programs(self) -> dict[str, Program]:
        return programs_from_cubin(compile_cuda(self.text, self.arch, path=self.path))
