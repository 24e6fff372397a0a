"""Requests for runs, as plain values under the names of `gpusim run`'s options. No heavy imports here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

BUNDLED_PARAMETERS = ("size", "seed")
"""Parameters of a bundled program that can be chosen."""
LAUNCH_PARAMETERS = ("grid", "block", "args", "signature", "entry", "abi", "shared_bytes", "cuda_options")
OWN_PARAMETERS = ("seed", *LAUNCH_PARAMETERS)
"""And for a kernel of the user's."""
COMPILED = (".cubin", ".ptx", ".cu", ".gpuprog")
_FILE = re.compile(rf"(.+?(?:\.py|{'|'.join(map(re.escape, COMPILED))}))(?::(.*))?", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """A program and how to launch it. Whatever is None is the program's own, or not needed.

    program: a bundled variant ("matmul/tiled"), FILE:KERNEL, or a file alone. size: of a bundled program; seed:
    of random inputs. The rest is for kernels of the user's: grid, block ("16,16") and args as `target` reads them,
    signature as Numba spells it, entry and abi as for `isa.load`, shared_bytes of dynamic shared memory, cuda_options
    of the compiler for a .cu file as on a command line ("-DTILE=16 -I include").
    """

    program: str
    size: int | None = None
    seed: int = 0
    grid: str | None = None
    block: str | None = None
    args: str | None = None
    signature: str | None = None
    entry: str | None = None
    abi: str | None = None
    shared_bytes: int | None = None
    cuda_options: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Request:
        """The fields among these values, such as those of a parsed command line."""
        return cls(**{each.name: values[each.name] for each in fields(cls) if values.get(each.name) is not None})

    @property
    def file(self) -> str | None:
        """The file of the user's that holds the kernel; None for a bundled program."""
        found = _FILE.fullmatch(self.program)
        return found and found[1]

    @property
    def kernel(self) -> str | None:
        """The kernel of the file that is asked for."""
        found = _FILE.fullmatch(self.program)
        return (found and found[2]) or self.entry
