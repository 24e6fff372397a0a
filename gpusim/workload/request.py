"""Requests for runs, as plain values under the names of `gpusim run`'s options. No heavy imports here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

BUNDLED_PARAMETERS = ("size", "seed")
"""Parameters of a bundled program that can be chosen."""
LAUNCH_PARAMETERS = ("grid", "block", "args", "signature", "entry", "abi", "shared_bytes", "cuda_options")
OWN_PARAMETERS = ("seed", *LAUNCH_PARAMETERS)
"""And for a kernel of the user's."""
COMPILED = (".cubin", ".ptx", ".cu", ".gpuprog")


def option(metavar: str, help: str, group: str = "your own kernels", default: Any = None, **more: Any) -> Any:
    """A field that is an option of the command line, as `gpusim.cli.options.add_field_options` makes it. more: further
    arguments of argparse, and `flag`, if the option has not the field's name."""
    return field(default=default, metadata={"metavar": metavar, "help": help, "group": group, **more})


@dataclass(frozen=True)
class Request:
    """A program and how to launch it. Whatever is None is the program's own, or not needed.

    program: a bundled variant ("matmul/tiled"), FILE.py:KERNEL, or a compiled file. size: of a bundled program; seed:
    of random inputs. The rest is for kernels of the user's: grid, block ("16,16") and args as `spec` reads them,
    signature as Numba spells it, entry and abi as for `isa.load`, shared_bytes of dynamic shared memory, cuda_options
    of the compiler for a .cu file as on a command line ("-DTILE=16 -I include").
    """

    program: str
    size: int | None = option("N", "problem size (default: the program's own)", "bundled programs")
    seed: int = option("N", "seed of random inputs (default: 0)", "", 0)
    grid: str | None = option("X[,Y[,Z]]", "blocks of the grid")
    block: str | None = option("X[,Y[,Z]]", "threads of a block")
    args: str | None = option(
        "SPEC", "the kernel's arguments, such as 'float32[1024]=random, float32[32,32], int32(7), 2.5'; see below"
    )
    signature: str | None = option("TYPES", "Numba types of the arguments, such as 'void(float32[::1], int32)'")
    entry: str | None = option("NAME", "kernel of a file that holds several")
    abi: str | None = option("", "how the file's kernel takes arguments (default: guessed)", choices=("numba", "c"))
    shared_bytes: int | None = option("N", "dynamic shared memory per block (default: 0)")
    cuda_options: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Request:
        """The fields among these values, such as those of a parsed command line."""
        return cls(**{each.name: values[each.name] for each in fields(cls) if values.get(each.name) is not None})

    @property
    def file(self) -> str | None:
        """The file of the user's that holds the kernel; None for a bundled program."""
        path, _, _ = self.program.rpartition(":")
        if path.endswith(".py"):
            return path
        return self.program if self.program.lower().endswith((".py", *COMPILED)) else None

    @property
    def kernel(self) -> str | None:
        """The kernel of a Python file that is asked for."""
        return (self.program.rpartition(":")[2] if self.file != self.program else None) or self.entry


SAMPLERS = ("tpe", "nsga2", "random")


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search: the keys of a file's table [search], and options of `gpusim search`. Arguments of
    `gpusim.explore.search.search`, which says what they mean; where they are None it takes its defaults."""

    goals: tuple[str, ...] | None = option(
        "COLUMN",
        "what is to be small: time_us, cycles, energy_j, energy_delay, launch_w, area_mm2, power_w (the machine's) or "
        "a metric (may be repeated; 'max COLUMN' for what is to be large; default: time_us)",
        "", flag="--goal", action="append",
    )  # fmt: skip
    limits: tuple[str, ...] | None = option(
        "'COLUMN <= X'",
        "what must be kept; X is a number, or for area_mm2 and power_w a configuration (may be repeated)",
        "", flag="--limit", action="append",
    )  # fmt: skip
    trials: int | None = option("N", "machines to try (default: 100)", "")
    sampler: str | None = option("", "who proposes them (default: tpe)", "", choices=SAMPLERS)
    seed: int | None = option("N", "seed of the proposals (default: 0)", "")
    batch: int | None = option("N", "machines proposed at once (default: 1)", "")
    population: int | None = None
    derived: dict[str, str] | None = None
