"""Compile a case with the Triton wheel for sm_90, without a GPU."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from isa.listing import program_from_cubin
from isa.program import Program
from validate.foreign.launch import BuiltLaunch, MapHole, NotBuilt
from validate.triton.cases import TritonCase, make

WHEEL = "3.9.0"
_TYPES = {"float16": "fp16", "float32": "fp32", "int32": "i32"}
_DRIVER_KINDS = {8: 10, 9: 8, 10: 9}
"""Triton numbers three of the driver's element types otherwise."""


def require() -> None:
    """Raises NotBuilt if the Triton wheel is not installed, or is another one."""
    if find_spec("triton") is None:
        raise NotBuilt("the Triton wheel is not installed; pip install -e .[triton]")
    import triton

    if triton.__version__ != WHEEL:
        raise NotBuilt(f"this is Triton {triton.__version__}, not {WHEEL}; pip install -e .[triton]")


def build(name: str) -> tuple[bytes, Program, BuiltLaunch]:
    """The cubin, its program, and the launch, of a case. Raises NotBuilt."""
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
        aligned = {
            (index,): [["tt.divisibility", 16]]
            for index, (name, value) in enumerate(case.arguments.items())
            if name not in case.boxes and (value is None or (isinstance(value, int) and value % 16 == 0))
        }
        source = ASTSource(getattr(kernels, case.kernel), signature, dict(case.constants), aligned)
        found = translate(source, target=GPUTarget("cuda", 90, 32), options={**case.options, "enable_fp_fusion": True})
    cubin, about = found.asm["cubin"], found.metadata
    program = program_from_cubin(cubin, about.name, abi="c", path=f"{about.name}.cubin")
    return cubin, program, _launch(case, program, about)


def _type(case: TritonCase, name: str, value: Any) -> str:
    """Triton's spelling of an argument's type."""
    if value is not None:
        return "i32" if isinstance(value, int) else "fp32"
    array = case.work.arrays[name]
    element = case.work.kinds.get(name) or _TYPES[str(array.dtype)]
    if name in case.boxes:
        return f"tensordesc<{element}[{','.join(map(str, case.boxes[name]))}]>"
    return f"*{element}"


def _launch(case: TritonCase, program: Program, about: Any) -> BuiltLaunch:
    """The launch that Triton's own launcher would make: a tensor map is followed by its shape and strides, and the last
    two parameters are scratch memory."""
    pieces: list[bytes | int | dict[str, Any]] = []
    maps = iter(about.tensordesc_meta or ())
    for index, (name, value) in enumerate(case.arguments.items()):
        if name in case.boxes:
            pieces += _map(case.work.arrays[name], index, next(maps))
        elif value is None:
            pieces.append(index)
        else:
            pieces.append(np.int32(value).tobytes() if isinstance(value, int) else value.tobytes())
    scratch_bytes = about.global_scratch_size * int(np.prod(case.grid)) * about.num_ctas
    pieces += [len(case.work.arrays) if scratch_bytes else bytes(8), bytes(8)]
    places = tuple((each.offset, each.size) for each in sorted(program.parameters, key=lambda each: each.index))
    area = bytearray(max(offset + size for offset, size in places))
    pointers, holes = [], []
    for (offset, size), piece in zip(places, pieces, strict=True):
        if isinstance(piece, int):
            pointers.append((offset, piece, 0))
        elif isinstance(piece, dict):
            holes.append(MapHole(offset=offset, **piece))
        else:
            assert len(piece) == size, (offset, size, piece)
            area[offset : offset + size] = piece
    x, y, z = (*case.grid, 1, 1)[:3]
    return BuiltLaunch(
        symbol=program.symbol,
        code_sha256=program.code_sha256,
        grid=(x * about.num_ctas, y, z),
        block=(32 * about.num_warps, 1, 1),
        cluster=(about.num_ctas, 1, 1),
        shared_bytes=about.shared,
        parameters=places,
        area=area.hex(),
        pointers=tuple(pointers),
        maps=tuple(holes),
        scratch_bytes=scratch_bytes,
    )


def _map(array: np.ndarray, index: int, about: dict[str, Any]) -> list[Any]:
    """A tensor map with what follows it."""
    kind = about["elem_type"]
    hole = {
        "array": index,
        "kind": _DRIVER_KINDS.get(kind, kind),
        "shape": array.shape[::-1],
        "strides": array.strides[-2::-1],
        "box": tuple(about["block_size"][::-1]),
        "steps": (1,) * array.ndim,
        "swizzle": about["swizzle"],
    }
    shape = [np.int32(extent).tobytes() for extent in array.shape]
    return [hole, *shape, *(np.int64(stride // array.itemsize).tobytes() for stride in array.strides)]


def how(name: str) -> dict[str, Any]:
    """How a case is compiled, for the recording."""
    case = make(name)
    return {"kernel": case.kernel, **case.constants, **case.options}


def tools() -> dict[str, str]:
    """What compiles; the wheel brings its own ptxas."""
    return {"triton": WHEEL}
