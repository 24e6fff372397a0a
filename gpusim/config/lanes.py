"""Warps in rows of 32 lanes: programs are compiled for 32, and pipes' `initiation_cycles` count 32.

A warp of 16 fills half of a row; a warp of 64 is two rows. docs/warp_size.md says what that means.
"""

from __future__ import annotations

from gpusim.config.models import GPUConfig

#: Lanes of a row.
ROW = 32


def lanes_of_row(config: GPUConfig) -> int:
    """Threads that a row of 32 lanes holds: 16 of a warp of 16, else 32."""
    return min(config.gpu.warp_size, ROW)


def rows_of_warp(config: GPUConfig) -> int:
    """Rows of a warp: two of a warp of 64, else one."""
    return config.gpu.warp_size // lanes_of_row(config)


def row_cycles(config: GPUConfig, cycles: int) -> int:
    """Cycles that a unit needs for one row if it needs `cycles` for 32 lanes: in proportion, but at least one."""
    return -(-cycles * lanes_of_row(config) // ROW)


def warp_cycles(config: GPUConfig, cycles: int) -> int:
    """The same for all lanes of a warp."""
    return rows_of_warp(config) * row_cycles(config, cycles)
