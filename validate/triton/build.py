"""Compile a case with the Triton wheel for sm_90, without a GPU."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from isa.listing import program_from_cubin
from isa.program import Program
from programs.images import LoadableKernel
from validate.triton.cases import TritonCase, make
from validate.triton.work import SCRATCH, BuiltLaunch, NotBuilt

WHEEL = "3.9.0"
_TYPES = {"float16": "fp16", "float32": "fp32", "int32": "i32"}
_SWIZZLES = ("none", "32B", "64B", "128B")
"""By Triton's numbers, which are the driver's."""


def require() -> None:
    """Raises NotBuilt if the Triton wheel is not installed, or is another one."""
    if find_spec("triton") is None:
        raise NotBuilt("the Triton wheel is not installed; pip install -e .[triton]")
    import triton

    if triton.__version__ != WHEEL:
        raise NotBuilt(f"this is Triton {triton.__version__}, not {WHEEL}; pip install -e .[triton]")


def build(name: str) -> tuple[Program, BuiltLaunch]:
    """The program and the launch of a case. Raises NotBuilt."""
    require()
    case = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from triton import compile as translate
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        from validate.triton import kernels

        signature = {name: _type(case, name, value) for name, value in case.arguments.items()}
        signature |= dict.fromkeys(case.constants, "constexpr")
        aligned: dict[tuple[int, ...], Any] = {
            (index,): [["tt.divisibility", 16]]
            for index, (name, value) in enumerate(case.arguments.items())
            if name not in case.boxes and (value is None or (isinstance(value, int) and value % 16 == 0))
        }
        source = ASTSource(getattr(kernels, case.kernel), signature, dict(case.constants), aligned)
        found = translate(source, target=GPUTarget("cuda", 90, 32), options={**case.options, "enable_fp_fusion": True})
    cubin, about = found.asm["cubin"], found.metadata
    program = program_from_cubin(cubin, about.name, abi="c", path=f"{about.name}.cubin")
    return program, _launch(case, program, cubin, about)


def _type(case: TritonCase, name: str, value: Any) -> str:
    """Triton's spelling of an argument's type."""
    if value is not None:
        return "i32" if isinstance(value, int) else "fp32"
    array = case.work.arrays[name]
    element = case.work.kinds.get(name) or _TYPES[str(array.dtype)]
    if name in case.boxes:
        return f"tensordesc<{element}[{','.join(map(str, case.boxes[name]))}]>"
    return f"*{element}"


def _launch(case: TritonCase, program: Program, cubin: bytes, about: Any) -> BuiltLaunch:
    """The launch that Triton's own launcher would make: a tensor map is followed by its shape and strides, and the last
    two parameters are scratch memory."""
    args: list[Any] = []
    maps = iter(about.tensordesc_meta or ())
    for name, value in case.arguments.items():
        if name in case.boxes:
            array, said = case.work.arrays[name], next(maps)
            args += [(name, tuple(said["block_size"]), _SWIZZLES[said["swizzle"]]), *map(np.int32, array.shape)]
            args += [np.int64(stride // array.itemsize) for stride in array.strides]
        else:
            args.append(name if value is None else np.int32(value) if isinstance(value, int) else value)
    scratch_bytes = about.global_scratch_size * int(np.prod(case.grid)) * about.num_ctas
    args += [SCRATCH if scratch_bytes else np.uint64(0), np.uint64(0)]
    places = tuple((each.index, each.offset, each.size) for each in program.parameters)
    x, y, z = (*case.grid, 1, 1)[:3]
    return BuiltLaunch(
        kernel=LoadableKernel(f"{about.name}.cubin", program.symbol, cubin, places, program.sha256, "c"),
        code_sha256=program.code_sha256,
        grid=(x * about.num_ctas, y, z),
        block=(32 * about.num_warps, 1, 1),
        shared_bytes=about.shared,
        args=tuple(args),
        cluster=(about.num_ctas, 1, 1),
        scratch_bytes=scratch_bytes,
    )


def how(name: str) -> dict[str, Any]:
    """Return how a case is compiled, for the recording."""
    case = make(name)
    return {"kernel": case.kernel, **case.constants, **case.options}


def tools() -> dict[str, str]:
    """Return the tools that compile; the wheel brings its own ptxas."""
    return {"triton": WHEEL}
