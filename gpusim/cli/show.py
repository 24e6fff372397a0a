"""`gpusim show`: machine code with its source lines, and with `--run` what each instruction costs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import print_json, versioned
from gpusim.cli.run import simulate_target, target_of
from gpusim.units import aligned, joule_text

if TYPE_CHECKING:
    from gpusim.result import Result
    from isa import Program
    from isa.instruction import Control


def execute(options: argparse.Namespace) -> None:
    from gpusim.config import load_config
    from gpusim.launch.arguments import program_of

    target = target_of(options, launchable=options.run)
    result = None
    if options.run:
        result = simulate_target(target, options)
        program = result.record.program
    else:
        config = load_config(options.gpu, options.overrides)
        program = program_of(target.launch, config.gpu.arch)
    if options.json:
        print_json(versioned(_document(program, result)))
    else:
        for line in listing(program, result, control=options.control):
            print(line.rstrip())


def listing(program: Program, result: Result | None = None, *, control: bool = False) -> list[str]:
    """Lines of the listing: each source line, once per run of instructions that come from it, then those."""
    lines = [
        f"{program.name}: {len(program.instructions)} instructions, {program.arch}, {program.registers} registers, "
        f"{program.static_shared_bytes:,} bytes of static shared memory"
    ]
    if result is not None:
        lines.append(f"{'instructions':>14}{'threads':>9}{'cycles':>13}{'energy':>10}  {'main stall':<20}")
    place: tuple[str | None, int | None] | None = None
    for index, each in enumerate(program.instructions):
        if (each.file, each.line) != place:
            place = each.file, each.line
            where = f"{Path(each.file).name}:{each.line}" if each.file else "unknown source"
            lines += ["", f"{where}  {(program.source_line(each) or '').strip()}"]
        costs = ""
        if result is not None:
            row = result.instructions[index]
            costs = aligned(
                (f"{row.instructions:,}", 14), (f"{row.threads_per_instruction:.1f}", 9), (f"{row.cycles:,}", 13),
                (joule_text(row.energy_j or 0.0), 10), (f"  {row.main_stall or '-'}", -22),
            )  # fmt: skip
        bits = f"{control_text(each.control)}  " if control else ""
        lines.append(f"{costs}  {each.address:04x}  {bits}{each.text}")
    return lines


def control_text(control: Control) -> str:
    """Scheduling bits in short: 'B01---- R- W2 Y S04'."""
    wait = "".join(str(k) if control.wait_mask >> k & 1 else "-" for k in range(6))
    read = "-" if control.read_barrier == 7 else str(control.read_barrier)
    write = "-" if control.write_barrier == 7 else str(control.write_barrier)
    return f"B{wait} R{read} W{write} {'Y' if control.yield_flag else '-'} S{control.stall:02d}"


def _document(program: Program, result: Result | None) -> dict[str, Any]:
    rows = []
    for index, each in enumerate(program.instructions):
        bits = each.control._asdict()
        control = {"yield": bits.pop("yield_flag")} | {name: bit for name, bit in bits.items() if name != "reuse"}
        row: dict[str, Any] = {name: getattr(each, name) for name in ("address", "text", "file", "line")}
        row |= {"source": (program.source_line(each) or "").strip(), "control": control}
        if result is not None:
            row["costs"] = result.instructions[index].to_dict()
        rows.append(row)
    return {
        "kernel": program.name,
        "arch": program.arch,
        "registers": program.registers,
        "static_shared_bytes": program.static_shared_bytes,
        "instructions": rows,
    }
