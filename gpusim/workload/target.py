"""Targets of requests: a kernel with its arguments, ready to launch, and the check of its outputs."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.config import GPUConfig
from gpusim.errors import LaunchError, WorkloadError
from gpusim.launch import Launch
from gpusim.launch.occupancy import check_architecture
from gpusim.simulation import simulate
from gpusim.units import whole
from gpusim.workload.request import LAUNCH_PARAMETERS, Request
from isa import ToolchainMissing, load, toolchain

if TYPE_CHECKING:
    from gpusim.machine.gpu import GPU
    from gpusim.result import Result


@dataclass(frozen=True)
class ReferenceCheck:
    """Comparison of outputs with the reference. equal: within its tolerance; message: the same in words."""

    equal: bool
    message: str


@dataclass(frozen=True)
class Target:
    """A kernel with its arguments. variant: the bundled program, None for the user's own kernel; size and seed are then
    None too."""

    name: str
    launch: Launch
    variant: Any = None
    size: int | None = None
    seed: int | None = None

    def simulate(self, gpu: str | GPUConfig, **options: Any) -> Result:
        """Simulate the launch; options: of `gpusim.simulate`."""
        launch = self.launch
        return simulate(
            launch.kernel, launch.grid, launch.block, launch.args, gpu, launch.shared_bytes,
            signature=launch.signature, **options,
        )  # fmt: skip

    def expected(self) -> Any:
        """Return what the NumPy reference computes from the inputs as they are now; None without a reference."""
        return self.variant.reference(self.launch) if self.variant else None

    def check(self, expected: Any) -> ReferenceCheck | None:
        """Compare the outputs with what `expected` gave before the run; None if there is nothing to compare with."""
        if expected is None:
            return None
        variant = self.variant
        mismatch = variant.mismatch(expected, variant.results(self.launch))
        exact = variant.rtol == variant.atol == 0
        within = "" if exact else f" within rtol {variant.rtol:.2g}, atol {variant.atol:.2g}"
        return ReferenceCheck(mismatch is None, mismatch or f"output equals the NumPy reference{within}")

    def renewed(self, request: Request) -> Target:
        """Return the user's kernel with new arguments, which no run has changed."""
        return replace(self, launch=replace(self.launch, args=parse_arguments(request.args or "", request.seed)))

    def recorded(self) -> Target:
        """With the recorded program image of the bundled kernel instead of its source, where there is one."""
        image = importlib.import_module("programs.images").for_launch(self.launch)
        return self if image is None else replace(self, launch=replace(self.launch, kernel=image))


def registry() -> ModuleType:
    """The registry of bundled programs. Programs build on gpusim, so it is looked up by name."""
    return importlib.import_module("programs.registry")


def find_variant(name: str) -> Any:
    """The bundled program of a name. Raises WorkloadError."""
    programs = registry()
    try:
        return programs.get(name)
    except programs.UnknownProgram as error:
        raise WorkloadError(f"{error.args[0]} (a file is spelled FILE.py:KERNEL or FILE.cu:KERNEL)") from None


def find_target(request: Request, config: GPUConfig, *, launchable: bool = True) -> Target:
    """Find the target of a request on a machine.

    launchable: grid and block are needed; False to look at the code alone, with (1, 1, 1) for what is not given.

    Raises WorkloadError, or the errors of `isa.load` for a compiled file.
    """
    file = request.file
    if file is None:
        return _bundled(request, config)
    if request.size is not None:
        raise WorkloadError("--size is for bundled programs; give your own kernel its arrays with --args")
    if file.lower().endswith(".py"):
        kernel = load_kernel(file, request.kernel)
    else:
        try:
            options = shlex.split(request.cuda_options or "")
        except ValueError as error:
            raise WorkloadError(f"--cuda-options {request.cuda_options}: {error}") from None
        kernel = load(file, request.kernel, abi=request.abi, arch=config.gpu.arch, options=options)
    args = parse_arguments(request.args or "", request.seed)
    shape = {"grid": request.grid, "block": request.block}
    for name, text in shape.items():
        if launchable and text is None:
            raise WorkloadError(f"{request.program} needs --grid and --block; --{name} is missing")
    grid, block = (parse_dim3(text, f"--{name}") if text is not None else (1,) for name, text in shape.items())
    try:
        return Target(request.program, Launch(kernel, grid, block, args, request.shared_bytes or 0, request.signature))
    except ValueError as error:
        raise WorkloadError(str(error)) from None


def _bundled(request: Request, config: GPUConfig) -> Target:
    variant = find_variant(request.program)
    if given := [f"--{name.replace('_', '-')}" for name in LAUNCH_PARAMETERS if getattr(request, name) is not None]:
        raise WorkloadError(f"{', '.join(given)}: not for bundled programs, which bring their own launch")
    size, arch = variant.default_size if request.size is None else request.size, config.gpu.arch
    try:
        check_architecture(getattr(variant.kernel, "arch", None) or arch, arch, variant.name)
        target = Target(variant.name, variant.make(size, request.seed), variant, size, request.seed)
    except LaunchError:
        raise WorkloadError(f"{variant.name} is for {variant.kernel.arch}, not {arch}: --gpu {variant.gpu}") from None
    except ValueError as error:
        raise WorkloadError(f"{variant.name}: {error}") from None
    try:
        for tool in ("ptxas", "nvdisasm"):
            toolchain.find_tool(tool)
    except ToolchainMissing:
        return target.recorded()
    return target


def load_kernel(path: str, name: str | None) -> Any:
    """The function or dispatcher `name` of a Python file; without a name, the only dispatcher there is.

    Raises WorkloadError, also for whatever the file itself raises.
    """
    module = import_file(path)
    dispatchers = {key: value for key, value in vars(module).items() if _is_kernel(value)}
    if name is None and len(dispatchers) == 1:
        return next(iter(dispatchers.values()))
    names = ", ".join(dict.fromkeys([*dispatchers, *_functions(module)])) or "none"
    if name is None and not dispatchers:
        raise WorkloadError(f"{path} has no kernel: no function has @cuda.jit above it; its functions are: {names}")
    if name is None:
        raise WorkloadError(f"say which kernel of {path} to use, as {path}:KERNEL; there are: {names}")
    kernel = vars(module).get(name)
    if kernel is None:
        raise WorkloadError(f"{path} has no kernel {name!r}; there are: {names}")
    if not hasattr(getattr(kernel, "py_func", kernel), "__code__"):
        raise WorkloadError(f"{name!r} in {path} is not a function but {type(kernel).__name__}")
    return kernel


def load_model(text: str) -> str | type[GPU]:
    """The model of a name, or the machine that a Python file has as FILE.py:CLASS. Raises WorkloadError."""
    path, colon, name = text.rpartition(":")
    if not colon:
        return text
    from gpusim.machine.gpu import GPU

    found = vars(import_file(path)).get(name)
    if not isinstance(found, type) or not issubclass(found, GPU):
        raise WorkloadError(f"{path} has no subclass {name!r} of gpusim.machine.GPU")
    return found


def _is_kernel(value: Any) -> bool:
    """Return whether a value is a dispatcher of `numba.cuda.jit`, and not of a device function."""
    return hasattr(value, "py_func") and not getattr(value, "targetoptions", {}).get("device")


def _functions(module: ModuleType) -> list[str]:
    """Plain functions that a module defines itself."""
    plain = (each for each in vars(module).items() if isinstance(each[1], FunctionType))
    return [name for name, value in plain if value.__module__ == module.__name__]


def import_file(path: str) -> ModuleType:
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
        said, where = (error.msg, f", line {error.lineno}") if isinstance(error, SyntaxError) else (error, "")
        raise WorkloadError(f"{path} cannot be imported: {type(error).__name__}: {said}{where}") from None
    finally:
        sys.path.remove(str(file.parent))
        # A file may have the name of a module that is loaded already, such as numpy.py: that one stays in place.
        if previous is not None:
            sys.modules[file.stem] = previous
    return module


# --- how arguments are spelled: `gpusim/cli/help/arguments.txt` is the grammar ----------------------------------------

_ARRAY = re.compile(r"(\w+)\[([\w\s.,+]+)\](?:\s*=\s*(\S+))?$")
_TYPED = re.compile(r"(\w+)\(\s*(\S+?)\s*\)$")
_BOOLEANS = {"true": True, "false": False}
_C_TYPES = {"float": "float32", "int": "int32"}
"""What kernels mean by these words, which NumPy has for 64 bits."""
_MOST_DIGITS = 20
_MAX_BYTES = 1 << 34
"""Largest array: more is a slip of the pen, and would only end in the host's memory running out."""


def parse_arguments(text: str, seed: int = 0) -> tuple[Any, ...]:
    """Arrays and scalars of an --args text, such as "float32[1024]=random, int32(7)". Raises WorkloadError."""
    generator = np.random.default_rng(seed)
    parts = [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text)] if text.strip() else []
    return tuple(_argument(part, generator) for part in parts)


def parse_dim3(text: str, option: str) -> tuple[int, ...]:
    """One to three positive integers, separated by commas or 'x'. Raises WorkloadError."""
    parts = [part.strip() for part in re.split(r"[,x]", text.strip(" ()"))]
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise WorkloadError(f"{option} takes one to three integers such as 128 or 16,16, not {text!r}")
    if any(len(part) > _MOST_DIGITS for part in parts):
        raise WorkloadError(f"{option}: a number of more than {_MOST_DIGITS} digits")
    return tuple(int(part) for part in parts)


def _argument(text: str, generator: np.random.Generator) -> Any:
    if match := _ARRAY.fullmatch(text):
        return _array(text, match, generator)
    if match := _TYPED.fullmatch(text):
        dtype = _dtype(match[1], text)
        return dtype.type(_number(match[2], dtype, text))
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    for kind in (lambda word: int(word, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise WorkloadError(f"--args: cannot read {text!r}; an argument is spelled float32[1024]=random, int32(7) or 2.5")


def _array(text: str, match: re.Match[str], generator: np.random.Generator) -> np.ndarray:
    dtype = _dtype(match[1], text)
    try:
        shape = tuple(whole(extent) for extent in match[2].split(","))
    except ValueError:
        raise WorkloadError(f"--args: {text!r} has a shape that is not a list of integers") from None
    size = int(np.prod(shape, dtype=object))
    if size * dtype.itemsize > _MAX_BYTES:
        raise WorkloadError(f"--args: {text!r} has {size * dtype.itemsize:,} bytes, at most {_MAX_BYTES:,} are allowed")
    fill = match[3] or "zeros"
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    if fill == "arange":
        return np.arange(size).astype(dtype).reshape(shape)
    if fill == "random":
        if dtype.kind in "iu":
            return generator.integers(0, 100, shape).astype(dtype)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.random(shape).astype(dtype)
    return np.full(shape, _number(fill, dtype, text), dtype)


def _dtype(name: str, text: str) -> np.dtype:
    try:
        dtype = np.dtype(_C_TYPES.get(name, name))
    except (TypeError, ValueError, SyntaxError):  # NumPy evaluates parts of such a text
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise WorkloadError(
            f"--args: {name!r} in {text!r} is not a NumPy number type, such as float32, int64, uint8 or bool"
        )
    return dtype


def _number(word: str, dtype: np.dtype, text: str) -> Any:
    """The number as the type holds it; a value that the type cannot hold is an error, not a wrapped one."""
    if dtype.kind == "b" and word.lower() in _BOOLEANS:
        return _BOOLEANS[word.lower()]
    try:
        value: Any = int(word, 0) if dtype.kind in "iub" else complex(word) if dtype.kind == "c" else float(word)
        if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise ValueError
    except ValueError:
        raise WorkloadError(f"--args: {word!r} in {text!r} is not a value of {dtype}") from None
    return value
