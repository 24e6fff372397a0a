"""Triton kernels on a simulated GPU, with NumPy arrays and without PyTorch or a driver: for tests.

    import gpusim.integrations.triton as simulated

    result = simulated.launch(add, (4,), x, y, out, 1000, BLOCK=256, gpu="a100")

needs Triton's wheel, which compiles. Scripts that launch with Triton's own runtime need no change: `gpusim script`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpusim import GPUConfig, Result, load_config, simulate
from isa.listing import program_from_cubin

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_ELEMENTS = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "i1"}


def launch(
    kernel: Any,
    grid: int | Sequence[int],
    *args: Any,
    gpu: str | GPUConfig = "h200",
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
    mode: str = "detailed",
    kinds: Mapping[str, str] | None = None,
    **named: Any,
) -> Result:
    """Compile a `@triton.jit` function for a GPU and run it there once.

    Args:
        kernel: what `@triton.jit` made; not what `@triton.autotune` did.
        grid: programs in each of up to three directions.
        args: arrays, updated in place, None, and numbers, in the kernel's order.
        gpu, overrides, mode: as for `gpusim.simulate`.
        kinds: Triton's name of the elements of arrays whose type NumPy does not have, by parameter: 'bf16' of uint16.
        named: further arguments by name, constants among them; and num_warps, num_stages, num_ctas, maxnreg.

    Raises:
        TypeError: an argument is missing, or there is no such parameter.
        SimulationError: as `gpusim.simulate`. Errors of Triton's compiler are its own.
    """
    config = load_config(gpu, overrides)
    options = {key: named.pop(key) for key in _OPTIONS if key in named}
    given = _bound(kernel, args, named)
    constants = {
        param.name: given[param.name]
        for param in kernel.params
        if param.is_constexpr or given[param.name] is None
        or (type(given[param.name]) is int and given[param.name] == 1 and not param.do_not_specialize)
    }  # fmt: skip
    values = {name: value for name, value in given.items() if name not in constants}
    signature = dict.fromkeys(given, "constexpr") | {
        name: (kinds or {}).get(name) or _kind(name, value) for name, value in values.items()
    }
    for name in values.keys() & (kinds or {}).keys():
        signature[name] = f"*{signature[name].lstrip('*')}"
    aligned: dict[tuple[int, ...], Any] = {
        (index,): [["tt.divisibility", 16]]
        for index, param in enumerate(kernel.params)
        if param.name in values and not param.do_not_specialize and _divisible(values[param.name])
    }
    built = translate(kernel, signature, constants, aligned, config.gpu.arch, options)
    about = built.metadata
    program = program_from_cubin(built.asm["cubin"], about.name, abi="c", path=f"{about.name}.cubin")
    if about.num_ctas > 1:
        program = replace(program, cluster=(about.num_ctas, 1, 1))
    x, y, z = (*((grid,) if isinstance(grid, int) else grid), 1, 1)[:3]
    scratch = about.global_scratch_size * x * y * z * about.num_ctas
    places = [np.zeros(scratch, np.uint8) if scratch else np.uint64(0), np.uint64(0)]
    return simulate(
        program,
        (x * about.num_ctas, y, z),
        config.gpu.warp_size * about.num_warps,
        [*(_argument(value, signature[name]) for name, value in values.items()), *places],
        config,
        about.shared,
        mode=mode,
    )


def translate(
    kernel: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    attributes: Mapping[tuple[int, ...], Any],
    arch: str,
    options: Mapping[str, Any],
) -> Any:
    """What Triton compiles a kernel to for an architecture, without a GPU: `asm["cubin"]` and `metadata`."""
    from triton import compile as compiled
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    number = int("".join(letter for letter in arch.partition("_")[2] if letter.isdigit()))
    source = ASTSource(kernel, dict(signature), dict(constants), dict(attributes))
    return compiled(source, target=GPUTarget("cuda", number, 32), options={**options, "enable_fp_fusion": True})


def _bound(kernel: Any, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name in the kernel's order."""
    names = [param.name for param in kernel.params]
    given = dict(zip(names, args, strict=False)) | dict(named)
    unknown = [*named.keys() - set(names), *(["more than it has"] if len(args) > len(names) else [])]
    missing = [param.name for param in kernel.params if param.name not in given and not param.has_default]
    if unknown or missing:
        raise TypeError(f"arguments of {kernel.__name__}: missing {missing}, unknown {unknown}")
    return {param.name: given.get(param.name, param.default if param.has_default else None) for param in kernel.params}


def _kind(name: str, value: Any) -> str:
    """Triton's spelling of an argument's type."""
    if isinstance(value, np.ndarray):
        text = str(value.dtype)
        return "*" + _ELEMENTS.get(text, text.replace("uint", "u").replace("int", "i"))
    if isinstance(value, (bool, np.bool_)):
        return "i1"
    if isinstance(value, (int, np.integer)):
        return "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
    if isinstance(value, (float, np.floating)):
        return "fp32"
    raise TypeError(f"argument {name} is a {type(value).__name__}, neither an array nor a number")


def _divisible(value: Any) -> bool:
    """Whether the compiler may count on 16: arrays begin at such addresses."""
    return isinstance(value, np.ndarray) or (isinstance(value, int) and value % 16 == 0)


def _argument(value: Any, kind: str) -> Any:
    if isinstance(value, np.ndarray):
        return value
    types = {"i1": np.int8, "i32": np.int32, "i64": np.int64, "u64": np.uint64, "fp32": np.float32}
    return types[kind](value)
