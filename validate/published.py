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


ROWS = tuple(
    PublishedNumber(**row | {"overrides": tuple(row.get("overrides", ()))})
    for row in tomllib.loads(_SOURCE.with_suffix(".toml").read_text("utf-8"))["rows"]
)


def compared(row: PublishedNumber) -> Compared:
    """A row and what the simulator makes of it, in the row's unit; its point is the row."""
    return Compared(group=row.gpu, case=f"{row.what}, {row.unit}", point=(row,), measured=row.published,
                    simulated=measure(row), limit=TOLERANCE, gap=row.gap or None)  # fmt: skip


def measure(row: PublishedNumber) -> float:
    """Measure a row on the simulator, in the row's unit."""
    return _measure(row.gpu, row.kernel, row.overrides, row.unit)


def table(found: Iterable[Compared]) -> str:
    """Markdown: a row for each number."""
    lines = ["| configuration | what | published | simulated | error | source |", "|---|---|---|---|---|---|"]
    for each in found:
        (row,) = each.point
        as_card = f" ({', '.join(row.overrides)})" if row.overrides else ""
        error = f"{100 * each.error:+.1f} %"
        source = row.source
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
def _measure(gpu: str, kernel: str, overrides: tuple[str, ...], unit: str) -> float:
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
            return bench.per_round("products", 128, 4 * _LOADS)
        case "strides":
            return bench.strided(int(level))
        case "again":
            rate = bench.read_again(level)
        case _:
            rate = bench.stream(name)
    config = bench.config
    return {"GB/s": rate * config.gpu.clock_mhz / 1e3, "B/cycle": rate, "B/cycle and SM": rate / config.sm.count}[unit]


@cache
def _programs(arch: str) -> dict[str, Program]:
    return programs_from_cubin(compile_cuda(_SOURCE.read_text(encoding="utf-8"), arch, path=str(_SOURCE)))


class _Bench:
    """Measurements on one configuration."""

    def __init__(self, gpu: str, overrides: tuple[str, ...]):
        self.config = load_config(gpu, overrides)

    def chase(self, kind: str, level: str, rounds: int = 64) -> float:
        """Cycles of a dependent load: what it takes while following a random cycle of lines."""
        lines, before = {"l1": (256, 256), "l2": (4096, 4096), "dram": (1 << 18, 0)}[level]
        device = self._device()
        order = np.random.default_rng(1).permutation(lines)
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
        sms = self.config.sm.count
        device = self._device()
        if level == "l1":
            blocks, words, size, rounds = sms, 16384, 4, (2, 6, 12)
        else:
            blocks = sms * self._blocks_per_sm
            share = min(self.config.l2.bytes // 3, 16 << 20) // (8 * blocks)
            words, size, rounds = share // 1024 * 1024, 8, (1, 3, 6)
        data = device.device_array(blocks * words * size // 4, np.float32)
        cycles = [
            self._cycles(device, f"read_{level}", blocks, (data, np.int32(words), np.int32(each))) for each in rounds
        ]
        return blocks * words * size * (rounds[2] - rounds[1]) / (cycles[2] - cycles[1])

    def strided(self, stride: int) -> float:
        """Cycles of a load of a warp out of L1, of the 32 warps of a block with so many words between lanes."""
        device = self._device()
        data = device.device_array(64 * stride + 32, np.float32)
        counts = data, np.int32(stride), np.int32(0)
        cycles = [self._cycles(device, "read_strided", 1, (*counts, np.int32(each))) for each in (4, 16, 48)]
        return (cycles[2] - cycles[1]) / (32 * 8 * (48 - 16))

    def stream(self, kernel: str) -> float:
        """Bytes per cycle of a stream through memory: what further elements add, on a device that is cold each time."""
        blocks = self.config.sm.count * self._blocks_per_sm
        copies = kernel == "scale_stream"
        moved, cycles = [], []
        for each in (4, 6) if copies else (2, 6):
            device = self._device()
            elements = blocks * 1024 * 4 * each
            arrays = [device.device_array(elements, np.float64) for _ in range(1 + copies)]
            cycles.append(self._cycles(device, kernel, blocks, (*arrays, np.int32(elements))))
            moved.append(elements * 8 * (1 + copies))
        return (moved[1] - moved[0]) / (cycles[1] - cycles[0])

    @property
    def _blocks_per_sm(self) -> int:
        """Blocks of 1,024 threads that are resident together."""
        return self.config.sm.max_threads // 1024

    def _device(self) -> gpusim.Device:
        return gpusim.Device(self.config, memory_bytes=2 << 30)

    def _clocks(self, device: gpusim.Device, kernel: str, threads: int, args: tuple[Any, ...]) -> float:
        """Cycles between the two clocks that a kernel of one block has read."""
        out = np.zeros(4, np.uint32)
        device.launch(_programs(self.config.gpu.arch)[kernel], 1, threads, (*args, out))
        return float((int(out[1]) - int(out[0])) % 2**32)

    def _cycles(self, device: gpusim.Device, kernel: str, blocks: int, args: tuple[Any, ...]) -> int:
        out = np.zeros(4, np.uint32)
        return device.launch(_programs(self.config.gpu.arch)[kernel], blocks, 1024, (*args, out)).cycles


def command(options: argparse.Namespace) -> int:
    """`validate published`: status 1 if a number is off by over 5 %."""
    found = [compared(row) for row in ROWS if not options.gpu or row.gpu in options.gpu]
    print(table(found))
    if options.docs:
        documents.put("validation.md", "table", table(found), fence="")
    return 1 if any(each.verdict for each in found) else 0
