"""A kernel out of a Python file of the user's."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gpusim.workload.request import WorkloadError


def load_kernel(path: str, name: str | None) -> Any:
    """The function or dispatcher `name` of a Python file; without a name, the only dispatcher there is.

    Raises WorkloadError, also for whatever the file itself raises.
    """
    module = _import(path)
    dispatchers = {key: value for key, value in vars(module).items() if _is_kernel(value)}
    if name is None and len(dispatchers) == 1:
        return next(iter(dispatchers.values()))
    names = ", ".join(dict.fromkeys([*dispatchers, *_functions(module)])) or "none"
    if name is None:
        raise WorkloadError(f"say which kernel of {path} to use, as {path}:KERNEL; there are: {names}")
    kernel = vars(module).get(name)
    if kernel is None:
        raise WorkloadError(f"{path} has no kernel {name!r}; there are: {names}")
    if not hasattr(getattr(kernel, "py_func", kernel), "__code__"):
        raise WorkloadError(f"{name!r} in {path} is not a function but {type(kernel).__name__}")
    return kernel


def _is_kernel(value: Any) -> bool:
    """Whether a value is a dispatcher of `numba.cuda.jit`, and not of a device function."""
    return hasattr(value, "py_func") and not getattr(value, "targetoptions", {}).get("device")


def _functions(module: ModuleType) -> list[str]:
    """Plain functions that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]


def _import(path: str) -> ModuleType:
    """Execute a Python file as a module of its own; its folder is importable meanwhile, as for a script."""
    file = Path(path).resolve()
    if not file.is_file():
        raise WorkloadError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise WorkloadError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    previous = sys.modules.get(file.stem)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise WorkloadError(f"{path} cannot be imported: {type(error).__name__}: {error}{where}") from None
    finally:
        sys.path.remove(str(file.parent))
        # A file may have the name of a module that is loaded already, such as numpy.py: that one stays in place.
        if previous is not None:
            sys.modules[file.stem] = previous
    return module
