"""What a program's own start tells the runtime: its fat binaries, and which of the host's functions and variables stand
for which kernels and variables of the device.

Nothing is read or loaded until it is asked for: a library may register thousands of kernels and launch three.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusim.driver.objects import LoadedModule


@dataclass
class FatBinary:
    """A fat binary of the program. handle: the address of its wrapper; managed: its managed variables, as (place of the
    host's pointer, address of the name); modules: what was loaded of it, by context."""

    handle: int
    managed: list[tuple[int, int]] = field(default_factory=list)
    modules: dict[int, LoadedModule] = field(default_factory=dict)


@dataclass
class Registrations:
    """By the host's addresses: fat binaries; of functions and variables, (fat binary, address of the device's name)."""

    binaries: dict[int, FatBinary] = field(default_factory=dict)
    functions: dict[int, tuple[FatBinary, int]] = field(default_factory=dict)
    variables: dict[int, tuple[FatBinary, int]] = field(default_factory=dict)

    def forget(self, handle: int) -> None:
        """The program unloads a fat binary."""
        gone = self.binaries.pop(handle, None)
        for table in (self.functions, self.variables):
            for address in [each for each, (binary, _) in table.items() if binary is gone]:
                del table[address]
