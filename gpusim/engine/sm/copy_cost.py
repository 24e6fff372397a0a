"""Cost of an asynchronous copy (LDGSTS) in wavefronts of shared memory and in sectors, as an H200 counts them.

Through L1 it goes in groups of lanes whose words fill a line of the banks. Two lanes of a group collide that meet in a
bank, of L1 at their sources or of shared memory at their targets, be their words the same or not; a group takes as many
wavefronts as the lane that collides most, itself included. That is what instrumented code counts; the data stage takes
as many turns as lanes meet in one bank of either (H200, `l1tex__data_pipe_lsu_wavefronts` and time alike).

Past L1 whole lines of 128 bytes go: one wavefront for all full sectors between a line of global and one of shared
memory, and one more for each way in which half sectors lie in both. Of lanes with the same target the last one counts.
Found in 730 recorded copies (tests/gpusim/data/h200_async_copies.json.gz), of which 728 agree.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.state.bits import lowest_bit, popc
from gpusim.engine.state.jit import compiled

_SECTOR_BITS, _SECTORS = 5, 4
LINE_SHIFT = _SECTORS + 17  # of a wavefront's line, above its sectors and what else tells wavefronts apart


@compiled
def meeting(place, shift, ways, first, last, mask, met):
    """Count the lanes of a group in each bank, into met[0 .. ways - 1]. Return the largest count."""
    met[:ways] = 0
    most = np.int64(0)
    for lane in range(first, last):
        if (mask >> lane) & 1:
            bank = (place[lane] >> shift) & (ways - 1)
            met[bank] += 1
            most = max(most, met[bank])
    return most


@compiled
def most_collisions(source, target, mask, reading, shift, ways, first, last, met):
    """The most lanes of a group that one of them collides with, itself included: in either place, in one of them."""
    sources = meeting(source, shift, ways, first, last, reading, met)
    targets = meeting(target, shift, ways, first, last, mask, met[ways:])
    in_one = max(sources, targets)
    if min(sources, targets) <= 1:
        return in_one, in_one
    most = in_one
    for lane in range(first, last):
        if (mask >> lane) & 1 == 0:
            continue
        from_, to = (source[lane] >> shift) & (ways - 1), (target[lane] >> shift) & (ways - 1)
        reads = (reading >> lane) & 1 != 0
        count = met[ways + to] + (met[from_] if reads else 0)
        if reads:
            for other in range(first, last):  # those that it meets in both are counted twice
                both = (target[other] >> shift) & (ways - 1) == to and (source[other] >> shift) & (ways - 1) == from_
                if (reading >> other) & 1 and both:
                    count -= 1
        most = max(most, count)
    return most, in_one


@compiled
def copy_wavefronts(source, target, mask, reading, size, line_bytes, met):
    """Wavefronts of a copy through L1 as instrumented code counts them, how many it has at least, and how many the data
    stage takes.

    source, target: int64 [32], addresses of the lanes in `mask`, of `size` bytes each; those in `reading` read.
    line_bytes: of all banks. met: int64 [2 * banks] for the function's own use.
    """
    ways = max(line_bytes // size, 1)
    shift = popc(size - 1)
    wavefronts, turns = np.int64(0), np.int64(0)
    for first in range(0, 32, ways):
        last = min(first + ways, 32)
        most, in_one = most_collisions(source, target, mask, reading, shift, ways, first, last, met)
        wavefronts += most
        turns += in_one
    return wavefronts, (popc(mask) * size + line_bytes - 1) // line_bytes, turns


@compiled
def zero_wavefronts(zeros, reading, size, line_bytes, bypass):
    """Wavefronts that write a copy's zeros, as an H100 counts them (tests/gpusim/test_async_copy_counts.py): one for
    each group of lanes whose words fill a line of the banks, of a copy through L1 only where others of them read.

    zeros: lanes that get zeros; of a copy past L1 all, if one of them gets a part of its bytes.
    """
    ways = max(min(line_bytes // size, 32), 1)
    wavefronts = np.int64(0)
    for first in range(0, 32, ways):
        group = ((np.int64(1) << ways) - 1) << first
        wavefronts += (zeros & group != 0) and (bypass or reading & group != 0)
    return wavefronts


@compiled
def last_to_target(target, mask):
    """Of lanes with the same target the last ones."""
    seen = np.uint64(0)
    for lane in range(32):
        seen |= np.uint64((mask >> lane) & 1) << np.uint64((target[lane] >> 4) & 63)
    left = mask
    if popc(seen) + popc(seen >> np.uint64(32)) != popc(mask):  # else all differ
        for lane in range(32):
            same = V.less_u64(V.load64(target, 0) ^ V.splat64(target[lane]), V.splat64(1)) & mask
            left &= ~(np.int64(same >> lane > 1) << lane)
    return left


@compiled
def note(keys, count, key, sector):
    """Adds a key to those in keys[:count] if it is new, and a sector to it. Returns how many keys there are."""
    for k in range(count - 1, -1, -1):
        if keys[k] >> _SECTORS == key:
            keys[k] |= 1 << sector
            return count
    keys[count] = key << _SECTORS | 1 << sector
    return count + 1


@compiled
def partner(source, target, mask, lane):
    """The other lane that copies between the same two sectors, -1 if there is none: it has the target's other half."""
    apart = (V.load64(source, 0) ^ V.splat64(source[lane])) | (V.load64(target, 0) ^ V.splat64(target[lane]))
    others = V.less_u64(apart, V.splat64(1 << _SECTOR_BITS)) & mask & ~(1 << lane)
    return lowest_bit(others) if others != 0 else np.int64(-1)


@compiled
def sector_pairs(source, target, mask, keys):
    """Of a copy past L1: (wavefronts, sectors, pairs of sectors between which something goes, lanes that count).

    A wavefront takes all full sectors between two lines, or the halves that lie in the same way in sectors as far
    apart, and is a request to L2 (`lts__t_requests`, `l1tex__m_xbar2l1tex_read_sectors`): keys, int64 [64], begin with
    the line and the sectors of each, see LINE_SHIFT. Sectors are counted once for each line that they come from.
    target: within a block's memory.
    """
    wavefronts = sectors = full = 0
    pairs = np.int64(0)
    left = last = last_to_target(target, mask)
    for lane in range(32):
        if (left >> lane) & 1 == 0:
            continue
        from_, to = source[lane] >> _SECTOR_BITS, target[lane] >> _SECTOR_BITS
        half = (source[lane] >> 4) & 1
        other = partner(source, target, left, lane)
        fills = other >= 0 and (source[other] >> 4) & 1 != half
        pairs += 1
        way = 4 if fills else half << 1 | (target[lane] >> 4) & 1
        apart = 0 if fills else (from_ & 3) - (to & 3) + 3
        lines = (from_ >> 2) << 11 | (to >> 2) & 0x7FF
        wavefronts = note(keys, wavefronts, lines << 6 | apart << 3 | way, from_ & 3)
        if fills:  # no other lanes have this target
            full += 1
            left ^= 1 << other
        else:
            sectors = note(keys[32:], sectors, (from_ >> 2) << 13 | to & 0x1FFF, 0)
    return np.int64(wavefronts), np.int64(sectors + full), pairs, popc(last)
