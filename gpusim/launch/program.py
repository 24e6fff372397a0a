"""From a launch to what its machine gets: the program for its architecture, and its arguments in place."""

from __future__ import annotations

from typing import Any

from gpusim.launch.arguments import BoundArguments, bind
from gpusim.launch.cuda import CudaSource
from gpusim.launch.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.signatures import infer_signature, parse_signature
from isa import Program, compile_kernel, load


def program_of(launch: Launch, arch: str) -> Program:
    """The machine code of a launch's kernel, for its arguments and an architecture such as 'sm_90'."""
    kernel, signature = launch.kernel, launch.signature
    if isinstance(kernel, Program):
        return kernel
    if isinstance(kernel, CudaSource):
        return load(kernel.path, kernel.entry, abi="c", arch=kernel.arch or arch, options=kernel.options)
    name = getattr(kernel, "__name__", None)
    types = parse_signature(signature) if signature is not None else infer_signature(launch.args, name)
    return compile_kernel(kernel, types, arch)


def place_arguments(program: Program, launch: Launch, memory: DeviceMemory) -> BoundArguments:
    """The launch's arguments in device memory, as its program takes them; see `bind`."""
    signature = None if program is launch.kernel else launch.signature
    return bind(program, launch.args, memory, signature, _parameter_names(launch.kernel))


def _parameter_names(kernel: Any) -> tuple[str, ...]:
    """Names of a Python kernel's parameters, for messages; empty for a program."""
    code = getattr(getattr(kernel, "py_func", kernel), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()
