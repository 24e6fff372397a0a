"""Fuzz the engine: instruction streams that no compiler would make, from real kernels with damage in their operands,
targets, control bits and order, run on the tiny GPU.

Compiled code does not check its array indices, so whatever is wrong with a stream has to be found before it runs or by
the instruction that does it. Every stream has to end with a result or with an error of `gpusim`.
`NUMBA_BOUNDSCHECK=1` (and a cache folder of its own) makes an index outside its array a finding even where it does
no harm. Command line: `python -m tests.fuzz.streams [--count N] [--seed S]`; it prints each number before it runs it to
`--log`, so that the stream that ended the process is known.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import gpusim
from gpusim.launch import Launch
from isa.errors import DecodeError, IsaError
from isa.instruction import INSTRUCTION_BYTES, Instruction, parse_instruction
from isa.program import Program
from programs import images, registry
from tests.fuzz.fuzz import OutOfTime, deadline
from tests.fuzz.mutate import ABSURD

MAX_CYCLES = 20_000
_SECONDS = 60.0
_NUMBER = re.compile(r"0x[0-9a-f]+|(?<=R)\d+|(?<=P)[0-6]|(?<=\[)R\d+|(?<=B)\d+")


@cache
def _variants() -> tuple[str, ...]:
    return tuple(sorted(each.name for family in registry.families().values() for each in family))


def stream(number: int, seed: int) -> tuple[Program, Launch, dict]:
    """The damaged program, its launch and its options of one number."""
    rng = random.Random(f"stream {seed} {number}")
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


def attempt(number: int, seed: int) -> str:
    """How a stream ended: 'result', an error's class, or what is wrong, beginning with 'finding'."""
    program, launch, options = stream(number, seed)
    try:
        with deadline(_SECONDS):
            gpusim.simulate(program, launch.grid, launch.block, launch.args, "tiny", launch.shared_bytes, **options)
    except IsaError as error:
        return type(error).__name__ if str(error).strip() else "finding: an error without a message"
    except OutOfTime:
        return "finding: out of time"
    except Exception as error:
        return f"finding: {type(error).__name__}: {error}"
    return "result"


def warm() -> None:
    """Compiles the engine, which no deadline should stop."""
    launch = registry.get("vector_add").make(256, 0)
    gpusim.simulate(images.for_launch(launch), launch.grid, launch.block, launch.args, "tiny")


def main() -> int:
    """Run the command; the exit code says whether there was a finding."""
    parser = argparse.ArgumentParser(description="Run damaged instruction streams on the tiny GPU.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    faulthandler.enable()
    warm()
    ends: dict[str, int] = {}
    for number in range(options.first, options.first + options.count):
        if options.log:
            options.log.write_text(f"{options.seed} {number}\n")
        end = attempt(number, options.seed)
        kind = end.partition(":")[0]
        ends[kind] = ends.get(kind, 0) + 1
        if kind == "finding":
            print(f"stream {number} of seed {options.seed}: {end}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(ends.items())))
    return int("finding" in ends)


if __name__ == "__main__":
    sys.exit(main())
