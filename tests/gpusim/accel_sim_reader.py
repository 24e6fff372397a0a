"""Reads Accel-Sim's kernel traces, word by word as its own reader does, and knows nothing of how gpusim writes them.

An instruction is a line: program counter, lanes, destinations, opcode, sources, for GMMA whether it ends a group, bytes
of an access (0: none), addresses, an immediate; in version 6 a second one, and values of registers.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BULK = ("UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG", "UBLKCP", "UBLKPF", "UBLKRED")
STRIDE, DELTA, BULK_DELTA = 1, 2, 4


@dataclass
class Line:
    """addresses: by lane, or in order for a bulk copy; None without any. values: of the destinations, then sources."""

    pc: int
    mask: int
    destinations: list[str]
    opcode: str
    sources: list[str]
    width: int = 0
    addresses: dict[int, int] | None = None
    immediates: list[int] = field(default_factory=list)
    values: list[list[int]] | None = None
    ends_group: bool = False
    bulk: dict[str, int] = field(default_factory=dict)


@dataclass
class KernelFile:
    """A kernel's file: what stands in its head, and the lines of each warp by (block, warp), in the file's order."""

    head: dict[str, str]
    warps: dict[tuple[tuple[int, ...], int], list[Line]]
    clusters: dict[tuple[int, ...], dict[str, str]]


def read_list(folder: Path) -> list[str | tuple[int, int]]:
    """Names of kernels' files, and (address, bytes) of copies."""
    entries: list[str | tuple[int, int]] = []
    for line in (folder / "kernelslist.g").read_text().splitlines():
        word, *rest = line.split(",")
        entries.append((int(rest[0], 16), int(rest[1])) if word == "MemcpyHtoD" else line)
    return entries


def read_kernel(path: Path) -> KernelFile:
    """A kernel's file, whose counts have to be right."""
    file = KernelFile({}, {}, {})
    left, warp, inside = 0, -1, False
    block: tuple[int, ...] = ()
    data = path.read_bytes()
    for line in (lzma.decompress(data) if path.suffix == ".xz" else data).decode().splitlines():
        name, equals, value = line.partition(" = ")
        if line in ("#BEGIN_TB", "#END_TB"):
            assert left == 0
            assert inside == (line == "#END_TB")
            inside = not inside
        elif line.startswith("-"):
            file.head[name[1:]] = value
        elif name == "thread block":
            block = tuple(map(int, value.split(",")))
        elif name.startswith("cluster "):
            file.clusters.setdefault(block, {})[name] = value
        elif name == "warp":
            assert left == 0
            warp = int(value)
        elif name == "insts":
            left = int(value)
            file.warps[block, warp] = []
        elif line and not line.startswith("#"):
            assert inside
            left -= 1
            assert left >= 0
            words = iter(line.split(" "))
            file.warps[block, warp].append(_line(words, int(file.head["accelsim tracer version"])))
            assert list(words) == [""]  # a space ends a line
    assert not equals
    assert left == 0
    return file


def _line(words: Iterator[str], version: int) -> Line:
    pc, mask = int(next(words), 16), int(next(words), 16)
    destinations = [next(words) for _ in range(int(next(words)))]
    opcode = next(words)
    line = Line(pc, mask, destinations, opcode, [next(words) for _ in range(int(next(words)))])
    assert len(destinations) <= 1
    assert len(line.sources) <= 4
    if "GMMA" in opcode:
        line.ends_group = bool(int(next(words)))
    line.width = int(next(words))
    if opcode.split(".")[0] in BULK:
        line.bulk["barrier"] = int(next(words), 16)
        line.bulk["blocks"] = int(next(words), 16) if int(next(words)) else 0
        line.bulk["bytes"], line.bulk["outside"] = int(next(words)), int(next(words))
        assert int(next(words)) == BULK_DELTA
        first, count = int(next(words), 16), int(next(words))
        line.addresses = _differences(words, first, list(range(count)))
    elif line.width:
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        mode, first = int(next(words)), int(next(words), 16)
        if mode == STRIDE:
            stride = int(next(words))
            assert lanes == list(range(lanes[0], lanes[-1] + 1)) if lanes else first == stride == 0
            line.addresses = {lane: first + k * stride for k, lane in enumerate(lanes)}
        else:
            assert mode == DELTA
            line.addresses = _differences(words, first, lanes)
    line.immediates = [int(next(words)) for _ in range(1 if version == 5 else 2)]
    if version == 6 and (told := next(words)) != "NoVal":
        assert told == "Val"
        registers = len(destinations) + len(line.sources)
        line.values = [[int(next(words), 16) for _ in range(int(next(words)))] for _ in range(registers)]
    return line


def _differences(words: Iterator[str], first: int, lanes: list[int]) -> dict[int, int]:
    addresses = {}
    for k, lane in enumerate(lanes):
        first += int(next(words)) if k else 0
        addresses[lane] = first
    return addresses
