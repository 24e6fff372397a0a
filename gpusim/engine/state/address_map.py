"""Address mapping of a line: home partition, slice, set and tag in L2, and channel, bank and row in memory.

Latencies of atomics to every line of some megabytes show an H200's order: 4 KB are of one partition, and which one is
the parity of some address bits; in a kilobyte two slices alternate, two lines at a time. Reductions agree: two
neighbouring lines take as long as one, four or eight lines half as long.

Which pair of slices a kilobyte lies in is a hash: a GPU folds the upper address bits over the lower ones with XOR, so
that no stride camps on one slice. With 48 slices of a partition that are no power of two the same is done with a
rotation: the number of a block (a kilobyte of the partition) is split into a quotient and a remainder by the number of
pairs of slices, and the remainder is turned by a hash of the quotient. In what order the lines of a block follow in
its slices is a hash of the block. Any such run of blocks uses each slice alike, the mapping can be inverted, and
strides of every power of two beyond a pair spread as random addresses do.
"""

from gpusim.engine.state import memory as ms
from gpusim.engine.state.bits import popc
from gpusim.engine.state.jit import compiled

_BLOCK_BITS = 3  # lines of a block, which lies in two slices
PAGE_BITS = 5  # lines of a page of 4 KB, which lies in one partition
_PAGE_BLOCKS = 1 << (PAGE_BITS - _BLOCK_BITS)
_ORDERS = 8  # ways to lay a block over its slices: which slice first, and which of its four lines first
GOLDEN = 0x9E3779B1  # 2^32 / golden ratio, odd: Knuth's multiplicative hash


@compiled
def spread(value, count):
    """A hash of `value` (>= 0) in 0..count-1."""
    folded = (value ^ (value >> 15) ^ (value >> 31)) & 0xFFFFFFFF
    mixed = (folded * GOLDEN) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * GOLDEN) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 16)) * count) >> 32


@compiled
def locate(m, line):
    """(home partition, index of the slice in its partition, quotient) of a line.

    The three results together identify the line: the quotient counts the lines of a slice.
    """
    page = line >> PAGE_BITS
    home = popc(page & m[ms.P_PARITY_PAGES]) & 1 if m[ms.P_PARTITIONS] == 2 else page % m[ms.P_PARTITIONS]
    block = (page // m[ms.P_PARTITIONS] << (PAGE_BITS - _BLOCK_BITS)) | (line >> _BLOCK_BITS & _PAGE_BLOCKS - 1)
    pairs = m[ms.P_INDICES] >> 1
    turn = block // pairs
    pair = block - turn * pairs + spread(turn, pairs)
    if pair >= pairs:
        pair -= pairs
    order = spread(block, _ORDERS)
    index = 2 * pair + (((line >> 1) ^ order) & 1)
    within = ((line >> 1) & 2 | line & 1) ^ (order >> 1)
    return home, index, 4 * turn + within


@compiled
def set_and_tag(m, home, quotient):
    """Set within a slice, and the tag (never 0) of the line there, which also tells copies from home lines.

    As many lines of a slice as it has sets fill them all, from a set on that has nothing to do with the last one: so
    home lines are in all sets alike, as what an H200 keeps of 36 to 56 MiB says (`engine.memory.l2`).
    """
    upper = quotient // m[ms.P_SETS]
    tag = upper * m[ms.P_PARTITIONS] + home + 1
    index = quotient - upper * m[ms.P_SETS] + spread(tag, m[ms.P_SETS])
    if index >= m[ms.P_SETS]:
        index -= m[ms.P_SETS]
    return index, tag


@compiled
def quotient_of(m, index, tag):
    """The quotient that `set_and_tag` turned into (set, tag)."""
    lower = index - spread(tag, m[ms.P_SETS])
    if lower < 0:
        lower += m[ms.P_SETS]
    return (tag - 1) // m[ms.P_PARTITIONS] * m[ms.P_SETS] + lower


@compiled
def memory_location(m, slice_, quotient):
    """(channel, bank over all channels, row) of a line whose home is `slice_`.

    Slices are wired to channels: some channels for each slice, or some slices for each channel. Where neither number
    divides the other, the lines of all slices go round all channels. Neighbouring lines of a channel share a row, and
    neighbouring rows lie in different banks.
    """
    legs = m[ms.P_CHANNELS_PER_SLICE]
    channel, local = slice_, quotient
    if legs == 0:
        number = quotient * m[ms.P_SLICES] + slice_
        local = number // m[ms.P_CHANNELS]
        channel = number - local * m[ms.P_CHANNELS] + spread(local, m[ms.P_CHANNELS])
        if channel >= m[ms.P_CHANNELS]:
            channel -= m[ms.P_CHANNELS]
    elif legs > 1:
        local = quotient // legs
        leg = quotient - local * legs + spread(local, legs)
        channel = slice_ * legs + (leg - legs if leg >= legs else leg)
    elif m[ms.P_SLICES_PER_CHANNEL] > 1:
        channel = slice_ // m[ms.P_SLICES_PER_CHANNEL]
        local = quotient * m[ms.P_SLICES_PER_CHANNEL] + slice_ - channel * m[ms.P_SLICES_PER_CHANNEL]
    row = local >> m[ms.P_ROW_SHIFT]
    turn = row // m[ms.P_BANKS]
    # Runs of rows go through the banks with steps that differ, so that no two streams meet in one bank again and again.
    step = 2 * spread(turn, m[ms.P_BANKS] >> 1) + 1 if m[ms.P_BANKS] & (m[ms.P_BANKS] - 1) == 0 else 1
    bank = (row * step + spread(turn * 3 + 1, m[ms.P_BANKS])) % m[ms.P_BANKS]
    return channel, channel * m[ms.P_BANKS] + bank, row
