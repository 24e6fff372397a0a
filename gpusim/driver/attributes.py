"""Device attributes of the driver API by number, from the configuration.

Numbers and meanings are those of `CUdevice_attribute` in the CUDA Driver API; `attributes.toml` has those that are a
number or a key of the configuration. What is not listed is 0: sharing of memory with other hardware, multicast, and
everything else that this device does not have.
"""

from __future__ import annotations

import tomllib
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusim.config import GPUConfig

DRIVER_VERSION = 13030
"""CUDA 13.3: the newest version whose variants of functions are known here."""
LAST_ATTRIBUTE = 147
"""The newest number that a driver of CUDA 13 knows; those behind it are refused."""
_VALUES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Numbers, or keys of the configuration, by number as text."""


def uuid(number: int) -> bytes:
    """16 bytes, of a GPU by its number in the node."""
    return b"gpusim simulate" + bytes([ord("d") + number])


def uuid_text(number: int) -> str:
    """The same as text."""
    text = uuid(number).hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def pci_bus_id(number: int) -> str:
    """Where a GPU of the node lies: domain, bus, device."""
    return f"0000:{number:02x}:00.0"


def compute_capability(config: GPUConfig) -> tuple[int, int]:
    """(9, 0) for sm_90."""
    number = int("".join(c for c in config.gpu.arch.partition("_")[2] if c.isdigit()))
    return number // 10, number % 10


def device_attributes(config: GPUConfig, number: int, is_shared: bool = False) -> dict[int, int]:
    """Values by number, of a GPU of the node, that processes may share; see the top of this file for the others."""
    major, minor = compute_capability(config)
    # 32-bit pseudo channels, and the clock at which two transfers each make the bandwidth.
    bus_bits = 32 * config.dram.channels
    return {
        **{int(key): attrgetter(value)(config) if isinstance(value, str) else value
           for key, value in _VALUES.items()},
        **dict(enumerate((*config.launch.max_block, *config.launch.max_grid), 2)),
        13: config.gpu.clock_mhz * 1000,
        33: number,
        36: round(config.dram.bandwidth_gb_s * 1e6 * 8 / bus_bits / 2),
        37: bus_bits,
        75: major,
        76: minor,
        120: int(config.sm.max_cluster_blocks > 1),
        125: int(is_shared),  # events between processes
        127: int(major >= 9),  # tensor maps
    }  # fmt: skip
