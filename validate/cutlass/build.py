"""Compile CUTLASS kernels with nvcc, and let their host code say how they are launched; needs no GPU.

The headers are those of the folder in $CUTLASS_HOME, of one release. What was compiled is kept in the user's cache, by
content.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from isa.cubin import read_cubin
from isa.folders import cache_folder
from isa.listing import program_from_cubin
from isa.program import Program
from isa.toolchain import find_tool, tool_version
from validate.cutlass.cases import CASES, KERNELS
from validate.foreign.launch import BuiltLaunch, MapHole, NotBuilt

VERSION = "4.7.0"
_HERE = Path(__file__).parent
_FIRST, _APART = 0x7A0000000000, 32
"""Placeholder addresses of `launch.h`: the first, and how many bits the next is away."""
_MAP = struct.Struct("<8sQ5Q4Q5H5B6B")
_MAGIC = b"A MAP IS"
_OPTIONS = (
    *("-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-cudart", "none", "-w", "-DNDEBUG"),
    *("--expt-relaxed-constexpr", "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1"),
    # Wheels of several minor versions of CUDA get on well enough.
    *("-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK", "-Xlinker", "--unresolved-symbols=ignore-all"),
    *("-Xcompiler", "-no-pie"),
)


def require() -> None:
    """Raises NotBuilt if there are no headers of the version that was measured."""
    home = os.environ.get("CUTLASS_HOME")
    if home is None or not Path(home, "include/cutlass/version.h").exists():
        raise NotBuilt("set CUTLASS_HOME to a folder with CUTLASS's include/, tools/ and examples/")
    text = Path(home, "include/cutlass/version.h").read_text()
    found = ".".join(re.findall(r"define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text))
    if found != VERSION:
        raise NotBuilt(f"CUTLASS_HOME holds CUTLASS {found}, not {VERSION}")


def build(name: str) -> tuple[bytes, Program, BuiltLaunch]:
    """The cubin, its program, and the launch, of a case. Raises NotBuilt."""
    require()
    kernel, size = CASES[name]
    folder = _compiled(kernel)
    cubin = (folder / "kernel.cubin").read_bytes()
    symbol = _launched(folder, size, "")["kernel"][0]
    parameters = sorted(read_cubin(cubin).kernels[symbol].parameters, key=lambda each: each.index)
    said = _launched(folder, size, " ".join(str(each.size) for each in parameters))
    program = program_from_cubin(cubin, symbol, abi="c", path=f"{kernel}.cubin")
    places = tuple((each.offset, each.size) for each in parameters)
    area = bytearray(max(offset + size for offset, size in places))
    for (offset, _), text in zip(places, said["parameter"], strict=True):
        piece = bytes.fromhex(text)
        area[offset : offset + len(piece)] = piece
    maps = _maps(area)
    x, y, z = ([int(part) for part in said[key][0].split()] for key in ("grid", "block", "cluster"))
    launch = BuiltLaunch(
        symbol=symbol,
        code_sha256=program.code_sha256,
        grid=(x[0], x[1], x[2]),
        block=(y[0], y[1], y[2]),
        cluster=(z[0], z[1], z[2]),
        shared_bytes=int(said["shared"][0]),
        parameters=places,
        area=area.hex(),
        pointers=tuple(
            (at, *divmod(word - _FIRST, 1 << _APART))
            for at in range(0, len(area) - 7, 8)
            if _FIRST <= (word := int.from_bytes(area[at : at + 8], "little")) < _FIRST + (8 << _APART)
        ),
        maps=maps,
        scratch_bytes=int(said["workspace"][0]),
    )
    return cubin, program, launch


def how(name: str) -> dict[str, Any]:
    """How a case is compiled, for the recording."""
    kernel = KERNELS[CASES[name][0]]
    return {"source": kernel.source, **kernel.macros}


def tools() -> dict[str, str]:
    """What compiles."""
    return {"cutlass": VERSION, "nvcc": tool_version("nvcc")}


@cache
def _compiled(name: str) -> Path:
    """A folder with the kernel's cubin and its host program."""
    kernel, home = KERNELS[name], os.environ["CUTLASS_HOME"]
    defines = "".join(f"#define {macro} {value}\n" for macro, value in kernel.macros.items())
    sources = [_HERE / file for file in (kernel.source, "launch.h", "capture.cpp")]
    parts = [defines, VERSION, tool_version("nvcc"), *_OPTIONS, *(each.read_text() for each in sources)]
    folder = cache_folder() / "cutlass" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        Path(place, "kernel.cu").write_text(f'{defines}#include "{kernel.source}"\n')
        include = [f"-I{each}" for each in (f"{home}/include", f"{home}/tools/util/include", home, _HERE)]
        files = [f"{place}/kernel.cu", str(_HERE / "capture.cpp"), "-o", f"{place}/host"]
        line = [find_tool("nvcc"), *_OPTIONS, *include, "--keep", "--keep-dir", place, *files]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise NotBuilt(f"nvcc cannot compile {name}:\n{(done.stdout + done.stderr)[-2000:]}")
        kept = Path(place, "kept")
        kept.mkdir()
        for file in ("kernel.cubin", "host"):
            Path(place, file).rename(kept / file)
        kept.rename(folder)
    return folder


def _launched(folder: Path, size: tuple[int, ...], sizes: str) -> dict[str, list[str]]:
    """What the host program prints, by the first word of its lines. sizes: of the kernel's parameters."""
    line = [str(folder / "host"), *map(str, size)]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PARAMETER_SIZES": sizes})
    if done.returncode:
        raise NotBuilt(f"the host program refuses {size}: status {done.returncode} {done.stderr[-500:]}")
    found: dict[str, list[str]] = {}
    for text in done.stdout.splitlines():
        word, _, rest = text.partition(" ")
        found.setdefault(word, []).append(rest)
    if len(found.get("kernel", ())) != 1:
        raise NotBuilt(f"the host program launches {len(found.get('kernel', ()))} kernels for {size}")
    return found


def _maps(area: bytearray) -> tuple[MapHole, ...]:
    """The tensor maps in a parameter area, whose places are cleared."""
    found = []
    while (at := area.find(_MAGIC)) >= 0:
        _, address, *rest = _MAP.unpack(area[at : at + _MAP.size])
        shape, strides, box, steps = rest[:5], rest[5:9], rest[9:14], rest[14:19]
        kind, rank, interleave, swizzle, promotion, fill = rest[19:]
        area[at : at + 128] = bytes(128)
        array, delta = divmod(address - _FIRST, 1 << _APART)
        cut = tuple(shape[:rank]), tuple(strides[: rank - 1]), tuple(box[:rank]), tuple(steps[:rank])
        found.append(MapHole(at, array, kind, *cut, swizzle, promotion, fill, interleave, delta))
    return tuple(found)
