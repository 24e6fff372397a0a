"""What an SM needs beside data: lines of code and constants, which are cold when a launch begins."""

from __future__ import annotations

from gpusim.config import GPUConfig
from isa.instruction import INSTRUCTION_BYTES


class Supply:
    """Instruction and constant caches. A new line comes after a fixed time; those behind it follow, asked for ahead."""

    def __init__(self, config: GPUConfig, blocks: int, code_bytes: int):
        self.config = config
        per_line = config.icache.line_bytes // INSTRUCTION_BYTES
        self.shift = per_line.bit_length() - 1
        #: The SMs of a GPC ask for the same lines at the same time, and wait for half of the others.
        self.queue = config.constant.miss_interval_cycles * min(blocks, config.sm.count) / config.sm.gpcs
        self.code: dict[int, float] = {}
        self.constants: dict[int, float] = {}
        self.chunks: dict[int, float] = {}
        self.asked: float = 0
        self.last = code_bytes // config.icache.line_bytes

    def instruction(self, pc: int, now: float) -> float:
        """Return the cycle from which the instruction can be decoded."""
        line, icache = pc >> self.shift, self.config.icache
        ready = self.code.get(line)
        if ready is None:
            far = icache.l15_latency_cycles if self.code else icache.l2_latency_cycles  # the first line
            ready = self.code[line] = now + far + self.queue / 2
        if line + 1 not in self.code and line < self.last:
            first = max(ready + icache.l15_line_cycles, now)
            for ahead in range(icache.prefetch_lines):
                self.code.setdefault(line + 1 + ahead, first + ahead * icache.l15_line_cycles)
        return ready

    def constant(self, operand: int, now: float) -> float:
        """Return the cycle from which an operand of an instruction, `bank << 16 | offset`, can be read."""
        constant = self.config.constant
        line = operand // constant.line_bytes
        ready = self.constants.get(line)
        if ready is None:
            start = max(now, self.asked)
            self.asked = start + self.config.sm.sub_partitions * self.queue
            ready = self.constants[line] = start + self.queue / 2 + constant.l15_latency_cycles
        return ready

    def table(self, operand: int, now: float) -> float:
        """Return the cycle from which a word of a module's constants can be loaded. Several lines come at once from
        memory, one of them to where loads read (H200: `constant_first` in validate/microbench/constants.py)."""
        constant = self.config.constant
        line, chunk = operand // constant.line_bytes, operand // constant.fetch_bytes
        if line not in self.constants:
            near = chunk in self.chunks
            wait = constant.l15_latency_cycles if near else constant.memory_latency_cycles
            self.constants[line] = self.chunks[chunk] = max(now, self.chunks.get(chunk, 0)) + wait
        return self.constants[line]
