"""Puts modules of this package in the place of modules of CuPy when Python imports them.

Five of CuPy's extension modules have the vendor's static runtime inside, which works with the vendor's driver alone.
Nothing of CuPy changes on disk, and its other modules are its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

REPLACED = {
    "cupy_backends.cuda.api.runtime": "runtime.py",
    "cupy.cuda.cub": "cub.py",
    "cupy.cuda.thrust": "thrust.py",
    "cupy.cuda.jitify": "jitify.py",
    "cupy.random._generator_api": "generator_api.py",
    "cupy_backends.cuda.libs.cublas": "cublas.py",
    "cupy_backends.cuda.libs.curand": "curand.py",
}
"""Files of this folder, by the module of CuPy that each is executed as."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = REPLACED.get(fullname)
        return spec_from_file_location(fullname, Path(__file__).with_name(file)) if file else None


def install() -> None:
    """Let later imports find the modules here."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
