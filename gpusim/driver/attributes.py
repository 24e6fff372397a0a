"""Device attributes of the driver API by number, from the configuration.

Numbers and meanings are those of `CUdevice_attribute` in the CUDA Driver API. Limits of textures and surfaces are those
that an H200 tells, though there are none here. What is not listed is 0: sharing of memory with other processes and with
other hardware, multicast, and everything else that this device does not have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusim.config import GPUConfig

UUID = b"gpusim simulated"
"""16 bytes."""
PCI_BUS_ID = "0000:00:00.0"
DRIVER_VERSION = 13030
"""CUDA 13.3: the newest version whose variants of functions are known here."""
LAST_ATTRIBUTE = 147
"""The newest number that a driver of CUDA 13 knows; those behind it are refused."""
_CONSTANT_BYTES = 65536
_MAX_PITCH = 2147483647

_TEXTURES = {
    21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048, 42: 32768,
    43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768, 52: 32768, 53: 32768, 54: 2046, 55:
    32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768, 65:
    2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768,
    77: 32768,
}  # fmt: skip


_YES = (15, 19, 31, 32, 41, 78, 79, 80, 83, 89, 90, 91, 95, 96, 99, 113, 115, 129, 141, 144)
"""Set to 1: copies overlap with kernels (15), host memory can be mapped (19), kernels of several streams run at once
(31), there is ECC (32), addresses are unified (41), streams have priorities (78), L1 caches global and local memory
(79, 80), there is managed memory (83), for host and device at once (89), compute is preempted (90), registered memory
has one address (91), launches can be cooperative (95, 96), host memory can be registered (99), also to be read only
(113), and managed as virtual memory (144, 141 by node), there are pools (115), and pointers to functions are unified
(129). There is no virtual memory management of the device's (102), which programs ask before they use it."""


def compute_capability(config: GPUConfig) -> tuple[int, int]:
    """(9, 0) for sm_90."""
    number = int("".join(c for c in config.gpu.arch.partition("_")[2] if c.isdigit()))
    return number // 10, number % 10


def device_attributes(config: GPUConfig) -> dict[int, int]:
    """Values by number; see the top of this file for the others."""
    sm, launch = config.sm, config.launch
    major, minor = compute_capability(config)
    # 32-bit pseudo channels, and the clock at which two transfers each make the bandwidth.
    bus_bits = 32 * config.dram.channels
    clock_khz = round(config.dram.bandwidth_gb_s * 1e6 * 8 / bus_bits / 2)
    return {
        **_TEXTURES,
        **dict.fromkeys(_YES, 1),
        1: sm.max_threads_per_block,
        **dict(enumerate((*launch.max_block, *launch.max_grid), 2)),
        8: sm.static_shared_bytes_max,
        9: _CONSTANT_BYTES,
        10: config.gpu.warp_size,
        11: _MAX_PITCH,
        12: sm.registers,
        13: config.gpu.clock_mhz * 1000,
        14: 512,  # alignment of textures
        16: sm.count,
        30: 512,  # alignment of surfaces
        36: clock_khz,
        37: bus_bits,
        38: config.l2.bytes,
        39: sm.max_threads,
        40: 3,  # copy engines
        51: 32,  # alignment of a texture's rows
        75: major,
        76: minor,
        81: sm.shared_bytes,
        82: sm.registers,
        87: 2,  # ratio of single to double precision
        97: sm.shared_bytes_per_block_max,
        106: sm.max_blocks,
        108: config.l2.persisting_max_bytes,
        109: config.l2.window_max_bytes,
        111: sm.shared_reserved_bytes,
        120: int(sm.max_cluster_blocks > 1),
        126: 4,  # domains of memory fences
        127: int(major >= 9),  # tensor maps
        131: -1,  # NUMA node of its memory: none
    }
