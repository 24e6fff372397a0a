"""What is asked to be run, as plain values under the names of `gpusim run`'s options. No heavy imports here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

BUNDLED_PARAMETERS = ("size", "seed")
"""What can be chosen for a bundled program."""
LAUNCH_PARAMETERS = ("grid", "block", "args", "signature", "entry", "abi", "shared_bytes", "cuda_options")
OWN_PARAMETERS = ("seed", *LAUNCH_PARAMETERS)
"""And for a kernel of the user's."""
COMPILED = (".cubin", ".ptx", ".cu", ".gpuprog")


def _option(metavar: str, help: str, group: str = "your own kernels", default: Any = None, **more: Any) -> Any:
    """A field that is an option of the command line, as `gpusim.cli.options.add_field_options` makes it."""
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
    size: int | None = _option("N", "problem size (default: the program's own)", "bundled programs")
    seed: int = _option("N", "seed of random inputs (default: 0)", "", 0)
    grid: str | None = _option("X[,Y[,Z]]", "blocks of the grid")
    block: str | None = _option("X[,Y[,Z]]", "threads of a block")
    args: str | None = _option(
        "SPEC", "the kernel's arguments, such as 'float32[1024]=random, float32[32,32], int32(7), 2.5'; see below"
    )
    signature: str | None = _option("TYPES", "Numba types of the arguments, such as 'void(float32[::1], int32)'")
    entry: str | None = _option("NAME", "kernel of a file that holds several")
    abi: str | None = _option("", "how the file's kernel takes arguments (default: guessed)", choices=("numba", "c"))
    shared_bytes: int | None = _option("N", "dynamic shared memory per block (default: 0)")
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
