"""Where a line lives: home partition, slice, set and tag in L2, and channel, bank and row in memory.

Reductions to lines of one kilobyte on an H200 show how coarsely slices interleave: two neighbouring lines take as
long as one, four or eight lines half as long. So two lines, a pair, share a slice, and a kilobyte, a block of four
pairs, lies in two slices.

A GPU folds the upper address bits over the lower ones with XOR, so that no stride camps on one slice. With 96
slices that are no power of two the same is done with a rotation: the number of a block is split into a quotient and
a remainder by the number of pairs of slices, and the remainder is turned by a hash of the quotient. Pairs of lines
alternate between the two slices of their block; which comes first, and in what order the lines follow in the slice,
is a hash of the block. Any such run of blocks uses each slice alike, the mapping can be inverted, and strides of
every power of two beyond a pair spread as random addresses do.
"""

import numpy as np

from gpusim.engine.jit import compiled, compiled_with_arrays
from gpusim.engine.memory_state import (
    P_BANKS,
    P_CHANNELS_PER_SLICE,
    P_INDICES,
    P_PARTITIONS,
    P_ROW_SHIFT,
    P_SETS,
    P_SLICES,
    P_SLICES_PER_CHANNEL,
)

_BLOCK_BITS = 3  # lines of a block, which lies in two slices
_ORDERS = 8  # ways to lay a block over its slices: which slice first, and which of its four lines first
_GOLDEN = 0x9E3779B1  # 2^32 / golden ratio, odd: Knuth's multiplicative hash


@compiled
def spread(value, count):
    """A hash of `value` (>= 0) in 0..count-1."""
    folded = (value ^ (value >> 15) ^ (value >> 31)) & 0xFFFFFFFF
    mixed = (folded * _GOLDEN) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * _GOLDEN) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 16)) * count) >> 32


@compiled
def locate(m, line):
    """(home partition, index of the slice in its partition, quotient) of a line.

    Neighbouring pairs of lines alternate between partitions. The three results together identify the line: the
    quotient counts the lines of a slice.
    """
    block = line >> _BLOCK_BITS
    pairs = m[P_SLICES] >> 1
    turn = block // pairs
    pair = block - turn * pairs + spread(turn, pairs)
    if pair >= pairs:
        pair -= pairs
    order = spread(block, _ORDERS)
    slot = 2 * pair + (((line >> 1) ^ order) & 1)
    index = slot // m[P_PARTITIONS]
    within = ((line >> 1) & 2 | line & 1) ^ (order >> 1)
    return slot - index * m[P_PARTITIONS], index, 4 * turn + within


@compiled
def set_and_tag(m, home, quotient):
    """Set within a slice, and the tag (never 0) of the line there, which also tells copies from home lines."""
    upper = quotient // m[P_SETS]
    index = quotient - upper * m[P_SETS] + spread(upper, m[P_SETS])
    if index >= m[P_SETS]:
        index -= m[P_SETS]
    return index, upper * m[P_PARTITIONS] + home + 1


@compiled
def quotient_of(m, index, tag):
    """The quotient that `set_and_tag` turned into (set, tag)."""
    upper = (tag - 1) // m[P_PARTITIONS]
    lower = index - spread(upper, m[P_SETS])
    if lower < 0:
        lower += m[P_SETS]
    return upper * m[P_SETS] + lower


@compiled
def memory_location(m, slice_, quotient):
    """(channel, bank over all channels, row) of a line whose home is `slice_`.

    Slices are wired to channels: some channels for each slice, or some slices for each channel. Neighbouring lines
    of a channel share a row, and neighbouring rows lie in different banks.
    """
    legs = m[P_CHANNELS_PER_SLICE]
    channel, local = slice_, quotient
    if legs > 1:
        local = quotient // legs
        leg = quotient - local * legs + spread(local, legs)
        channel = slice_ * legs + (leg - legs if leg >= legs else leg)
    elif m[P_SLICES_PER_CHANNEL] > 1:
        channel = slice_ // m[P_SLICES_PER_CHANNEL]
        local = quotient * m[P_SLICES_PER_CHANNEL] + slice_ - channel * m[P_SLICES_PER_CHANNEL]
    row = local >> m[P_ROW_SHIFT]
    turn = row // m[P_BANKS]
    bank = row - turn * m[P_BANKS] + spread(turn, m[P_BANKS])
    if bank >= m[P_BANKS]:
        bank -= m[P_BANKS]
    return channel, channel * m[P_BANKS] + bank, row


@compiled_with_arrays
def map_lines(m, lines):
    """Home partition, slice (over all partitions), set, channel, bank and row of each line: int64[n, 6].

    lines: int64[n]. For tests and for teaching; the simulation itself maps one line at a time.
    """
    out = np.empty((lines.size, 6), np.int64)
    for i in range(lines.size):
        home, index, quotient = locate(m, lines[i])
        slice_ = home * m[P_INDICES] + index
        out[i, 0], out[i, 1] = home, slice_
        out[i, 2], _ = set_and_tag(m, home, quotient)
        out[i, 3], out[i, 4], out[i, 5] = memory_location(m, slice_, quotient)
    return out
