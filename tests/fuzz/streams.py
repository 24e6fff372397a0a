"""Fuzz the engine: instruction streams that no compiler would make, from real kernels with damage in their operands,
targets, control bits and order, run on the tiny GPU.

Compiled code does not check its array indices, so whatever is wrong with a stream has to be found before it runs or by
the instruction that does it. Every stream has to end with a result or with an error of `gpusim`.
`NUMBA_BOUNDSCHECK=1` (and a cache folder of its own) makes an index outside its array a finding even where it does
no harm.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache

import gpusim
from gpusim.launch import Launch
from isa.errors import DecodeError
from isa.instruction import INSTRUCTION_BYTES, Instruction, parse_instruction
from isa.program import Program
from programs import images, registry
from tests.fuzz.mutate import ABSURD

MAX_CYCLES = 20_000
_NUMBER = re.compile(r"0x[0-9a-f]+|(?<=R)\d+|(?<=P)[0-6]|(?<=\[)R\d+|(?<=B)\d+")


@cache
def _variants() -> tuple[str, ...]:
    return tuple(sorted(each.name for family in registry.families().values() for each in family if each.image))


def stream(number: int) -> tuple[Program, Launch, dict]:
    """The damaged program, its launch and its options of one number."""
    rng = random.Random(number)
    name = rng.choice(_variants())
    variant = registry.get(name)
    launch = variant.make(variant.test_size, 0)
    program = images.for_launch(launch)
    assert program is not None
    instructions = list(program.instructions)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        _damage(rng, instructions, program.labels)
    damaged = replace(program, instructions=tuple(_renumbered(instructions)), source={})
    options = {
        "check": rng.choice(((), (), ("initcheck",), ("racecheck",), ("initcheck", "racecheck", "synccheck"))),
        "strict_barriers": rng.random() < 0.7,
        "max_cycles": MAX_CYCLES,
        "threads": 1,
    }
    return damaged, launch, options


def _renumbered(instructions: list[Instruction]) -> list[Instruction]:
    return [replace(each, address=INSTRUCTION_BYTES * index) for index, each in enumerate(instructions)]


def _damage(rng: random.Random, instructions: list[Instruction], labels: dict[str, int]) -> None:
    """One change: of an operand, of where a branch goes, of the control bits, or of the order."""
    at = rng.randrange(len(instructions))
    old = instructions[at]
    kind = rng.randrange(10)
    if kind == 0 and len(instructions) > 2:
        del instructions[at]
    elif kind == 1:
        instructions.insert(at, instructions[rng.randrange(len(instructions))])
    elif kind == 2:
        other = rng.randrange(len(instructions))
        instructions[at], instructions[other] = instructions[other], instructions[at]
    elif kind == 3:
        encoding = old.encoding ^ rng.getrandbits(21) << 105
        instructions[at] = parse_instruction(old.address, old.text, encoding, labels, old.line, old.file)
    elif kind == 4 and len(labels) > 1:
        branches = [k for k, each in enumerate(instructions) if "`(" in each.text]
        if branches:
            at = rng.choice(branches)
            old = instructions[at]
            target = rng.choice([*labels.values(), 0, 16, INSTRUCTION_BYTES * len(instructions), 1 << 20, -16])
            moved = {label: target for label in labels}
            instructions[at] = parse_instruction(old.address, old.text, old.encoding, moved, old.line, old.file)
    else:
        instructions[at] = _other_operand(rng, old, labels)


def _other_operand(rng: random.Random, old: Instruction, labels: dict[str, int]) -> Instruction:
    """The instruction with a register, predicate, immediate or guard exchanged, if it can still be decoded."""
    text = old.text
    found = list(_NUMBER.finditer(text))
    if rng.random() < 0.1:
        text = f"@{rng.choice(('', '!'))}P{rng.randrange(7)} {text.partition(' ')[2] if text[0] == '@' else text}"
    elif found:
        match = rng.choice(found)
        number = rng.choice((rng.randrange(256), rng.randrange(64), rng.choice(ABSURD)))
        word = hex(number & 0xFFFFFFFF) if match[0].startswith("0x") else str(number)
        text = text[: match.start()] + ("R" + word if match[0].startswith("R") else word) + text[match.end() :]
    try:
        return parse_instruction(old.address, text, old.encoding, labels, old.line, old.file)
    except DecodeError:
        return old


def make(rng: random.Random) -> bytes:
    """The number of a stream, once the engine is compiled, which no deadline should stop."""
    _warm()
    return str(rng.getrandbits(32)).encode()


def run(data: bytes) -> None:
    """Simulates the stream of a number."""
    program, launch, options = stream(int(data))
    gpusim.simulate(program, launch.grid, launch.block, launch.args, "tiny", launch.shared_bytes, **options)


@cache
def _warm() -> None:
    launch = registry.get("vector_add").make(256, 0)
    gpusim.simulate(images.for_launch(launch), launch.grid, launch.block, launch.args, "tiny")
