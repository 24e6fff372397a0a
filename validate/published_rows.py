"""What is published: a row for each number, with its source. `published.py` says how each is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedNumber:
    """One published number.

    gpu: configuration. kernel: which of our measurements repeats it. what: in words. published: the number, in `unit`.
    source: paper or public data set. overrides: what makes the configuration the card that was measured. gap: why the
    model misses it, where that is known.
    """

    gpu: str
    kernel: str
    what: str
    published: float
    unit: str
    source: str
    overrides: tuple[str, ...] = ()
    gap: str = ""


# github.com/RRZE-HPC/gpu-benches at 1038c5d: programs and their output by card (D. Ernst et al.,
# 10.1016/j.jpdc.2022.11.003). The plateau of each table is taken: L2 at 2 MB, memory at 50 MB (V100) or beyond 1 GB.
_RRZE = "gpu-benches"
# github.com/markdewing/AI_kernels, latency/data: cycles by size, loads of an array's next index.
_DEWING = "AI_kernels"
# github.com/Azure/AI-benchmarking-guide, Azure_Results: BabelStream on the cards of its virtual machines.
_AZURE = "Azure AI benchmarking guide"
_ABDELKHALIK, _LUO = "arXiv 2208.11174", "arXiv 2402.13499"
_CHEESE = "Chips and Cheese"
_JIA_V100, _JIA_T4 = "arXiv 1804.06826", "arXiv 1903.07486"

# The papers stream for seconds; what a flushed cache still has to write does not show there.
_LONG = ("l2.dirty_before_bytes=0",)
_PCIE = ("sm.count=114",)
_STRIDES = f"{_RRZE}, gpu-strides/a40"
_FEW = ("sm.count=4", "sm.gpcs=2")
_A40 = ("sm.count=84", "gpu.clock_mhz=1740", "dram.bandwidth_gb_s=696")
_L40 = ("gpu.clock_mhz=2490",)
_PRO_6000 = ("sm.count=188", "gpu.clock_mhz=2617", "l2.bytes=134217728")

ROWS = (
    PublishedNumber("a100", "pointers l1", "L1 hit, pointer chase", 33.1, "cycles", f"{_RRZE}, gpu-latency/a100_80"),
    PublishedNumber("a100", "pointers l2", "L2 hit, pointer chase", 205.7, "cycles", f"{_RRZE}, gpu-latency/a100_80"),
    PublishedNumber("a100", "pointers dram", "memory, pointer chase", 552.2, "cycles", f"{_RRZE}, gpu-latency/a100_80"),
    PublishedNumber("a100", "indices l1", "L1 hit, index chase", 38.9, "cycles", f"{_DEWING}, latency/a100sxm"),
    PublishedNumber("a100", "indices l2", "L2 hit, index chase", 209.9, "cycles", f"{_DEWING}, latency/a100sxm"),
    PublishedNumber("a100", "indices dram", "memory, index chase", 549.4, "cycles", f"{_DEWING}, latency/a100sxm"),
    PublishedNumber("a100", "shared addresses", "shared memory, address chase", 23, "cycles", _ABDELKHALIK),
    PublishedNumber("a100", "chain fadd", "dependent FADD", 4, "cycles", _ABDELKHALIK),
    PublishedNumber("a100", "products", "HMMA.16816.F32, four warps", 8, "cycles", _ABDELKHALIK),
    PublishedNumber("a100", "again l2", "reads out of L2", 5430, "GB/s", f"{_RRZE}, gpu-l2-cache/a100_80"),
    PublishedNumber("a100", "read_stream", "reads of memory", 1776, "GB/s", f"{_RRZE}, gpu-stream/a100_80", _LONG),
    PublishedNumber("a100", "read_stream", "reads of memory", 1750, "GB/s", f"{_AZURE}, BabelStream Dot", _LONG),
    PublishedNumber("a100", "scale_stream", "copies in memory", 1737, "GB/s", f"{_RRZE}, gpu-stream/a100_80", _LONG),
    PublishedNumber("a100", "scale_stream", "copies in memory", 1610, "GB/s", f"{_AZURE}, BabelStream Mul", _LONG),
    PublishedNumber("h100", "pointers l1", "L1 hit, pointer chase", 32.0, "cycles", f"{_RRZE}, gpu-latency/gh200"),
    PublishedNumber("h100", "pointers l2", "L2 hit, pointer chase", 280.4, "cycles", f"{_RRZE}, gpu-latency/gh200"),
    PublishedNumber("h100", "indices l1", "L1 hit, index chase", 39.6, "cycles", f"{_DEWING}, latency/h100sxm"),
    PublishedNumber("h100", "indices l2", "L2 hit, index chase", 290.9, "cycles", f"{_DEWING}, latency/h100sxm"),
    PublishedNumber("h100", "indices dram", "memory, index chase", 696.3, "cycles", f"{_DEWING}, latency/h100sxm"),
    PublishedNumber("h100", "shared indices", "shared memory, index chase", 29.0, "cycles", _LUO),
    PublishedNumber("h100", "again l2", "reads out of L2", 6953, "GB/s", f"{_RRZE}, gpu-l2-cache/h100_pcie", _PCIE),
    PublishedNumber("h100", "read_stream", "reads of memory", 3180, "GB/s", f"{_AZURE}, BabelStream Dot", _LONG),
    PublishedNumber("h100", "scale_stream", "copies in memory", 2900, "GB/s", f"{_AZURE}, BabelStream Mul", _LONG),
    PublishedNumber("v100", "pointers l1", "L1 hit, pointer chase", 27.9, "cycles", f"{_RRZE}, gpu-latency/v100"),
    PublishedNumber("v100", "pointers l2", "L2 hit, pointer chase", 212.1, "cycles", f"{_RRZE}, gpu-latency/v100"),
    PublishedNumber("v100", "pointers dram", "memory, pointer chase", 428.9, "cycles", f"{_RRZE}, gpu-latency/v100"),
    PublishedNumber("v100", "indices l1", "L1 hit, index chase", 36.0, "cycles", f"{_DEWING}, latency/v100"),
    PublishedNumber("v100", "indices l2", "L2 hit, index chase", 221.1, "cycles", f"{_DEWING}, latency/v100"),
    PublishedNumber("v100", "indices dram", "memory, index chase", 459.6, "cycles", f"{_DEWING}, latency/v100"),
    PublishedNumber("v100", "shared addresses", "shared memory, address chase", 19, "cycles", _JIA_V100),
    PublishedNumber("v100", "chain ffma", "dependent FFMA", 4, "cycles", _JIA_V100),
    PublishedNumber("v100", "chain hfma", "dependent HFMA2", 6, "cycles", _JIA_V100),
    PublishedNumber("v100", "chain dfma", "dependent DFMA", 8, "cycles", _JIA_V100),
    PublishedNumber("v100", "again l2", "reads out of L2", 1761, "B/cycle", f"{_RRZE}, gpu-cache/v100"),
    PublishedNumber("v100", "read_stream", "reads of memory", 867, "GB/s", f"{_RRZE}, gpu-stream/v100"),
    PublishedNumber("v100", "scale_stream", "copies in memory", 809, "GB/s", f"{_RRZE}, gpu-stream/v100"),
    PublishedNumber("t4", "pointers l1", "L1 hit, pointer chase", 32, "cycles", _JIA_T4),
    PublishedNumber("t4", "pointers l2", "L2 hit, pointer chase", 188, "cycles", _JIA_T4),
    PublishedNumber("t4", "shared addresses", "shared memory, address chase", 19, "cycles", _JIA_T4),
    PublishedNumber("t4", "chain hfma", "dependent HFMA2", 6, "cycles", _JIA_T4),
    PublishedNumber("t4", "again l2", "reads out of L2", 1270, "GB/s", _JIA_T4),
    PublishedNumber("t4", "read_stream", "reads of memory", 236, "GB/s", _JIA_T4),
    PublishedNumber("b200", "indices l1", "L1 hit, index chase", 39.6, "cycles", f"{_DEWING}, latency/b200"),
    PublishedNumber("b200", "indices l2", "L2 hit, index chase", 294.2, "cycles", f"{_DEWING}, latency/b200"),
    PublishedNumber("b200", "indices dram", "memory, index chase", 851.5, "cycles", f"{_DEWING}, latency/b200"),
    PublishedNumber("a10", "pointers l1", "L1 hit, pointer chase", 33.0, "cycles", f"{_RRZE}, gpu-latency/a40", _A40),
    PublishedNumber("a10", "pointers l2", "L2 hit, pointer chase", 250.4, "cycles", f"{_RRZE}, gpu-latency/a40", _A40),
    PublishedNumber("a10", "pointers dram", "memory, pointer chase", 547, "cycles", f"{_RRZE}, gpu-latency/a40", _A40),
    PublishedNumber("a10", "strides 1", "loads of words in L1, side by side", 2.0, "cycles", _STRIDES),
    PublishedNumber("a10", "strides 3", "loads of words in L1, 3 apart", 2.0, "cycles", _STRIDES),
    PublishedNumber("a10", "strides 16", "loads of words in L1, 16 apart", 16.0, "cycles", _STRIDES),
    PublishedNumber("a10", "strides 32", "loads of words in L1, 32 apart", 32.0, "cycles", _STRIDES),
    PublishedNumber("a10", "again l2", "reads out of L2", 2490, "GB/s", f"{_RRZE}, gpu-cache/a40", _A40),
    PublishedNumber("a10", "read_stream", "reads of memory", 680, "GB/s", f"{_RRZE}, gpu-stream/a40", _A40),
    PublishedNumber("a10", "scale_stream", "copies in memory", 655, "GB/s", f"{_RRZE}, gpu-stream/a40", _A40),
    PublishedNumber("l40s", "pointers l1", "L1 hit, pointer chase", 34.0, "cycles", f"{_RRZE}, gpu-latency/l40", _L40),
    PublishedNumber("l40s", "pointers l2", "L2 hit, pointer chase", 273.6, "cycles", f"{_RRZE}, gpu-latency/l40", _L40),
    PublishedNumber("l40s", "pointers dram", "memory, pointer chase", 624, "cycles", f"{_RRZE}, gpu-latency/l40", _L40),
    PublishedNumber("l40s", "again l2", "reads out of L2", 5220, "GB/s", f"{_RRZE}, gpu-l2-cache/l40", _L40),
    PublishedNumber("l40s", "read_stream", "reads of memory", 845, "GB/s", f"{_RRZE}, gpu-stream/l40", _L40),
    PublishedNumber("rtx4090", "indices l1", "L1 hit, index chase", 39.9, "cycles", f"{_DEWING}, latency/4090"),
    PublishedNumber("rtx4090", "indices l2", "L2 hit, index chase", 295.9, "cycles", f"{_DEWING}, latency/4090"),
    PublishedNumber("rtx4090", "indices dram", "memory, index chase", 635.5, "cycles", f"{_DEWING}, latency/4090"),
    PublishedNumber("rtx4090", "pointers l2", "L2 hit, pointer chase", 273.0, "cycles", _LUO),
    PublishedNumber("rtx4090", "read_stream", "reads of memory", 929.8, "GB/s", _LUO),
    PublishedNumber("rtx5090", "indices l1", "L1 hit, index chase", 44.1, "cycles", f"{_DEWING}, latency/5090"),
    PublishedNumber("rtx5090", "indices l2", "L2 hit, index chase", 360.5, "cycles", f"{_DEWING}, latency/5090"),
    PublishedNumber("rtx5090", "indices dram", "memory, index chase", 929.8, "cycles", f"{_DEWING}, latency/5090"),
    PublishedNumber("rtx5090", "again l2", "reads out of L2", 8700, "GB/s", f"{_CHEESE}, RTX PRO 6000", _PRO_6000),
    PublishedNumber(
        "a10",
        "strides 8",
        "loads of words in L1, 8 apart",
        8.0,
        "cycles",
        _STRIDES,
        gap="of lines that the tags take in two turns, words of one bank take a turn of the data stage more",
    ),
    PublishedNumber(
        "rtx4090",
        "shared indices",
        "shared memory, index chase",
        30.1,
        "cycles",
        _LUO,
        gap="an address with a scaled index takes no longer than one without",
    ),
    PublishedNumber(
        "a100", "again l1", "reads out of L1", 125.4, "B/cycle and SM", f"{_RRZE}, gpu-cache/a100_80", _FEW
    ),
    PublishedNumber(
        "a100",
        "shared indices",
        "shared memory, index chase",
        29.0,
        "cycles",
        _LUO,
        gap="an address with a scaled index takes no longer than one without",
    ),
    PublishedNumber(
        "t4",
        "chain dfma",
        "dependent DFMA",
        48,
        "cycles",
        _JIA_T4,
        gap="each sub-partition has half a unit for double precision; in the T4 they share two",
    ),
)
