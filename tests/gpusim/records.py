"""Launch records made by hand, so that metrics and reports are tested without running the engine."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from gpusim.config import load_config
from gpusim.engine.state import layout as L
from gpusim.engine.state import memory as S
from gpusim.launch import Launch
from gpusim.launch.occupancy import occupancy
from gpusim.results.record import LaunchRecord
from isa import Program
from isa.instruction import parse_instruction
from isa.lower import lower

SOURCE = [
    "def kernel(a, b, c):",
    "    x = a[i]",
    "    s[t] = x * b",
    "    y = s[u]",
    "    if y > 0:",
    "        c[i] = y",
    "        cuda.atomic.add(c, 0, 1)",
]
FILE = "/somewhere/kernel.py"
CODE = (
    ("LDG.E R2, desc[UR4][R2.64]", 2),
    ("FFMA R4, R2, R3, R4", 3),
    ("FADD R4, R4, R4", 3),
    ("STS [R5], R4", 3),
    ("LDS R6, [R5]", 4),
    ("@P0 BRA `(.L_x_0)", 5),
    ("STG.E desc[UR4][R2.64], R6", 6),
    ("RED.E.ADD.STRONG.GPU desc[UR4][R2.64], R3", 7),
    ("HMMA.16816.F32 R4, R8, R10, R4", None),
    ("EXIT", None),
)
"""The instructions of `make_program` and their source lines."""
LDG, FFMA, FADD, STS, LDS, BRA, STG, RED, HMMA, EXIT = range(len(CODE))


def make_program(code: tuple[tuple[str, int | None], ...] = CODE, **changes: Any) -> Program:
    """A program of the given instructions, as if disassembled."""
    labels = {".L_x_0": 16 * (len(code) - 1)}
    instructions = tuple(
        parse_instruction(16 * k, text, 0, labels, line, None if line is None else FILE)
        for k, (text, line) in enumerate(code)
    )
    fields: dict[str, Any] = {
        "name": "kernel",
        "symbol": "kernel",
        "arch": "sm_90",
        "instructions": instructions,
        "registers": 24,
        "static_shared_bytes": 4096,
        "local_bytes": 0,
        "barriers": 1,
        "constant_banks": {},
        "parameter_base": 0x210,
        "parameter_bytes": 0,
        "parameters": (),
        "max_threads": None,
        "abi": "numba",
        "source": {FILE: SOURCE},
        "cubin": b"",
        "sha256": hashlib.sha256(repr(code).encode()).hexdigest(),
        "labels": labels,
    }
    return Program(**fields | changes)


def make_record(
    *,
    line: dict[int, dict[int, int]] | None = None,
    memory: dict[int, int] | None = None,
    cycles: int = 4000,
    active_cycles: int = 1000,
    warp_cycles: int = 32_000,
    grid: int = 264,
    block: int = 256,
    program: Program | None = None,
    overrides: list[str] | None = None,
    **changes: Any,
) -> LaunchRecord:
    """A record of 132 SMs that were all active alike. line: {instruction: {COUNT_* or COUNT_STALL + STALL_*: count}};
    by default each instruction is executed once by each of the grid's warps, with all threads."""
    config = load_config("h200", overrides)
    program = program or make_program()
    sms = config.sm.count
    warps = grid * -(-block // 32)
    counters = np.zeros((len(program.instructions), L.COUNT_FIELDS), np.int64)
    counters[:, [L.COUNT_EXECUTED, L.COUNT_STALL + L.STALL_SELECTED]] = warps
    counters[:, [L.COUNT_THREADS, L.COUNT_PRED_ON]] = 32 * warps
    for instruction, fields in (line or {}).items():
        for field, count in fields.items():
            counters[instruction, field] = count
    issued = int(counters[:, L.COUNT_EXECUTED].sum())
    system = np.zeros(S.COUNTERS, np.int64)
    for counter, count in (memory or {}).items():
        system[counter] = count
    record = LaunchRecord(
        config=config,
        program=program,
        launch=Launch(program, grid, block),
        occupancy=occupancy(config, block, program.registers, program.static_shared_bytes),
        code=lower(program).code,
        cycles=cycles,
        counters=counters,
        sm_active_cycles=np.full(sms, active_cycles, np.int64),
        sm_warp_cycles=np.full(sms, warp_cycles, np.int64),
        sm_scheduler_cycles=np.full(sms, 4 * active_cycles, np.int64),
        sm_issued=np.full(sms, issued // sms, np.int64),
        sm_blocks=np.full(sms, grid // sms, np.int64),
        memory=system,
        host_seconds=0.5,
        host_threads=2,
        compile_seconds=0.0,
    )
    return replace(record, **changes)


def stall(reason: int) -> int:
    """Index of a stall reason's counter, for the `line` of `make_record`."""
    return L.COUNT_STALL + reason
