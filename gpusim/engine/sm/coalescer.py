"""Cost of a warp's addresses: wavefronts of shared memory, lines and sectors of global memory.

These are functions of lane addresses, active lanes and access size alone, so they equal the hardware's counters
exactly. Each rule below was found by our microbenchmark on an H200 (one warp, one access, over 1,000 lane patterns
under Nsight Compute; `tests/gpusim/data/h200_patterns.json.gz` holds them, and the tests replay them).

Shared memory has 32 banks of 4 bytes; word w lies in bank w mod 32. A *pass* is what can be served at once: all 32
lanes of an access of up to 4 bytes, half a warp of 8 bytes, a quarter of 16 bytes. A pass takes as many *wavefronts*
as the most wanted bank holds different words of it. Lanes that want the same word, or parts of it, share it
(broadcast), in stores too.

Loads of 8 and 16 bytes can merge two neighbouring passes into one, so that a broadcast is not read twice. The hardware
merges all pairs of passes or none, when in the whole warp each lane has the address of its neighbour lane^1 (or one of
the two is inactive), or each that of lane^2. Nsight Compute's source counters, `memory_l1_wavefronts_shared` and its
ideal, come from instrumented code, which decides for each pair of passes alone and merges only if no conflict is left.
So the two counters differ in rare cases, and both are returned. A load by a generic address merges nothing: on an H100,
32 lanes that read the same 16 bytes of shared memory take four wavefronts by `LD.128`, by count and by time.

An atomic reads and writes its word before the next lane may touch it, so lanes on one word take turns like lanes on
different words of a bank, and a pass takes as many wavefronts as there are lanes on its busiest bank. Compare-and-swap
takes two for each turn. POPC.INC, which adds the number of lanes, treats equal addresses like a store.
CAST.SPIN, the compare-and-store of a loop that the compiler builds for floating-point atomics, lets the lowest lane of
each bank try and lets the others of the bank fail: two wavefronts a pass, whatever the conflicts.

Global memory: one tag lookup for each 128-byte line, whatever the access size, one sector for each 32 bytes touched.
Atomics send one request for each line, but lanes with equal addresses go into different requests.
"""

import numpy as np

from gpusim.engine.rows import lanes as V
from gpusim.engine.state.bits import lowest_bit, popc
from gpusim.engine.state.jit import compiled


@compiled
def pass_lanes(size, banks, bank_shift):
    """Lanes of one pass: as many as fill the banks once; all 32 if a lane wants no more than a bank is wide."""
    lanes = 32
    if size >> bank_shift > 1:
        while lanes > 1 and lanes * size > banks << bank_shift:
            lanes >>= 1
    return lanes


@compiled
def bank_degree(address, touched, mask, first, last, words, banks, bank_shift):
    """Largest number of different words that lanes first..last-1 in `mask` want of one bank; 0 without lanes.

    `address` byte addresses by lane, `words` consecutive bank words a lane wants, `touched` scratch of `banks` rows.
    """
    part = mask & (((1 << (last - first)) - 1) << first)
    if part == 0:
        return 0
    shift = bank_shift
    if banks & (banks - 1) != 0 or banks > 64 or words > banks:
        return _any_degree(address, touched, part, first, last, words, banks, shift)
    while words > 1:  # aligned accesses of n banks conflict like words of n times wider, n times fewer banks
        words >>= 1
        banks >>= 1
        shift += 1
    origin = address[lowest_bit(part)]
    differ = 0
    seen = 0
    for lane in range(32):  # without branches, so that it becomes vector code
        active = (part >> lane) & 1
        differ |= (address[lane] ^ origin) & -active
        seen |= active << ((address[lane] >> shift) & (banks - 1))
    if differ >> shift < banks:  # all in one row of the banks
        return 1
    if popc(seen) + popc(seen >> 32) == popc(part):  # every lane has its own bank
        return 1
    return _single_degree(address, touched, part, banks, shift)


@compiled
def _single_degree(address, touched, mask, banks, shift):
    """Return what bank_degree does, for a word of each lane and a power of two of banks."""
    touched[:banks, 1] = 0
    degree, left = 0, mask
    while left != 0:
        lane = lowest_bit(left)
        other = V.load64(address, 0) ^ V.splat64(address[lane])
        left &= ~np.int64(V.less_u64(other, V.splat64(np.int64(1) << shift)))
        bank = (address[lane] >> shift) & (banks - 1)
        touched[bank, 1] += 1
        degree = max(degree, touched[bank, 1])
    return degree


@compiled
def _any_degree(address, touched, mask, first, last, words, banks, shift):
    """Return what bank_degree does, for addresses in any order and any number of words and banks."""
    touched[:banks, 1] = 0
    degree = 0
    for lane in range(first, last):
        if (mask >> lane) & 1 == 0:
            continue
        start = address[lane] >> shift
        for word in range(start, start + words):
            repeated = 0
            for other in range(first, lane):
                behind = word - (address[other] >> shift)
                repeated |= ((mask >> other) & 1) & (behind >= 0) & (behind < words)
            if repeated == 0:
                touched[word % banks, 1] += 1
                degree = max(degree, touched[word % banks, 1])
    return degree


@compiled
def lanes_agree(address, mask, first, last, distance):
    """Return whether each active lane of first..last-1 has the address of lane ^ distance, where that is active too."""
    for lane in range(first, last):
        other = lane ^ distance
        if other > lane and (mask >> lane) & (mask >> other) & 1 and address[lane] != address[other]:
            return False
    return True


@compiled
def mergeable(address, mask, first, last):
    """Return whether a load of more than a bank word can serve two neighbouring passes of these lanes as one."""
    return lanes_agree(address, mask, first, last, 1) or lanes_agree(address, mask, first, last, 2)


@compiled
def least_wavefronts(mask, size, banks, bank_shift):
    """Wavefronts that the active lanes' bytes would fill if each were different and none conflicted."""
    needed = popc(mask) * size
    width = banks << bank_shift
    return 1 if needed <= width else (needed + width - 1) // width


@compiled
def shared_wavefronts(address, touched, mask, size, banks, bank_shift, merges):
    """Cost of a shared-memory load or store of `size` bytes a lane, with at least one active lane. merges: it is a load
    whose passes may merge.

    Returns (wavefronts and their ideal as the source counters know them, the hardware's wavefronts, those of them
    that are bank conflicts). Also serves POPC.INC, as a store.
    """
    words = max(size >> bank_shift, 1)
    lanes = pass_lanes(size, banks, bank_shift)
    if lanes == 32:
        degree = bank_degree(address, touched, mask, 0, 32, words, banks, bank_shift)
        return degree, min(degree, least_wavefronts(mask, size, banks, bank_shift)), degree, degree - 1
    merge = merges and mergeable(address, mask, 0, 32)
    source = 0
    hardware = 0
    passes = 0
    for first in range(0, 32, 2 * lanes):
        last = first + 2 * lanes
        low = bank_degree(address, touched, mask, first, first + lanes, words, banks, bank_shift)
        high = bank_degree(address, touched, mask, first + lanes, last, words, banks, bank_shift)
        together = separate = low + high
        if low != 0 and high != 0 and merges and (merge or mergeable(address, mask, first, last)):
            together = bank_degree(address, touched, mask, first, last, words, banks, bank_shift)
            source += 1 if together == 1 else separate
        else:
            source += separate
        hardware += together if merge else separate
        passes += (1 if low + high != 0 else 0) if merge else (1 if low != 0 else 0) + (1 if high != 0 else 0)
    return source, min(source, least_wavefronts(mask, size, banks, bank_shift)), hardware, hardware - passes


@compiled
def lane_bank(address, size, banks, bank_shift):
    """Bank that an aligned access starts in, in units of its own size where that is more than a bank."""
    while size >> bank_shift > 1 and banks > 1:
        banks >>= 1
        bank_shift += 1
    word = address >> bank_shift
    return word & (banks - 1) if banks & (banks - 1) == 0 else word % banks


@compiled
def atomic_turns(address, touched, mask, size, banks, bank_shift):
    """Of an atomic of `size` bytes a lane: (the lowest lane of each bank and pass, turns of lanes, passes)."""
    lanes = pass_lanes(size, banks, bank_shift)
    firsts = turns = passes = 0
    for first in range(0, 32, lanes):
        touched[:banks, 1] = 0
        most = 0
        for lane in range(first, first + lanes):
            if (mask >> lane) & 1:
                bank = lane_bank(address[lane], size, banks, bank_shift)
                firsts |= (1 if touched[bank, 1] == 0 else 0) << lane
                touched[bank, 1] += 1
                most = max(most, touched[bank, 1])
        turns += most
        passes += 1 if most != 0 else 0
    return firsts, turns, passes


@compiled
def shared_turns(address, touched, mask, size, banks, bank_shift, cost):
    """Cost of a shared-memory atomic of `size` bytes a lane, `cost` wavefronts a turn: as shared_wavefronts."""
    _, turns, passes = atomic_turns(address, touched, mask, size, banks, bank_shift)
    ideal = cost * least_wavefronts(mask, size, banks, bank_shift)
    return cost * turns, ideal, cost * turns, turns - passes


@compiled
def spin_winners(address, touched, mask, size, banks, bank_shift):
    """CAST.SPIN: (lanes that may try, wavefronts, their ideal). The lowest lane of each bank and pass may."""
    winners, _, passes = atomic_turns(address, touched, mask, size, banks, bank_shift)
    return winners, 2 * passes, 2 * least_wavefronts(mask, size, banks, bank_shift)


@compiled
def coalesce(address, touched, mask, size):
    """Different 128-byte lines and 32-byte sectors of a request whose lanes do not straddle sectors.

    Fills touched[k] = (line number, mask of its four sectors) and returns (lines, sectors). Lines near that of the
    first lane (a kilobyte before or after) come in ascending order, scattered ones in the order of their first lanes.
    """
    if mask == 0:
        return 0, 0
    window = (address[lowest_bit(mask)] >> 7) - 8  # sixteen lines around that of the first lane
    far = 0
    seen = np.uint64(0)
    for lane in range(32):  # without branches, so that it becomes vector code
        active = (mask >> lane) & 1
        sector = (address[lane] >> 5) - (window << 2)
        far |= sector & -active
        seen |= np.uint64(active) << np.uint64(sector & 63)
    lines = 0
    sectors = 0
    if far & ~63 == 0:
        sectors = popc(seen) + popc(seen >> np.uint64(32))
        while seen != 0:
            part = np.int64(seen & np.uint64(15))
            touched[lines, 0], touched[lines, 1] = window, part
            lines += 1 if part != 0 else 0
            seen >>= np.uint64(4)
            window += 1
        return lines, sectors
    for lane in range(32):
        if (mask >> lane) & 1:
            k = lines - 1
            while k >= 0 and touched[k, 0] != address[lane] >> 7:
                k -= 1
            if k < 0:
                k = lines
                touched[k, 0] = address[lane] >> 7
                touched[k, 1] = 0
                lines += 1
            bit = 1 << ((address[lane] >> 5) & 3)
            sectors += 1 if touched[k, 1] & bit == 0 else 0
            touched[k, 1] |= bit
    return lines, sectors


@compiled
def atomic_requests(address, touched, mask, swap, size=4):
    """Requests that a global atomic or reduction of `size` bytes a lane sends, (requests, sectors in them); touched[k]
    as in coalesce, and the words of each.
    Lanes with different addresses of a line share a request, lanes with equal addresses do not: the n-th lane on an
    address is in the n-th request for its line. A compare-and-swap (`swap`) carries two operands a lane, so one
    request covers half a line.
    """
    requests = 0
    sectors = 0
    left = mask
    words = (1 << (size >> 2)) - 1
    while left != 0:
        first = requests  # a round: one lane of every address that is left
        later = left & repeats(address, left)
        rest = left & ~later
        while rest != 0:
            lane = lowest_bit(rest)
            rest &= rest - 1
            line = address[lane] >> 7
            sector = (address[lane] >> 5) & 3
            k = requests - 1
            while k >= first and (touched[k, 0] != line or (swap and (touched[k, 1] > 3) != (sector > 1))):
                k -= 1
            if k < first:
                k = requests
                touched[k, 0] = line
                touched[k, 1] = touched[k, 2] = 0
                requests += 1
            sectors += 1 - ((touched[k, 1] >> sector) & 1)
            touched[k, 1] |= 1 << sector
            touched[k, 2] |= words << ((address[lane] >> 2) & 31)
        left = later
    return requests, sectors


@compiled
def repeats(address, mask):
    """Lanes in `mask` whose address a lower lane in it has too."""
    found = 0
    before = np.int64(-1)
    ordered = True
    for lane in range(32):
        if (mask >> lane) & 1:
            ordered &= address[lane] >= before
            found |= (1 << lane) if address[lane] == before else 0
            before = address[lane]
    if ordered:
        return found
    found = 0
    for lane in range(1, 32):
        equal = 0
        for other in range(lane):
            equal |= ((mask >> other) & 1) & (address[other] == address[lane])
        found |= equal << lane
    return found & mask
