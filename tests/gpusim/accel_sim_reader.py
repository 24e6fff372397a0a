"""Reads Accel-Sim's kernel traces, word by word as its own reader does, and knows nothing of how gpusim writes them.

An instruction is a line: program counter, lanes, destinations, opcode, sources, for GMMA whether it ends a group, bytes
of an access (0: none), addresses, an immediate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

STRIDE, DELTA = 1, 2


@dataclass
class Line:
    """addresses: by lane; None without any."""

    pc: int
    mask: int
    destinations: list[str]
    opcode: str
    sources: list[str]
    width: int = 0
    addresses: dict[int, int] | None = None
    immediate: int = 0
    ends_group: bool = False


@dataclass
class KernelFile:
    """A kernel's file: what stands in its head, and the lines of each warp by (block, warp), in the file's order."""

    head: dict[str, str]
    warps: dict[tuple[tuple[int, ...], int], list[Line]]


def read_list(folder: Path) -> list[str | tuple[int, int]]:
    """Names of kernels' files, and (address, bytes) of copies."""
    entries: list[str | tuple[int, int]] = []
    for line in (folder / "kernelslist.g").read_text().splitlines():
        word, *rest = line.split(",")
        entries.append((int(rest[0], 16), int(rest[1])) if word == "MemcpyHtoD" else line)
    return entries


def read_kernel(path: Path) -> KernelFile:
    """A kernel's file, whose counts have to be right."""
    file = KernelFile({}, {})
    left, warp, inside = 0, -1, False
    block: tuple[int, ...] = ()
    data = path.read_bytes()
    for line in data.decode().splitlines():
        name, equals, value = line.partition(" = ")
        if line in ("#BEGIN_TB", "#END_TB"):
            assert left == 0
            assert inside == (line == "#END_TB")
            inside = not inside
        elif line.startswith("-"):
            file.head[name[1:]] = value
        elif name == "thread block":
            block = tuple(map(int, value.split(",")))
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
            file.warps[block, warp].append(_line(words))
            assert list(words) == [""]  # a space ends a line
    assert not equals
    assert left == 0
    return file


def _line(words: Iterator[str]) -> Line:
    pc, mask = int(next(words), 16), int(next(words), 16)
    destinations = [next(words) for _ in range(int(next(words)))]
    opcode = next(words)
    line = Line(pc, mask, destinations, opcode, [next(words) for _ in range(int(next(words)))])
    assert len(destinations) <= 1
    assert len(line.sources) <= 4
    if "GMMA" in opcode:
        line.ends_group = bool(int(next(words)))
    line.width = int(next(words))
    if line.width:
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        mode, first = int(next(words)), int(next(words), 16)
        if mode == STRIDE:
            stride = int(next(words))
            assert lanes == list(range(lanes[0], lanes[-1] + 1)) if lanes else first == stride == 0
            line.addresses = {lane: first + k * stride for k, lane in enumerate(lanes)}
        else:
            assert mode == DELTA
            line.addresses = {}
            for k, lane in enumerate(lanes):
                first += int(next(words)) if k else 0
                line.addresses[lane] = first
    line.immediate = int(next(words))
    return line
