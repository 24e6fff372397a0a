"""`cudaDeviceProp`: the layout in CUDA 12 and 13 (driver_types.h), and the values for a configuration."""

from __future__ import annotations

import ctypes
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.driver.attributes import device_attributes, uuid

if TYPE_CHECKING:
    from gpusim.config import GPUConfig

# A field a word: its name, and behind a colon what is not an int: q for size_t, u for unsigned, a number for so many
# ints, c and a number for bytes. Those behind '12/' are CUDA 12's alone, behind '13/' newer than it.
_LAYOUT = Path(__file__).with_name("properties.txt").read_text()
_BY_ATTRIBUTE = tomllib.loads(Path(__file__).with_name("attributes.toml").read_text())
"""Fields that are attributes of the device, by number of `cudaDeviceAttr`."""
_BY_ATTRIBUTES = {
    "maxThreadsDim": (2, 3, 4), "maxGridSize": (5, 6, 7), "maxTexture2D": (22, 23), "maxTexture2DMipmap": (73, 74),
    "maxTexture2DLinear": (70, 71, 72), "maxTexture2DGather": (45, 46), "maxTexture3D": (24, 25, 26),
    "maxTexture3DAlt": (47, 48, 49), "maxTexture1DLayered": (42, 43), "maxTexture2DLayered": (27, 28, 29),
    "maxTextureCubemapLayered": (53, 54), "maxSurface2D": (56, 57), "maxSurface3D": (58, 59, 60),
    "maxSurface1DLayered": (61, 62), "maxSurface2DLayered": (63, 64, 65), "maxSurfaceCubemapLayered": (67, 68),
}  # fmt: skip
"""Fields that consist of several attributes, by their numbers."""


@cache
def layout(version: int) -> type[ctypes.Structure]:
    """The structure of CUDA 12 or 13."""
    kinds: dict[str, Any] = {"q": ctypes.c_size_t, "u": ctypes.c_uint, "": ctypes.c_int}
    fields: list[tuple[str, Any]] = []
    for word in _LAYOUT.split():
        only, _, field = word.rpartition("/")
        name, _, kind = field.partition(":")
        if only and int(only) != version:
            continue
        if kind.startswith("c"):
            fields.append((name, ctypes.c_char * int(kind[1:])))
        else:
            fields.append((name, ctypes.c_int * int(kind) if kind.isdigit() else kinds[kind]))
    return type("cudaDeviceProp", (ctypes.Structure,), {"_fields_": tuple(fields)})


def device_properties(config: GPUConfig, version: int, number: int, is_shared: bool) -> bytes:
    """The structure's bytes, of a GPU of the node, that processes may share. version: 12 or 13."""
    attributes = device_attributes(config, number, is_shared)
    made: Any = layout(version)()
    made.name, made.uuid = config.gpu.name.encode(), uuid(number)
    made.totalGlobalMem = config.dram.capacity_bytes
    for name, numbers in _BY_ATTRIBUTES.items():
        getattr(made, name)[:] = [attributes[number] for number in numbers]
    for name, number in _BY_ATTRIBUTE.items():
        if hasattr(made, name):
            setattr(made, name, attributes.get(number, 0))
    return bytes(made)
