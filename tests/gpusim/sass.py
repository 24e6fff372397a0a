"""Kernels written as SASS text and run on the tiny GPU, for instructions that a compiler seldom emits.

Every instruction waits for all before it, so that a test need not set scoreboards. `@RETURN` stands for the store of R6
into `out[thread]`, where `out` is the first argument, an array of 32-bit words.
"""

import hashlib
from typing import Any

import gpusim
from gpusim.result import Result
from isa import Program
from isa.cubin import Parameter
from isa.instruction import parse_instruction

# Wait for all six scoreboards, set the first at the result and none at the sources, stall five cycles.
ENCODING = 0x3F << 116 | 7 << 113 | 0 << 110 | 5 << 105
PARAMETERS = 0x210
_RETURN = (
    "S2R R0, SR_TID.X",
    f"IMAD.WIDE.U32 R2, R0, 0x4, c[0x0][{PARAMETERS:#x}]",
    "STG.E desc[UR4][R2.64], R6",
)


def assemble(text: str, arguments: int = 1, immediates: dict[str, int] | None = None, **changes: Any) -> Program:
    """A program of the lines of `text`; a line that ends in a colon is a label, EXIT follows the last instruction.

    Args:
        arguments: how many 64-bit parameters there are.
        immediates: for instructions with a floating-point immediate, its bits.
        changes: further fields of the program, such as static_shared_bytes.
    """
    lines: list[str] = []
    labels = {"kernel": 0}
    written = [line.strip() for line in text.splitlines() if line.strip()]
    for line in written if written[-1].endswith(":") else [*written, "EXIT"]:
        if line.endswith(":"):
            labels[line[:-1]] = 16 * len(lines)
        elif line == "@RETURN":
            lines += _RETURN
        else:
            lines.append(line)
    code = tuple(
        parse_instruction(16 * k, line, ENCODING | (immediates or {}).get(line, 0) << 32, labels)
        for k, line in enumerate(lines)
    )
    fields: dict[str, Any] = {
        "name": "kernel",
        "symbol": "kernel",
        "arch": "sm_90",
        "instructions": code,
        "registers": 64,
        "static_shared_bytes": 0,
        "shared_base": 1024,
        "local_bytes": 0,
        "barriers": 16,
        "constant_banks": {},
        "parameter_base": PARAMETERS,
        "parameter_bytes": 8 * arguments,
        "parameters": tuple(Parameter(k, 8 * k, 8) for k in range(arguments)),
        "max_threads": None,
        "abi": "c",
        "source": {},
        "cubin": b"",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "labels": labels,
    }
    return Program(**fields | changes)


def run(text: str, *args: Any, grid: Any = 1, block: Any = 32, **options: Any) -> Result:
    """Assemble and simulate; `options` are fields of the program and arguments of `gpusim.simulate`."""
    of_program = {name: options.pop(name) for name in tuple(options) if name in Program.__dataclass_fields__}
    program = assemble(text, len(args), options.pop("immediates", None), **of_program)
    return gpusim.simulate(program, grid, block, args, gpu="tiny", **options)
