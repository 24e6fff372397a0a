"""Limits of a kernel's numbers, checked whatever file they were read from.

Limits that differ between GPUs are checked at the launch, where the GPU is known; these are what the formats and the
architecture can express at all.
"""

from __future__ import annotations

import re
from typing import Any

from isa.instruction import INSTRUCTION_BYTES

BANK_BYTES = 1 << 16
"""A constant bank: offsets in instructions have 16 bits."""
MOST_GLOBAL_BYTES = 1 << 30
"""Variables of a module. GPUs have more memory, but no compiler makes an image of a gigabyte by intention."""
MOST_PARAMETERS = 4096
MOST_INSTRUCTIONS = 1 << 20
_MOST_BYTES = 1 << 32
_TARGET = re.compile(r"text|global|constant\d{1,2}")


def problem_with(kernel: Any) -> str | None:
    """The complaint about an impossible number of a kernel (`Program` or `CubinKernel`), or None."""
    for name, most in (
        ("registers", 255),
        ("static_shared_bytes", _MOST_BYTES),
        ("shared_base", BANK_BYTES),
        ("pair_barrier", 0x3F0),
        ("local_bytes", _MOST_BYTES),
        ("barriers", 127),
        ("parameter_base", BANK_BYTES),
        ("parameter_bytes", BANK_BYTES),
    ):
        value = getattr(kernel, name)
        if type(value) is not int or not 0 <= value <= most:
            return f"{name} is {value!r}"
    if kernel.max_threads is not None and (type(kernel.max_threads) is not int or kernel.max_threads < 0):
        return f"max_threads is {kernel.max_threads!r}"
    if len(kernel.parameters) > MOST_PARAMETERS:
        return f"it has {len(kernel.parameters):,} parameters"
    for each in kernel.parameters:
        numbers = each.index, each.offset, each.size
        if any(type(value) is not int or not 0 <= value <= BANK_BYTES for value in numbers):
            return f"parameter {each.index!r} has {each.size!r} bytes at {each.offset!r}"
        if kernel.parameter_base + each.offset + each.size > BANK_BYTES:
            return f"parameter {each.index} ends outside the constant bank"
    for bank, content in kernel.constant_banks.items():
        if type(bank) is not int or not 0 <= bank < 32 or len(content) > BANK_BYTES:
            return f"constant bank {bank} has {len(content):,} bytes"
    cluster = kernel.cluster
    if cluster is not None and not (len(cluster) == 3 and all(type(each) is int and each > 0 for each in cluster)):
        return f"cluster is {cluster!r}"
    return None


def problem_with_program(program: Any) -> str | None:
    """The complaint about a field that a program, read from an image, has beyond those of a kernel, or None."""
    for name in ("name", "symbol", "arch", "abi", "sha256"):
        if not isinstance(getattr(program, name), str):
            return f"{name} is not text"
    if program.abi not in ("numba", "c"):
        return f"abi is {program.abi!r}"
    if not 0 < len(program.instructions) <= MOST_INSTRUCTIONS:
        return f"it has {len(program.instructions):,} instructions"
    if any(not 0 <= each.encoding < 1 << 8 * INSTRUCTION_BYTES for each in program.instructions):
        return "an encoding has more than 128 bits"
    for each in program.instructions:
        if not (each.line is None or type(each.line) is int) or not (each.file is None or isinstance(each.file, str)):
            return f"line {each.line!r} of file {each.file!r} is no place in a source"
    if not all(isinstance(key, str) and type(value) is int for key, value in program.labels.items()):
        return "a label has no address"
    for file, lines in program.source.items():
        if not isinstance(file, str) or not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            return "the source is not text"
    if len(program.global_image) > MOST_GLOBAL_BYTES:
        return f"its variables take {len(program.global_image):,} bytes"
    for symbol in program.global_symbols:
        numbers = (symbol.offset, symbol.size, symbol.bank or 0)
        if not isinstance(symbol.name, str) or any(type(value) is not int or value < 0 for value in numbers):
            return f"variable {symbol.name!r} has {symbol.size!r} bytes at {symbol.offset!r}"
    for relocation in program.relocations:
        numbers = (relocation.offset, relocation.kind, relocation.addend)
        texts = (relocation.target, relocation.symbol)
        if any(type(value) is not int for value in numbers) or any(not isinstance(text, str) for text in texts):
            return f"the relocation of {relocation.symbol!r} is not one"
        if not _TARGET.fullmatch(relocation.target):
            return f"the relocation of {relocation.symbol!r} changes {relocation.target!r}"
    return problem_with(program)
