"""The bundled kernels as machine code: one program image for each kernel, so that no tool chain is needed.

`index.json` says which file holds which kernel, for which argument types, and what it was compiled with;
`python -m validate images` writes both. An image serves twice: hardware recordings run its cubin, and where
no tool chain can be installed, `gpusim run` executes it instead of compiling.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.launch import Launch, TensorMap

if TYPE_CHECKING:
    from isa import Program

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"


class NoImage(LookupError):
    """There is no image of the kernel asked for."""


def image(variant: str) -> Program:
    """The decoded image of a variant by its name, such as 'reduction/sequential'. Raises NoImage."""
    return _open(entry_of(variant)["file"])


def for_launch(launch: Launch) -> Program | None:
    """The image that a launch of a bundled kernel executes, None if there is none."""
    kernel, types = kernel_name(launch.kernel), type_names(launch.args)
    entries = (each for each in index()["images"] if (each["kernel"], each["types"]) == (kernel, types))
    return next((_open(each["file"]) for each in entries), None)


def kernel_name(kernel: Any) -> str:
    """Module and name of a Python kernel, a `numba.cuda` dispatcher or a `CudaSource`."""
    function = getattr(kernel, "py_func", kernel)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def type_names(args: Sequence[Any]) -> list[str]:
    """Spelling, in the index, of the types of NumPy arrays, scalars and tensor maps: 'float32[2,C]', 'int32',
    'map float16[2,C]'."""
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


@cache
def index() -> dict[str, Any]:
    """The content of `index.json`: 'arch', 'tools' (name to version) and 'images', one entry per kernel with
    'file', 'kernel', 'types', 'variants' and 'code_sha256'."""
    return json.loads(INDEX.read_text()) if INDEX.exists() else {"arch": "", "tools": {}, "images": []}


def entry_of(variant: str) -> dict[str, Any]:
    """The row of `index` that has a variant. Raises NoImage."""
    for entry in index()["images"]:
        if variant in entry["variants"]:
            return entry
    raise NoImage(f"no program image of {variant}; 'python -m validate images' compiles it")


@cache
def _open(file: str) -> Program:
    from isa import Program  # not to be loaded by a list of programs

    return Program.open(FOLDER / file)
