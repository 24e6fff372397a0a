"""The bundled kernels as machine code: one program image for each kernel, so that no tool chain is needed.

`index.json` says which file holds which kernel, for which argument types, and what it was compiled with;
`python -m validate images` writes both. An image serves twice: hardware recordings run its cubin, and where
no tool chain can be installed, `gpusim run` executes it instead of compiling.

`cubin_of` needs only the standard library, for machines that have a GPU but none of the simulator's
dependencies; `image`, `find` and `for_launch` decode the program and import `isa`.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusim.launch import Launch
    from isa import Program

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"
_MAGIC = b"GPUPROG\n"


class NoImage(LookupError):
    """There is no image of the kernel asked for."""


@dataclass(frozen=True)
class LoadableKernel:
    """All that loading and launching a kernel takes.

    file: the image's name in this folder. symbol: the kernel's mangled name in `code`, the cubin.
    parameters: (position, offset in the parameter area, size in bytes) of each flattened parameter.
    abi: how arguments are flattened, "numba" or "c".
    sha256: digest of the cubin.
    """

    file: str
    symbol: str
    code: bytes
    parameters: tuple[tuple[int, int, int], ...]
    sha256: str
    abi: str


def image(variant: str) -> Program:
    """The decoded image of a variant by its name, such as 'reduction/sequential'. Raises NoImage."""
    return _open(_entry_of(variant)["file"])


def cubin_of(variant: str) -> LoadableKernel:
    """The cubin of a variant, read without decoding its instructions. Raises NoImage."""
    return read_cubin(FOLDER / _entry_of(variant)["file"])


def read_cubin(path: Path) -> LoadableKernel:
    """The cubin in a program image, read without decoding its instructions."""
    document = json.loads(zlib.decompress(path.read_bytes().removeprefix(_MAGIC)))
    return LoadableKernel(
        file=path.relative_to(FOLDER).as_posix() if path.is_relative_to(FOLDER) else path.name,
        symbol=document["symbol"],
        code=base64.b64decode(document["cubin"]),
        parameters=tuple((index, offset, size) for index, offset, size in document["parameters"]),
        sha256=document["sha256"],
        abi=document["abi"],
    )


def find(kernel: str, types: Sequence[Any]) -> Program | None:
    """The image of a kernel, None if there is none.

    kernel: its module and name, such as 'programs.saxpy.saxpy'.
    types: Numba types of the arguments, or their names as `type_names` spells them.
    """
    wanted = [name if isinstance(name, str) else type_name(name) for name in types]
    for entry in index()["images"]:
        if entry["kernel"] == kernel and entry["types"] == wanted:
            return _open(entry["file"])
    return None


def for_launch(launch: Launch) -> Program | None:
    """The image that a launch of a bundled kernel executes, None if there is none."""
    return find(kernel_name(launch.kernel), type_names(launch.args))


def kernel_name(kernel: Any) -> str:
    """Module and name of a Python kernel, a `numba.cuda` dispatcher or a `CudaSource`."""
    function = getattr(kernel, "py_func", kernel)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def type_names(args: Sequence[Any]) -> list[str]:
    """Spelling, in the index, of the types of NumPy arrays, scalars and tensor maps: 'float32[2,C]', 'int32',
    'map float16[2,C]'."""
    import numpy as np

    from gpusim.launch import TensorMap

    names = []
    for value in args:
        if isinstance(value, TensorMap):
            names.append(f"map {type_names([value.array])[0]}")
        elif isinstance(value, np.ndarray):
            flags = value.flags
            layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
            names.append(f"{value.dtype}[{value.ndim},{layout}]")
        else:
            plain = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
            names.append(plain.get(type(value)) or str(np.asarray(value).dtype))
    return names


def type_name(type_: Any) -> str:
    """Spelling of one Numba type in the index, as in `type_names`."""
    if hasattr(type_, "layout"):
        return f"{type_.dtype}[{type_.ndim},{type_.layout}]"
    return {"boolean": "bool"}.get(str(type_), str(type_))


@cache
def index() -> dict[str, Any]:
    """The content of `index.json`: 'arch', 'tools' (name to version) and 'images', one entry per kernel with
    'file', 'kernel', 'types', 'variants' and 'code_sha256'."""
    return json.loads(INDEX.read_text()) if INDEX.exists() else {"arch": "", "tools": {}, "images": []}


def _entry_of(variant: str) -> dict[str, Any]:
    for entry in index()["images"]:
        if variant in entry["variants"]:
            return entry
    raise NoImage(f"no program image of {variant}; 'python -m validate images' compiles it")


@cache
def _open(file: str) -> Program:
    from isa import Program

    return Program.open(FOLDER / file)
