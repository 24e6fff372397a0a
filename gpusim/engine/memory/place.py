"""The place of an SM: its port of the crossbar, GPC and partition of L2; and the slices that it asks for a line.

SMs are numbered in the order in which they get their first blocks. A grid that does not fill the GPU gets other SMs
than a large one does. Measured on an H200, by the SM that each block of grids of 1 to 1,024 blocks ran on: GPC by GPC;
the first few TPCs are full before others have any; the other GPCs share the rest evenly, those of low numbers take what
is left over, and a TPC has one block before any of its GPC has two. So does the last wave of a grid that leaves
room, but there the larger GPCs take what is left over.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from gpusim.config.models import GPUConfig
from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import locate, set_and_tag

GPC, PARTITION, PORT, CPC = 0, 16, 32, 48  # bits from which on the word of an SM's place has each
PLACE_MASK = 0xFFFF


class SlicePair(NamedTuple):
    """The slices of a request for a line: it enters through the near slice, of the partition that its SM asks, and goes
    on to the home slice, of the same index, if the line lives in the other partition. Both use the same set and tag."""

    near: int  # partition
    home: int
    near_slice: int
    home_slice: int
    set_number: int
    tag: int
    quotient: int  # number of the line among those of its home slice
    cls: int  # CLASS_*: what the request makes of the line


@compiled
def place_of(m, sm, part):
    """The GPC of an SM, or its PARTITION of L2, the PORT of the crossbar that it shares with the others of its TPC, or
    its CPC: some TPCs of a GPC that share a way for requests."""
    return m[m[ms.P_PLACES] + sm] >> part & PLACE_MASK


@compiled
def target_of(m, sm, line, cls):
    """The SlicePair of a request of an SM."""
    home, index, quotient = locate(m, line)
    near = place_of(m, sm, PARTITION)
    set_number, tag = set_and_tag(m, home, quotient)
    near_slice, home_slice = near * m[ms.P_INDICES] + index, home * m[ms.P_INDICES] + index
    return SlicePair(near, home, near_slice, home_slice, set_number, tag, quotient, cls)


def _runs(config: GPUConfig, n_sms: int) -> tuple[list[tuple[int, list[int]]], int]:
    """Runs of TPCs of one GPC, in the order in which they get blocks, as (GPC, TPCs); SMs of a TPC."""
    tpcs = -(-n_sms // config.crossbar.sms_per_port)
    gpcs = config.sm.tpc_gpcs
    if len(gpcs) != tpcs or max(gpcs) >= config.sm.gpcs:
        gpcs = tuple(tpc % config.sm.gpcs for tpc in range(tpcs))
        return [(gpc, [tpc]) for tpc, gpc in enumerate(gpcs)], config.crossbar.sms_per_port
    return [(gpc, list(run)) for gpc, run in groupby(range(tpcs), gpcs.__getitem__)], config.crossbar.sms_per_port


def places(config: GPUConfig, n_sms: int, blocks: int) -> list[int]:
    """The words at P_PLACES that `place_of` reads, one for each SM: of those that get a block of a grid of
    `blocks` blocks, then of the others."""
    partitions = config.l2.gpc_partitions
    if len(partitions) != config.sm.gpcs or max(partitions) >= config.l2.partitions:
        partitions = tuple(gpc % config.l2.partitions for gpc in range(config.sm.gpcs))
    runs, each = _runs(config, n_sms)
    whole = [(tpc, gpc) for gpc, tpcs in runs for tpc in tpcs for _ in range(each)][:n_sms]
    # A TPC that lacks an SM, as no GPU has one, gets its blocks in the order of SMs.
    first = _first(runs, each, blocks) if blocks < n_sms and n_sms % each == 0 else []
    left = list(whole)
    for place in first:
        left.remove(place)
    cpcs = _cpcs(config, whole)
    return [cpcs[tpc] << CPC | tpc << PORT | partitions[gpc] << PARTITION | gpc for tpc, gpc in first + left]


def sm_places(config: GPUConfig, words: np.ndarray, used: int) -> np.ndarray:
    """What SMs are told of their places, of which the first `used` get a block, int64 [SMs, 5]: the partition of L2;
    cycles by which they get their first code, and first constants, behind the first SM of their GPC; what a line of
    constants takes for all of its SMs; by how much their way to L2 is longer than the mean.

    H200, by clocks of all SMs: TPCs get code one after the other, CPC by CPC; constants first SMs, then second ones.
    """
    found = np.zeros((len(words), 5))
    found[:, 0] = words >> PARTITION & PLACE_MASK
    interval, crossbar, listed = config.constant.miss_interval_cycles, config.crossbar, words[:used].tolist()
    for gpc in {word & PLACE_MASK for word in listed}:  # not `numpy.unique`, whose first call imports masked arrays
        sms = [sm for sm, word in enumerate(listed) if word & PLACE_MASK == gpc]
        ports = [listed[sm] >> PORT for sm in sms]
        tpcs = sorted({*ports})  # CPC by CPC
        cpcs = [len(list(run)) for _, run in groupby(tpcs, lambda port: port >> CPC - PORT)]
        ways = [(n - 1) * crossbar.cpc_cycles + (crossbar.tpcs_per_cpc - 2 - k) * crossbar.tpc_cycles
                for n, count in enumerate(cpcs) for k in range(count)]  # fmt: skip
        turns = sorted(range(len(sms)), key=lambda k, ports=ports: (ports[:k].count(ports[k]), ports[k]))
        for turn, k in enumerate(turns):
            tpc = tpcs.index(ports[k])
            found[sms[k], 1:] = tpc * crossbar.sms_per_port * interval, turn * interval, len(sms) * interval, ways[tpc]
    return np.round(found).astype(np.int64)


def _cpcs(config: GPUConfig, whole: list[tuple[int, int]]) -> dict[int, int]:
    """CPC of each TPC: the TPCs of a GPC in turn, so that those of a GPC differ by one in size at most."""
    found: dict[int, int] = {}
    next_cpc = 0
    for gpc in range(config.sm.gpcs):
        tpcs = sorted({tpc for tpc, of in whole if of == gpc})
        count = -(-len(tpcs) // config.crossbar.tpcs_per_cpc)
        found |= {tpc: next_cpc + k % count for k, tpc in enumerate(tpcs)}
        next_cpc += count
    return found


def first_blocks(config: GPUConfig, n_sms: int, blocks: int, per_sm: int) -> np.ndarray:
    """SM of each of the blocks that find room at once, in the order of blocks; `per_sm` fit on an SM. int64[n]."""
    waves, rest = divmod(min(blocks, per_sm * n_sms), n_sms)
    if waves == 0 or n_sms % config.crossbar.sms_per_port != 0:
        return np.concatenate([np.tile(np.arange(n_sms), waves), np.arange(rest)])
    found: list[int] = []
    for tpc, _ in _first(*_runs(config, n_sms), rest, large_first=True):
        first = tpc * config.crossbar.sms_per_port
        found.append(found[-1] + 1 if found and found[-1] >= first else first)
    return np.concatenate([np.tile(np.arange(n_sms), waves), np.array(found, np.int64)])


def _first(
    runs: list[tuple[int, list[int]]], each: int, blocks: int, large_first: bool = False
) -> list[tuple[int, int]]:
    """(TPC, GPC) of the SMs that get a block, in the order of blocks, which are fewer than SMs.

    large_first: of GPCs with as many blocks the one with more TPCs gets the next.
    """
    shares = [min(blocks, each * len(runs[0][1]))] + [0] * (len(runs) - 1)

    def load(n: int) -> tuple[int, int, int, int, int]:
        # A GPC whose TPCs all have a block waits until all others' have.
        tpcs = len(runs[n][1])
        return shares[n] // tpcs, shares[n], -tpcs if large_first else 0, runs[n][0], n

    room = [load(n) for n in range(1, len(runs))]
    heapify(room)
    for _ in range(blocks - shares[0]):
        n = room[0][-1]
        shares[n] += 1
        if shares[n] < each * len(runs[n][1]):
            heapreplace(room, load(n))
        else:
            heappop(room)
    found = []
    for (gpc, tpcs), share in zip(runs, shares, strict=True):
        rounds, more = divmod(share, len(tpcs))
        for n, tpc in enumerate(tpcs):
            found += [(tpc, gpc)] * (rounds + (n < more))
    return found
