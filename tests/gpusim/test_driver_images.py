"""Fat binaries as the tool chain's `fatbinary` writes them: which entry a GPU gets, and what it is unpacked to."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpusim import load_config
from gpusim.driver import images
from gpusim.driver.codes import DriverError, ResultCode
from isa import assemble
from isa.cubin import read_cubin
from isa.errors import ToolchainMissing
from isa.toolchain import find_tool

pytestmark = pytest.mark.usefixtures("toolchain")
PTX = """.version 8.8\n.target {target}\n.address_size 64
.visible .entry {name}(.param .u64 out) {{ .reg .u64 p; ld.param.u64 p, [out]; st.global.u64 [p], p; ret; }}\n"""
GPUS = {"sm_75": "t4", "sm_80": "a100", "sm_90": "h200", "sm_100": "b200"}


@pytest.fixture(scope="module")
def fatbinary() -> str:
    try:
        return find_tool("fatbinary")
    except (ToolchainMissing, KeyError):
        pytest.skip("there is no fatbinary")


@cache
def content(spec: str) -> bytes:
    """What a file of a name such as 'sm_90a.cubin', 'sm_90.ptx' or 'sm_90.relocatable' holds: a kernel of that name."""
    target, _, kind = spec.partition(".")
    text = PTX.format(target=target.replace("sm_75", "sm_70"), name=spec.replace(".", "_"))
    return text.encode() if kind == "ptx" else assemble(text, target, relocatable=kind == "relocatable")


def pack(folder: Path, fatbinary: str, *specs: str, options: tuple[str, ...] = ()) -> bytes:
    """A fat binary with these entries."""
    command = [fatbinary, "-64", f"--create={folder / 'out.fatbin'}", *options]
    for spec in specs:
        target, _, kind = spec.partition(".")
        (folder / spec).write_bytes(content(spec))
        kind = "ptx" if kind == "ptx" else "elf"
        command.append(f"--image3=kind={kind},sm={target.removeprefix('sm_')},file={folder / spec}")
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "out.fatbin").read_bytes()


def load(image: bytes, gpu: str = "h200") -> bytes:
    """The cubin that a GPU gets of an image in this process's memory."""
    buffer = ctypes.create_string_buffer(image, len(image) + 64)
    return images.read_image(ctypes.addressof(buffer), load_config(gpu))


def kernel(cubin: bytes) -> str:
    (name,) = read_cubin(cubin).kernels
    return name


MODES = {
    "stored": ("--compress=false",),
    "default": ("--compress-all",),
    "size": ("--compress-all", "--compress-mode=size"),
    "speed": ("--compress-all", "--compress-mode=speed"),
    "together": ("--compress-all", "-concat"),
}
LZ4, ZSTD = 0x2000, 0x8000


@pytest.mark.parametrize("mode", MODES)
def test_every_compression(mode: str, fatbinary: str, tmp_path: Path) -> None:
    """The very bytes of the file come back, however they were compressed."""
    specs = ("sm_80.cubin", "sm_90.cubin", "sm_90a.cubin", "sm_80.ptx")
    image = pack(tmp_path, fatbinary, *specs, options=MODES[mode])
    found = load(image)
    assert found.rstrip(b"\0") == content("sm_90a.cubin").rstrip(b"\0")
    assert load(image, "a100").rstrip(b"\0") == content("sm_80.cubin").rstrip(b"\0")
    flags = {int.from_bytes(image[at + 40 : at + 48], "little") for at in _headers(image)}
    expected = {"stored": 0, "speed": LZ4}.get(mode, ZSTD)
    assert all(each & (LZ4 | ZSTD) == expected for each in flags)


def _headers(image: bytes) -> list[int]:
    """Where the entries of a fat binary begin."""
    found, at = [], 16
    while at < len(image):
        found.append(at)
        at += int.from_bytes(image[at + 4 : at + 8], "little") + int.from_bytes(image[at + 8 : at + 16], "little")
    return found


CHOICES = {
    # specs of a fat binary: what GPUs of these architectures get
    ("sm_75.cubin", "sm_80.cubin", "sm_90.cubin"): {"sm_75": 0, "sm_80": 1, "sm_90": 2, "sm_100": None},
    ("sm_80.ptx", "sm_75.ptx", "sm_90.cubin"): {"sm_75": 1, "sm_80": 0, "sm_90": 2, "sm_100": 0},
    ("sm_90a.cubin", "sm_90.cubin", "sm_90.ptx"): {"sm_90": 0, "sm_100": 2, "sm_80": None},
    ("sm_100.cubin", "sm_100f.cubin", "sm_103f.cubin"): {"sm_100": 1, "sm_90": None},
    ("sm_103.cubin", "sm_100.cubin"): {"sm_100": 1},
    ("sm_90a.ptx", "sm_80.ptx"): {"sm_90": 0, "sm_100": 1, "sm_75": None},
    ("sm_90.relocatable", "sm_80.ptx"): {"sm_90": 1},
    ("sm_90.relocatable",): {"sm_90": None},
}


@pytest.mark.parametrize("specs", CHOICES, ids=" ".join)
def test_the_entry_that_fits(specs: tuple[str, ...], fatbinary: str, tmp_path: Path) -> None:
    image = pack(tmp_path, fatbinary, *specs, options=("--compress-all",))
    for arch, choice in CHOICES[specs].items():
        if choice is None:
            with pytest.raises(DriverError) as caught:
                load(image, GPUS[arch])
            assert caught.value.code == ResultCode.NO_BINARY_FOR_GPU
        else:
            found = load(image, GPUS[arch])
            target, _, kind = specs[choice].partition(".")
            assert kernel(found) == f"{target}_{kind}"
            assert read_cubin(found).arch == (arch if kind == "ptx" else target.rstrip("af"))


def test_other_entries_are_not_looked_at(fatbinary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the headers and the chosen entry are read; damage to that is found, to others it is not."""
    image = bytearray(pack(tmp_path, fatbinary, "sm_80.cubin", "sm_90.cubin", options=("--compress-all",)))
    other, chosen = (at + int.from_bytes(image[at + 4 : at + 8], "little") for at in _headers(bytes(image)))
    image[other : other + 64] = bytes(64)
    wanted, real = [], images.read

    def read(address: int, nbytes: int) -> bytes:
        wanted.append(nbytes)
        return real(address, nbytes)

    monkeypatch.setattr(images, "read", read)
    assert kernel(load(bytes(image))) == "sm_90_cubin"
    size = int.from_bytes(image[_headers(bytes(image))[1] + 16 :][:4], "little")
    assert size in wanted and sum(wanted) < size + 200
    image[chosen + 8 : chosen + 64] = bytes(56)
    with pytest.raises(DriverError) as caught:
        load(bytes(image))
    assert caught.value.code == ResultCode.INVALID_IMAGE


@pytest.mark.parametrize("place, value", [(16 + 4, 8), (16 + 56, 1 << 40), (16 + 56, 100)])
def test_damaged_headers(place: int, value: int, fatbinary: str, tmp_path: Path) -> None:
    image = bytearray(pack(tmp_path, fatbinary, "sm_90.cubin", options=("--compress-all",)))
    image[place : place + 8] = value.to_bytes(8, "little")
    with pytest.raises(DriverError) as caught:
        load(bytes(image))
    assert caught.value.code == ResultCode.INVALID_IMAGE


def test_ptx_for_one_architecture_alone() -> None:
    """Instructions that only sm_90a has are in reach of PTX that asks for it."""
    assert kernel(load(content("sm_90a.ptx"))) == "sm_90a_ptx"
    with pytest.raises(DriverError) as caught:
        load(content("sm_90a.ptx"), "b200")
    assert caught.value.code == ResultCode.INVALID_PTX


