"""What an asynchronous copy (LDGSTS) costs in wavefronts of shared memory and in sectors, as an H200 counts them.

Through L1 it is a load and a store in one: each quarter of 32 lanes of 16 bytes, half of 8, or all of 4, reads its
words out of the banks of L1, in as many turns as words meet in a bank, be they the same word or not, and writes them
into the banks of shared memory, in as many turns as different words meet; one turn of both is the same. Past L1 it has
no wavefronts of its own, and its sectors are those of shared memory that each line of 128 bytes goes to.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.state.bits import lowest_bit
from gpusim.engine.state.jit import compiled

_GROUP_BYTES = 128


@compiled
def first_to(target, mask, first, lane):
    """True if no lane from `first` on in front of `lane` writes to the same place."""
    met = False
    for other in range(first, lane):
        met = met or ((mask >> other) & 1 != 0 and target[other] == target[lane])
    return not met


@compiled
def copy_wavefronts(source, target, mask, size, banks, shift, met):
    """Wavefronts of a copy through L1, and how many it has at least.

    source, target: int64 [32], addresses of the lanes in `mask`, of `size` bytes each. banks, shift: of shared memory,
    the shift being that of a bank's bytes. met: int64 [2 * banks] for the function's own use.
    """
    lanes = _GROUP_BYTES // size
    words = max(size >> shift, 1)
    wavefronts = np.int64(0)
    groups = np.int64(0)
    for first in range(0, 32, lanes):
        met[: 2 * banks] = 0
        reads = np.int64(0)
        writes = np.int64(0)
        for lane in range(first, first + lanes):
            if (mask >> lane) & 1 == 0:
                continue
            new = first_to(target, mask, first, lane)
            for k in range(words):
                bank = ((source[lane] >> shift) + k) % banks
                met[bank] += 1
                reads = max(reads, met[bank])
                if new:
                    bank = banks + ((target[lane] >> shift) + k) % banks
                    met[bank] += 1
                    writes = max(writes, met[bank])
        if reads > 0:
            groups += 1
            wavefronts += reads + writes - 1
    return wavefronts, groups


@compiled
def bypass_sectors(source, target, mask):
    """Sectors of a copy past L1: for each line that it reads, those of shared memory that it writes."""
    sectors = np.int64(0)
    lines = V.load64(source, 0) >> V.splat64(7)
    places = V.load64(target, 0) >> V.splat64(5)
    left = np.uint32(mask)
    while left != 0:
        lane = lowest_bit(left)
        same = V.equal64(lines, V.splat64(source[lane] >> 7)) & V.equal64(places, V.splat64(target[lane] >> 5))
        left &= ~same
        sectors += 1
    return sectors
