"""Roofline: arithmetic done, bytes moved at each level of memory, and the peaks they are held against.

After S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model" (CACM 52(4),
2009), with a roof for each level of memory as in Nsight Compute's hierarchical roofline. Operations are counted
as there: thread instructions whose guard holds, a fused multiply-add as two operations. The compiler's HFMA2 that moves
a constant, 0 * 0 + c, is no arithmetic, though it takes a turn in the FP16 pipe.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpusim.config.derived import peak_bytes_per_cycle, peak_operations_per_s
from gpusim.engine.state import L, ms
from gpusim.results.counts import Counts, ratio
from gpusim.results.metrics import DRAM_READ_SECTORS, DRAM_WRITE_SECTORS, TEX_SECTORS
from isa import microops as M
from isa.instruction import RZ, Instruction

# Operations of one thread instruction. A packed half-precision instruction works on two numbers.
_THREAD_OPERATIONS = {
    "FP32": {"FADD": 1, "FMUL": 1, "FFMA": 2},
    "FP64": {"DADD": 1, "DMUL": 1, "DFMA": 2},
    "FP16": {"HADD2": 2, "HMUL2": 2, "HFMA2": 4},
}
_MATRIX_KINDS = {
    "HMMA": "tensor", "IMMA": "tensor", "DMMA": "FP64", "QMMA": "tensor 8-bit", "OMMA": "tensor 4-bit",
    "UTCHMMA": "tcgen05 16-bit", "UTCQMMA": "tcgen05 8-bit", "UTCIMMA": "tcgen05 8-bit", "UTCOMMA": "tcgen05 4-bit",
}  # fmt: skip
_MATRIX_COLUMNS = 8  # of every product of one warp
_GROUP_ROWS, _GROUP_BYTES = 16, 32  # of a product of a group, a warp's rows and bytes along K
_ELEMENT_BITS = {M.TENSOR_F16: 16, M.TENSOR_BF16: 16, M.TENSOR_TF32: 32, M.TENSOR_E4M3: 8, M.TENSOR_E5M2: 8}


@dataclass(frozen=True)
class Roofline:
    """One launch in the roofline model.

    operations: by kind ('FP32', 'FP64', 'FP16', 'tensor', ...), without kinds that do not occur.
    bytes: by level, 'L1' (what global instructions touch), 'L2' (what L1 asks of L2), 'DRAM'.
    seconds: duration of the launch, overhead included.
    peak_operations_per_s: by kind; peak_bytes_per_s: by level; both of the configuration.
    """

    operations: dict[str, int]
    bytes: dict[str, int]
    seconds: float
    peak_operations_per_s: dict[str, float]
    peak_bytes_per_s: dict[str, float]

    @property
    def kind(self) -> str | None:
        """The kind of arithmetic that takes most time at its own peak, None if there is none."""
        times = {kind: count / self.peak_operations_per_s[kind] for kind, count in self.operations.items()}
        return max(times, key=lambda kind: times[kind]) if times else None

    @property
    def total_operations(self) -> int:
        """Operations of all kinds."""
        return sum(self.operations.values())

    @property
    def operations_per_s(self) -> float:
        """Achieved, all kinds together."""
        return ratio(self.total_operations, self.seconds)

    def intensity(self, level: str) -> float:
        """Operations per byte moved at 'L1', 'L2' or 'DRAM'; 0 if nothing moved."""
        return ratio(self.total_operations, self.bytes[level])

    @property
    def compute_seconds(self) -> float:
        """Least time for the arithmetic: kinds run on different pipes, so the longest counts."""
        return max((n / self.peak_operations_per_s[kind] for kind, n in self.operations.items()), default=0.0)

    @property
    def memory_seconds(self) -> dict[str, float]:
        """Least time for the bytes of each level."""
        return {level: count / self.peak_bytes_per_s[level] for level, count in self.bytes.items()}

    @property
    def roof(self) -> str:
        """The bound of the launch if everything ran at its peak: a level of memory or 'compute'."""
        times = self.memory_seconds | {"compute": self.compute_seconds}
        return max(times, key=lambda name: times[name])

    @property
    def share_of_roof(self) -> float:
        """Least time under the lowest roof, of the time taken: 1 is a launch that sits on its roof."""
        return ratio(max(self.compute_seconds, *self.memory_seconds.values()), self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """All fields and what follows from them."""
        return asdict(self) | {
            "kind": self.kind, "operations_per_s": self.operations_per_s,
            "intensity": {level: self.intensity(level) for level in self.bytes}, "roof": self.roof,
            "share_of_roof": self.share_of_roof,
        }  # fmt: skip


def count_operations(counts: Counts) -> dict[str, int]:
    """Floating-point (and tensor) operations by kind, kinds that do not occur left out."""
    totals = {
        kind: sum(factor * counts.opcode_total(L.COUNT_PRED_ON, opcode) for opcode, factor in opcodes.items())
        for kind, opcodes in _THREAD_OPERATIONS.items()
    }
    moves = np.array([_is_move(each) for each in counts.record.program.instructions], bool)
    totals["FP16"] -= _THREAD_OPERATIONS["FP16"]["HFMA2"] * counts.total(L.COUNT_PRED_ON, moves)
    for opcode, count in _of_opcodes(counts).items():
        kind = _MATRIX_KINDS.get(opcode, "")
        totals[kind] = totals.get(kind, 0) + count
    single = 2 * counts.total(L.TMEM_SINGLE, counts.code[:, M.COL_OP] == M.OP_TMEM_PRODUCT)
    totals |= {"tcgen05 32-bit": single, "tcgen05 16-bit": totals.get("tcgen05 16-bit", 0) - single}
    return {kind: totals[kind] for kind in peak_operations_per_s(counts.record.config) if totals.get(kind)}


def matrix_operations(counts: Counts) -> int:
    """Operations of all matrix instructions."""
    return sum(_of_opcodes(counts).values())


def _of_opcodes(counts: Counts) -> Counter[str]:
    """Operations of matrix instructions by opcode; sizes of products in tensor memory are in registers."""
    found: Counter[str] = Counter()
    for row, counters, each in zip(counts.code, counts.counters, counts.record.program.instructions, strict=True):
        count = multiply_adds(row) * int(counters[L.COUNT_EXECUTED])
        found[each.opcode] += 2 * (int(counters[L.TMEM_MULTIPLY_ADDS]) if row[M.COL_OP] == M.OP_TMEM_PRODUCT else count)
    return +found


def multiply_adds(row: np.ndarray) -> int:
    """Of one warp instruction, no matter whether a sparse A has zeros for them."""
    op, shape = row[M.COL_OP], int(row[M.COL_AUX0])
    if op in (M.OP_HMMA, M.OP_IMMA, M.OP_DMMA, M.OP_QMMA):
        return (shape >> 16) * _MATRIX_COLUMNS * ((shape & 0xFFFF) - (_MATRIX_COLUMNS << 8))
    if op == M.OP_GMMA:
        bits = _ELEMENT_BITS.get(int(row[M.COL_AUX1]) & 255, int(row[M.COL_AUX3]) >> 4)
        depth = _GROUP_BYTES * (2 if int(row[M.COL_AUX4]) & M.GMMA_SPARSE else 1)
        return _GROUP_ROWS * (shape & 0xFFFF) * 8 * depth // bits
    return 0


def _is_move(instruction: Instruction) -> bool:
    """Return whether it is an HFMA2 of zero factors."""
    factors = instruction.operands[1:3]
    return instruction.opcode == "HFMA2" and all(each.kind == "reg" and each.index == RZ for each in factors)


def count_bytes(counts: Counts) -> dict[str, int]:
    """Bytes moved at each level, whole sectors as the hardware moves them."""
    return {
        "L1": ms.SECTOR_BYTES * counts.global_total(L.COUNT_SECTORS),
        "L2": counts.memory_bytes(*TEX_SECTORS),
        "DRAM": counts.memory_bytes(*DRAM_READ_SECTORS, *DRAM_WRITE_SECTORS),
    }


def make_roofline(counts: Counts) -> Roofline:
    """The roofline position of a launch."""
    config = counts.record.config
    clock_hz = config.gpu.clock_mhz * 1e6
    return Roofline(
        operations=count_operations(counts), bytes=count_bytes(counts), seconds=counts.record.cycles / clock_hz,
        peak_operations_per_s=peak_operations_per_s(config),
        peak_bytes_per_s={level: rate * clock_hz for level, rate in peak_bytes_per_cycle(config).items()},
    )  # fmt: skip
