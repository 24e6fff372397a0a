"""Published microbenchmarks and what the shipped configurations make of them, run as the papers ran them.

The kernels are in `published.cu`, the numbers in `published.toml`. A row says what was measured on which card, where
that is published, and which measurement of ours repeats it; `overrides` make the configuration the card that was
measured, or take away what a short run would show and the long ones of the papers do not. Rows of known gaps are those
that the model misses, and why; the tests hold them to be gaps still, so that whoever closes one finds out.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.config import load_config
from isa import Program
from isa.compile import compile_cuda
from isa.listing import programs_from_cubin
from validate.compared import Compared
from validate.scoring import documents

TOLERANCE = 0.05
_SOURCE = Path(__file__).with_suffix(".cu")
_LINE = 128
_LOADS = 32
"""Loads of a round; other chains have four times as many instructions."""
_MOVED = 16 * 32 * 4  # bytes of tensor memory that a warp loads or stores at once
_ELEMENTS = {
    **{"f16": (16, 1 << 4), "tf32": (8, 1 << 4 | 2 << 7 | 2 << 10), "f8": (32, 1 << 4), "f8_sparse": (64, 1 << 4 | 4)},
    **{"i8": (32, 2 << 4 | 1 << 7 | 1 << 10), "nvf4": (64, 1 << 7 | 1 << 10), "copy": (1, 0)},
}
"""Of a product in tensor memory, by kind: elements along K, and bits of the instruction descriptor (PTX ISA)."""


@dataclass(frozen=True)
class PublishedNumber:
    """A row of `published.toml`, which says what each field is."""

    gpu: str
    kernel: str
    what: str
    published: float
    unit: str
    source: str
    overrides: tuple[str, ...] = ()
    gap: str = ""
    limit: float = TOLERANCE
    calibrates: bool = False


ROWS = tuple(
    PublishedNumber(**row | {"overrides": tuple(row.get("overrides", ()))})
    for row in tomllib.loads(_SOURCE.with_suffix(".toml").read_text("utf-8"))["rows"]
)


def compared(row: PublishedNumber) -> Compared:
    """A row and what the simulator makes of it, in the row's unit; its point is the row."""
    simulated = measure(row.gpu, row.kernel, row.overrides, row.unit)
    return Compared(group=row.gpu, case=f"{row.what}, {row.unit}", point=(row,), measured=row.published,
                    simulated=simulated, limit=row.limit, gap=row.gap or None)  # fmt: skip


def table(found: Iterable[Compared]) -> str:
    """Markdown: a row for each number."""
    lines = ["| configuration | what | published | simulated | error | source |", "|---|---|---|---|---|---|"]
    for each in found:
        (row,) = each.point
        as_card = f" ({', '.join(row.overrides)})" if row.overrides else ""
        error, source = f"{100 * each.error:+.1f} %" + ", calibrates" * row.calibrates, row.source
        if row.gap:
            error, source = f"{error}, known gap", f"{source}; {row.gap}"
        lines.append(
            f"| `{row.gpu}`{as_card} | {row.what}, {row.unit} | {_short(row.published)} | {_short(each.simulated)} "
            f"| {error} | {source} |"
        )
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"


@cache
def measure(gpu: str, kernel: str, overrides: tuple[str, ...], unit: str) -> float:
    bench = _Bench(gpu, overrides)
    name, _, level = kernel.partition(" ")
    match name:
        case "pointers" | "indices":
            return bench.chase(name, level)
        case "shared":
            return bench.per_round(f"follow_shared_{level}", 32, _LOADS)
        case "chain":
            kind = {"dfma": np.float64, "hfma": np.int32}.get(level, np.float32)
            return bench.per_round(f"chain_{level}", 32, 4 * _LOADS, kind(1), kind(1))
        case "products":
            return bench.per_round("_".join(("products", *level.split())), 128, 4 * _LOADS)
        case "move":
            cycles = bench.per_round(level, 128, 8 if level.startswith("store") else 1)
            return cycles if unit == "cycles" else _MOVED / cycles
        case "batch":
            return bench.batch(level, unit)
        case "strides":
            return bench.strided(int(level))
        case "again":
            rate = bench.read_again(level)
        case "bulk":
            rate = bench.bulk_stream(*map(int, level.split("x")))
        case _:
            rate = bench.stream(name)
    config = bench.config
    return {"GB/s": rate * config.gpu.clock_mhz / 1e3, "B/cycle": rate, "B/cycle and SM": rate / config.sm.count}[unit]


@cache
def _programs(arch: str) -> dict[str, Program]:
    arch += "a" * (arch in ("sm_100", "sm_103", "sm_120"))
    return programs_from_cubin(compile_cuda(_SOURCE.read_text(encoding="utf-8"), arch, path=str(_SOURCE)))


class _Bench:
    """Measurements on one configuration."""

    def __init__(self, gpu: str, overrides: tuple[str, ...]):
        self.config = load_config(gpu, overrides)

    def chase(self, kind: str, level: str, rounds: int = 64) -> float:
        """Cycles of a dependent load: what it takes while following a random cycle of lines."""
        lines, before = {"l1": (256, 256), "l2": (4096, 4096), "dram": (1 << 18, 0)}[level]
        device, order = self._device(), np.random.default_rng(1).permutation(lines)
        after = np.empty(lines, np.int64)
        after[order] = np.roll(order, -1)
        words = _LINE // 8 if kind == "pointers" else _LINE // 4
        data = device.device_array(lines * words, np.uint64 if kind == "pointers" else np.int32)
        host = np.zeros(data.size, data.dtype)
        host[::words] = data.address + after * _LINE if kind == "pointers" else after * words
        data.copy_to_device(host)
        counts: tuple[Any, ...] = (np.int32(rounds), np.int32(before))
        if kind == "pointers":
            counts = (*counts, np.int32(level != "l1"))
        return self._clocks(device, f"follow_{kind}", 1, (data, *counts)) / (rounds * _LOADS)

    def per_round(self, kernel: str, threads: int, count: int, *scalars: Any, rounds: int = 32) -> float:
        """Cycles of each of `count` instructions of a round."""
        return self._clocks(self._device(), kernel, threads, (np.int32(rounds), *scalars)) / (rounds * count)

    def read_again(self, level: str) -> float:
        """Bytes per cycle of blocks that read the same words again and again: what further rounds add, warm."""
        sms, device = self.config.sm.count, self._device()
        if level == "l1":
            blocks, words, size, rounds = sms, 16384, 4, (2, 6, 12)
        else:
            blocks = sms * (self.config.sm.max_threads // 1024)
            share = min(self.config.l2.bytes // 3, 16 << 20) // (8 * blocks)
            words, size, rounds = share // 1024 * 1024, 8, (1, 3, 6)
        data = device.device_array(blocks * words * size // 4, np.float32)
        cycles = [self._cycles(device, f"read_{level}", blocks, (data, np.int32(words), np.int32(n))) for n in rounds]
        return blocks * words * size * (rounds[2] - rounds[1]) / (cycles[2] - cycles[1])

    def strided(self, stride: int) -> float:
        """Cycles of a load of a warp out of L1, of the 32 warps of a block with so many words between lanes."""
        device = self._device()
        data = device.device_array(64 * stride + 32, np.float32)
        counts = data, np.int32(stride), np.int32(0)
        cycles = [self._cycles(device, "read_strided", 1, (*counts, np.int32(each))) for each in (4, 16, 48)]
        return (cycles[2] - cycles[1]) / (32 * 8 * (48 - 16))

    def batch(self, text: str, unit: str) -> float:
        """A product of a batch in tensor memory, "kind MxN [ts] [pair] depth": its cycles, or operations by time."""
        kind, shape, *how, depth = text.split()
        (rows, columns), (elements, descriptor) = map(int, shape.split("x")), _ELEMENTS[kind]
        descriptor |= columns >> 3 << 17 | (rows >> 7 << 27 if kind == "nvf4" else rows >> 4 << 24)
        name, blocks, rounds = "_".join((kind, *how)), 1 + ("pair" in how), 8 if int(depth) > 16 else 64
        name = f"one_{name}" if depth == "1" else f"batch_{name}"
        args = np.int32(rounds), np.int32(depth), np.uint32(descriptor)
        cycles = self._clocks(self._device(), name, 128, args, blocks) / (1 if depth == "1" else rounds * int(depth))
        operations = 2 * rows * columns * elements / blocks / cycles
        tera = self.config.sm.count * self.config.gpu.clock_mhz / 1e6
        return {"cycles": cycles, "FLOP/cycle and SM": operations, "TFLOP/s": operations * tera}[unit]

    def bulk_stream(self, stages: int, size: int) -> float:
        """Bytes per cycle of bulk copies out of memory, `stages` of `size` bytes under way in an SM: what more add."""
        sms, counts, cycles = self.config.sm.count, (2 * stages, 2 * stages + (256 << 10) // size), []
        program = _programs(self.config.gpu.arch)["bulk_stream"]
        for count in counts:
            device = self._device()
            data, numbers = device.device_array(sms * count * size, np.uint8), map(np.int32, (size, stages, count))
            args = (data, *numbers, np.zeros(4, np.uint32))
            cycles.append(device.launch(program, sms, 32, args, shared_bytes=stages * size).cycles)
        return sms * size * (counts[1] - counts[0]) / (cycles[1] - cycles[0])

    def stream(self, kernel: str) -> float:
        """Bytes per cycle of a stream through memory: what further elements add, on a device that is cold each time."""
        blocks, copies = self.config.sm.count * (self.config.sm.max_threads // 1024), kernel == "scale_stream"
        moved, cycles = [], []
        for each in (4, 6) if copies else (2, 6):
            device, elements = self._device(), blocks * 1024 * 4 * each
            arrays = [device.device_array(elements, np.float64) for _ in range(1 + copies)]
            cycles.append(self._cycles(device, kernel, blocks, (*arrays, np.int32(elements))))
            moved.append(elements * 8 * (1 + copies))
        return (moved[1] - moved[0]) / (cycles[1] - cycles[0])

    def _device(self) -> gpusim.Device:
        return gpusim.Device(self.config, memory_bytes=2 << 30)

    def _clocks(self, device: gpusim.Device, kernel: str, threads: int, args: tuple[Any, ...], grid: int = 1) -> float:
        """Cycles between the two clocks that the first block of a kernel has read."""
        out = np.zeros(4, np.uint32)
        device.launch(_programs(self.config.gpu.arch)[kernel], grid, threads, (*args, out))
        return float((int(out[1]) - int(out[0])) % 2**32)

    def _cycles(self, device: gpusim.Device, kernel: str, blocks: int, args: tuple[Any, ...]) -> int:
        out = np.zeros(4, np.uint32)
        return device.launch(_programs(self.config.gpu.arch)[kernel], blocks, 1024, (*args, out)).cycles


def command(options: argparse.Namespace) -> int:
    """`validate published`: status 1 if a number is off by more than its limit, 5 % unless the row has another."""
    found = [compared(row) for row in ROWS if not options.gpu or row.gpu in options.gpu]
    print(table(found))
    if options.docs:
        documents.put("validation.md", "table", table(found), fence="")
    return 1 if any(each.verdict for each in found) else 0
