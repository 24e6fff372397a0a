"""The shared library that stands for libcuda.so.1: an ELF file that linkers accept, and its jumps."""

from __future__ import annotations

import ctypes
import io
import struct

import pytest
from elftools.elf.elffile import ELFFile

from gpusim.driver.elf import MACHINES, SLOTS, stub_library

NAMES = [f"cuFunction{k}" for k in range(700)]
SONAME = "libcuda.so.1"


def symbols(content: bytes) -> dict[str, int]:
    """Exported addresses, from the dynamic segment alone: the file has no sections."""
    segment = next(s for s in ELFFile(io.BytesIO(content)).iter_segments() if s.header.p_type == "PT_DYNAMIC")
    return {symbol.name: symbol.entry.st_value for symbol in segment.iter_symbols() if symbol.name}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_file_exports_every_function_and_its_table(machine):
    content = stub_library(NAMES, machine, SONAME)
    found = symbols(content)
    assert set(found) == {*NAMES, SLOTS}
    assert len(set(found.values())) == len(found)
    segment = next(s for s in ELFFile(io.BytesIO(content)).iter_segments() if s.header.p_type == "PT_DYNAMIC")
    assert [tag.soname for tag in segment.iter_tags("DT_SONAME")] == [SONAME]


def test_an_arm_stub_jumps_through_its_slot():
    """ADRP, LDR (immediate, unsigned offset) and BR as the Arm ARM lays them out, all with register x16."""
    content = stub_library(NAMES, "aarch64", SONAME)
    found = symbols(content)
    for k, name in enumerate(NAMES):
        adrp, load, jump = struct.unpack_from("<III", content, found[name])
        assert adrp & 0x9F00001F == 0x90000010
        pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
        pages -= (pages >> 20) << 21
        assert load & 0xFFC003FF == 0xF9400210
        target = (found[name] >> 12) + pages << 12 | (load >> 10 & 0xFFF) * 8
        assert target == found[SLOTS] + 8 * k
        assert jump == 0xD61F0200


def test_another_machine_is_refused():
    with pytest.raises(KeyError):
        stub_library(NAMES, "riscv64", SONAME)


def test_structures_of_the_interface_have_their_sizes():
    """CUlaunchConfig and CUDA_MEMCPY3D, counted from the header's declarations on a 64-bit host."""
    from gpusim.driver.api.copy import CopyBox
    from gpusim.driver.api.launch import LaunchConfig

    assert ctypes.sizeof(LaunchConfig) == 56
    assert LaunchConfig.stream.offset == 32
    assert ctypes.sizeof(CopyBox) == 200 and CopyBox.target.offset == 88 and CopyBox.width.offset == 176


def test_every_entry_point_can_be_called_as_its_signature_says():
    import inspect

    import gpusim.driver.library  # noqa: F401 - it declares them
    from gpusim.driver.registry import ENTRY_POINTS

    assert len(ENTRY_POINTS) > 150
    for point in ENTRY_POINTS.values():
        passed = [letter for letter in point.letters if letter and not letter.startswith("*")]
        inspect.signature(point.run).bind("driver", *passed)
