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
_JIA_V100, _JIA_T4 = "arXiv 1804.06826", "arXiv 1903.07486"

# The papers stream for seconds; what a flushed cache still has to write does not show there.
_LONG = ("l2.dirty_before_bytes=0",)
_PCIE = ("sm.count=114",)
_FEW = ("sm.count=4", "sm.gpcs=2")

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
    PublishedNumber(
        "a100",
        "again l1",
        "reads out of L1",
        125.4,
        "B/cycle and SM",
        f"{_RRZE}, gpu-cache/a100_80",
        _FEW,
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
