"""The way of an access to global or local memory: tags, L1, and what lies beyond the SM."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from typing import Any

import simpy

from gpusim.engine.state import L
from gpusim.machine.execution import Executed
from gpusim.machine.instruction import Decoded
from gpusim.machine.server import Server
from gpusim.machine.warp import Warp
from isa import microops as M

SECTOR = 32


class GlobalPath:
    """The tag stage of an SM, its ways to L2 and back; each access on its way is a process."""

    def __init__(self, sm: Any):
        self.sm, self.env, self.config = sm, sm.env, sm.config
        self.tags, self.stores_out, self.replies_in = Server(sm.env), Server(sm.env), Server(sm.env)

    def run(
        self, warp: Warp, sub: int, instruction: Decoded, access: Executed, start: float
    ) -> Generator[simpy.Event, None, None]:
        """The way of an access to global or local memory, from where it leaves its sub-partition's queue."""
        group = warp.groups[-1]
        yield self.env.timeout(math.ceil(start) - self.env.now)
        yield self.tags.serve(math.ceil(len(access.lines) / self.config.l1.tag_lookups_per_cycle))
        if instruction.op == M.OP_LOAD or instruction.is_copy:
            self.leave(warp, sub)
            yield from self.load(instruction, access)
            if instruction.is_copy:
                yield self.sm.data.serve(max(access.wavefronts, 1))
                group.left -= 1
                warp.settle(self.env.now)
                self.sm.schedulers[sub].look(warp)
        else:
            took = yield from self.send(instruction, access)
            self.leave(warp, sub)
            if instruction.result != 7:
                yield self.env.timeout(math.ceil(took))
        if instruction.result != 7:
            board = warp.boards[instruction.result]
            board.pending -= 1
            board.hold(self.env.now, L.STALL_LONG)
            self.sm.schedulers[sub].look(warp)

    def leave(self, warp: Warp, sub: int) -> None:
        """An access has left the SM's queue; a warp that has ended stays until then."""
        warp.on_way -= 1
        if warp.number not in self.sm.resident and not warp.on_way:
            self.sm.stays(warp, L.STALL_DRAIN, self.env.now)
        self.sm.memory.held[sub] -= 1
        self.sm.schedulers[sub].room()
        self.sm.left(warp.slot)

    def turns(self, lines: list[tuple[int, int, int]]) -> int:
        """Return the data stage's turns for words of lines: lines of one lookup come together, if none of their words
        collide in a bank (H200: loads of lanes 2, 8, 32 words apart take 2, 8, 32 cycles in L1, 33 words apart 9)."""
        each, total = self.config.l1.tag_lookups_per_cycle, 0
        for first in range(0, len(lines), each):
            levels: list[int] = []
            for _, _, words in lines[first : first + each]:
                left = words
                for k, level in enumerate(levels):
                    levels[k], left = level | left, level & left
                if left:
                    levels.append(left)
            total += len(levels)
        return total

    def load(self, instruction: Decoded, access: Executed) -> Generator[simpy.Event, None, None]:
        """What is in L1 comes out of it; what is not comes from L2, once for all who wait for it."""
        l1, waits, hit, missed = self.sm.l1, [], [], []
        past = instruction.past_l1
        for line, sectors, words in access.lines:
            others, missing = ([], sectors) if past else l1.lookup(line, sectors)
            self.sm.gpu.counts[instruction.pc, L.COUNT_HITS] += (sectors & ~missing).bit_count()
            self.sm.gpu.counts[instruction.pc, L.COUNT_MISSES] += missing.bit_count()
            waits += others
            if missing:
                arrival = self.env.event() if past else l1.ask(line, missing)
                waits.append(arrival)
                self.env.process(self.miss(line, missing, arrival, past))
            (missed if missing or others else hit).append((line, sectors, words))
        turns, late = self.turns(hit), self.turns(missed)
        self.sm.gpu.counts[instruction.pc, L.COUNT_L1_DATA] += turns + late
        yield self.sm.data.serve(turns)
        for each in waits:
            if not each.processed:
                yield each
        if missed:
            yield self.sm.data.serve(late)
        # A miss brings its own latency; of a hit's, the SM's stages have passed.
        elif (rest := self.config.l1.latency_cycles - self.config.memory_instruction.entry_cycles - 1 - turns) > 0:
            yield self.env.timeout(rest)

    def miss(self, line: int, sectors: int, arrival: simpy.Event, past: bool) -> Generator[simpy.Event, None, None]:
        """A request to L2 and its reply."""
        self.sm.asked = True
        took = self.sm.gpu.l2.read(line, sectors, self.sm.partition) - self.config.memory_instruction.entry_cycles - 2
        yield self.sm.port.serve(self.request_cycles(0))
        yield self.env.timeout(math.ceil(took))
        yield self.replies_in.serve(SECTOR * sectors.bit_count() / self.config.crossbar.sm_reply_bytes_per_cycle)
        if not past:
            self.sm.l1.fill(line, sectors)
        arrival.succeed()

    def request_cycles(self, sectors: float) -> float:
        """Return how long a request that carries so many sectors takes the TPC's way to L2."""
        crossbar = self.config.crossbar
        return (crossbar.request_header_bytes + SECTOR * sectors) / crossbar.port_request_bytes_per_cycle

    def port(self, sectors: float) -> float:
        """Take the TPC's way to L2 for a request that carries so many sectors. Returns how long it waits."""
        return self.sm.port.book(self.request_cycles(sectors)) - self.env.now

    def send(self, instruction: Decoded, access: Executed) -> Generator[simpy.Event, None, float]:
        """Lines of a store or an atomic go to L2 one after the other. Returns the cycles to the last answer."""
        took, store, share = 0.0, instruction.op == M.OP_STORE, access.lanes.bit_count() / max(len(access.lines), 1)
        l2, self.sm.asked = self.sm.gpu.l2, True
        if store:
            turns = self.turns(access.lines)
            self.sm.gpu.counts[instruction.pc, L.COUNT_L1_DATA] += turns
            yield self.sm.data.serve(turns)
        # Lanes with the same word send a request each.
        same = Counter(each for lane, each in enumerate(access.addresses) if access.lanes >> lane & 1)
        turns = max(same.values(), default=1)
        for line, sectors, words in access.lines:
            if store:
                whole = instruction.size >= 4 and all(words >> 8 * k & 255 in (0, 255) for k in range(4))
                if self.config.l1.write_allocate and whole:
                    self.sm.l1.fill(line, sectors)
                yield self.stores_out.serve(max(self.config.l1.store_line_cycles, sectors.bit_count()))
                done = l2.write(line, sectors, self.sm.partition)
                took = max(took, self.port(sectors.bit_count()) + done)
            else:
                yield self.stores_out.serve(self.config.crossbar.flit_cycles * max(sectors.bit_count(), turns))
                done = l2.atomic(instruction, line, sectors, self.sm.partition, share, turns)
                took = max(took, self.port(share / 8) + done)
        self.sm.drained = max(self.sm.drained, self.env.now + took)
        return took - self.config.memory_instruction.entry_cycles - len(access.lines)
