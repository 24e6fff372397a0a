"""Offsets of a launch's values in constant bank 0, as compiled code reads them: block and grid size, stack, windows.

The offsets are no interface of CUDA's; each comes from assembling PTX that reads one special register (%ntid,
%dynamic_smem_size, %envreg1, ...) for each architecture with ptxas 13.5 and looking at the load that it becomes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isa.program import Program

_CLUSTER_BYTES = 0xA0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchValues:
    """Byte offsets in constant bank 0; None where an architecture has no such value."""

    block: int
    """Threads of a block in x, y and z, 4 bytes each (%ntid)."""
    grid: int
    """Blocks of the grid in x, y and z, 4 bytes each (%nctaid)."""
    stack: int
    """First address behind a thread's local memory, 4 bytes: where R1 starts."""
    dynamic_shared: int
    """Bytes of dynamic shared memory, 4 bytes (%dynamic_smem_size)."""
    grid_number: int
    """8 bytes (%gridid)."""
    sm_count: int
    """4 bytes (%nsmid)."""
    reserved_shared: int | None = None
    """Bytes of shared memory that belong to the system, 4 bytes: %total_smem_size is SR_SMEMSZ less these."""
    environment: int
    """32 values of 4 bytes from the driver for library code, such as the workspace of grid-wide barriers (%envreg0)."""
    shared_window: int | None = None
    """Start of shared memory among generic addresses, 8 bytes; from sm_90 on SR_SWINHI says it."""
    local_window: int
    """Start of local memory among generic addresses, 8 bytes."""
    constants: int
    """Device address of constant bank 3, 8 bytes, for code that points to a `__constant__` variable."""
    parameter_window: int | None = None
    """Generic address of constant bank 0's first byte, 8 bytes: how code takes the address of a parameter."""
    is_cluster: int | None = None
    """Not zero for a launch with clusters, 4 bytes (%is_explicit_cluster)."""
    cluster: int | None = None
    """Blocks of a cluster in x, y and z, 4 bytes each (%cluster_nctaid)."""
    cluster_reciprocals: int | None = None
    """Single-precision reciprocals of a cluster's blocks in x, y and z: %clusterid is a product with one."""
    clusters: int | None = None
    """Clusters of the grid in x, y and z, 4 bytes each (%nclusterid)."""
    cluster_blocks: int | None = None
    """Blocks of a cluster, 4 bytes (%cluster_nctarank)."""


@cache
def launch_values(arch: str) -> LaunchValues:
    """The offsets for an architecture such as 'sm_90'; an unknown one is taken as the next known one below it."""
    number = max(int("".join(filter(str.isdigit, arch))), 75)
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    # What an architecture does not say is as before it, but for Blackwell's, which are all new.
    first = 100 if number >= 100 else 0
    found: dict[str, int] = {}
    for since, values in known.items():
        found |= values if first <= int(since) <= number else {}
    return LaunchValues(**found)


def reads_launch_value(program: Program, offset: int) -> bool:
    """True if a program's code has the 8 bytes at an offset in constant bank 0 as an operand."""
    return any(offset <= at < offset + 8 for at in program.once("read of bank 0", lambda: _read_of_bank_0(program)))


def _read_of_bank_0(program: Program) -> frozenset[int]:
    return frozenset(
        operand.offset - (_CLUSTER_BYTES if operand.base else 0)
        for each in program.instructions
        for operand in each.operands
        if operand.kind == "const" and operand.bank == 0
    )
