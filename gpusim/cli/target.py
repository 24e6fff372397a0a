"""What PROGRAM on the command line stands for: a bundled program, a kernel in a Python file, or a compiled file."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from gpusim.cli import UserError
from gpusim.cli.spec import parse_arguments, parse_dim3
from gpusim.config import GPUConfig
from gpusim.launch import Launch
from isa import Program, ToolchainMissing, load, toolchain

COMPILED = (".cubin", ".ptx", ".cu", ".gpuprog")
_LAUNCH_OPTIONS = ("grid", "block", "args", "signature", "entry", "abi", "shared_bytes")


@dataclass(frozen=True)
class Target:
    """A kernel with its arguments, ready to launch. variant: the bundled program, None for the user's own kernel;
    size and seed are then None too."""

    name: str
    launch: Launch
    variant: Any = None
    size: int | None = None
    seed: int | None = None


def registry() -> ModuleType:
    """The registry of bundled programs. Programs build on gpusim, so the command line looks them up by name."""
    return importlib.import_module("programs.registry")


def find_target(options: argparse.Namespace, config: GPUConfig, *, launchable: bool = True) -> Target:
    """Resolve the options of `parser.add_target_options`.

    launchable: grid and block are needed; False to look at the code alone, with (1, 1, 1) for what is not given.

    Raises UserError, or the errors of `isa.load` for a compiled file.
    """
    text = options.program
    path, colon, kernel = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        path, kernel = text, ""
    suffix = Path(path).suffix.lower()
    if suffix != ".py" and suffix not in COMPILED:
        return _bundled(options)
    if options.size is not None:
        raise UserError("--size is for bundled programs; give your own kernel its arrays with --args")
    source = _kernel(path, kernel or options.entry) if suffix == ".py" else _compiled(path, options, config)
    args = parse_arguments(options.args or "", options.seed)
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (1,)
    if launchable:
        for name in ("grid", "block"):
            if getattr(options, name) is None:
                raise UserError(f"{text} needs --grid and --block; --{name} is missing")
    if options.grid is not None:
        grid = parse_dim3(options.grid, "--grid")
    if options.block is not None:
        block = parse_dim3(options.block, "--block")
    return Target(text, _launch(source, grid, block, args, options))


def _launch(
    kernel: Any,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    options: argparse.Namespace,
) -> Launch:
    try:
        return Launch(kernel, grid, block, args, options.shared_bytes or 0, options.signature)
    except ValueError as error:
        raise UserError(str(error)) from None


def _bundled(options: argparse.Namespace) -> Target:
    programs = registry()
    try:
        variant = programs.get(options.program)
    except programs.UnknownProgram as error:
        raise UserError(f"{error.args[0]} (a file is spelled FILE.py:KERNEL or FILE.cubin)") from None
    given = [name for name in _LAUNCH_OPTIONS if getattr(options, name) is not None]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UserError(f"{flags}: not for bundled programs, which bring their own launch")
    size = variant.default_size if options.size is None else options.size
    try:
        launch = variant.make(size, options.seed)
    except ValueError as error:
        raise UserError(f"{variant.name}: {error}") from None
    return Target(variant.name, _with_recorded_code(launch), variant, size, options.seed)


def _with_recorded_code(launch: Launch) -> Launch:
    """The launch; where the tool chain is missing, with the bundled kernel's recorded program image as its kernel."""
    try:
        for tool in ("ptxas", "nvdisasm"):
            toolchain.find_tool(tool)
    except ToolchainMissing:
        return recorded_code(launch)
    return launch


def recorded_code(launch: Launch) -> Launch:
    """The launch with the recorded program image of its bundled kernel, or as it is if there is none."""
    image = importlib.import_module("programs.images").for_launch(launch)
    return launch if image is None else replace(launch, kernel=image)


def _compiled(path: str, options: argparse.Namespace, config: GPUConfig) -> Program:
    return load(path, options.entry, abi=options.abi, arch=config.gpu.arch)


def _kernel(path: str, name: str | None) -> Any:
    """The function or dispatcher `name` of a Python file; without a name, the only dispatcher there is."""
    module = _import(path)
    dispatchers = {key: value for key, value in vars(module).items() if _is_kernel(value)}
    if name is None and len(dispatchers) == 1:
        return next(iter(dispatchers.values()))
    names = ", ".join(dict.fromkeys([*dispatchers, *_functions(module)])) or "none"
    if name is None:
        raise UserError(f"say which kernel of {path} to use, as {path}:KERNEL; there are: {names}")
    kernel = vars(module).get(name)
    if kernel is None:
        raise UserError(f"{path} has no kernel {name!r}; there are: {names}")
    if not hasattr(getattr(kernel, "py_func", kernel), "__code__"):
        raise UserError(f"{name!r} in {path} is not a function but {type(kernel).__name__}")
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
        raise UserError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    previous = sys.modules.get(file.stem)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise UserError(f"{path} cannot be imported: {type(error).__name__}: {error}{where}") from None
    finally:
        sys.path.remove(str(file.parent))
        # A file may have the name of a module that is loaded already, such as numpy.py: that one stays in place.
        if previous is not None:
            sys.modules[file.stem] = previous
    return module
