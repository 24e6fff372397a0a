"""The lines of L1: looked up, replaced, filled by stores.

L1 is written through. With `l1.write_allocate` what is stored is there too, word by word: an H200 that stores a word
and loads it finds it (`store, load`), and loads the rest of its sector from L2.
"""

import numpy as np

from gpusim.engine.sm.stored import words_of
from gpusim.engine.state import L, P, compiled, ms, popc
from gpusim.engine.state.address_map import spread

_SECTOR_WORDS = 8
_TAG_BITS = 8  # for a count of lines
_PROTECTED = np.int64(1) << 40


@compiled
def find_line(st, sm, line):
    """(place of a line in L1, found). Without a match: the idle way that `l1.replacement` gives up, or -1.

    TAG_USED is when a line was last used or, for "fifo", when it came; 0 in a way that is empty; beyond _PROTECTED in
    the one that was found last, for "slru".
    """
    sets = st.sm[sm, L.SM_L1_SETS]
    ways = st.par[P.L1_WAYS]
    tags = st.tags[sm]
    first = line % sets * ways
    place = np.int64(-1)
    for k in range(first, first + ways):  # without branches, so that it becomes vector code; so does the next one
        place = max(place, k if tags[L.TAG_TAG, k] == line else -1)
    if place >= 0:
        return place, True
    best = L.NEVER
    for k in range(first, first + ways):
        age = (tags[L.TAG_USED, k] << L.BITS_OF_WAY) + k - first
        best = min(best, age if tags[L.TAG_PENDING, k] == 0 else L.NEVER)
    if best == L.NEVER:
        return np.int64(-1), False
    way = best & ((1 << L.BITS_OF_WAY) - 1)
    if st.par[P.L1_REPLACEMENT] == ms.RANDOM and best > way:
        way = spread(st.sm[sm, L.SM_CLOCK], ways)
        while tags[L.TAG_PENDING, first + way] != 0:
            way = (way + 1) % ways
    return first + way, False


@compiled
def note_use(st, sm, way):
    """A line of L1 has been found again. H200: of 128 to 1,024 hot lines among some that come once 1, 5, 16, 39 % miss;
    of sets of four with one protected line 1, 5, 19, 41, with none 5, 17, 39, 62."""
    st.sm[sm, L.SM_CLOCK] += 1
    used, clock, ways = st.tags[sm, L.TAG_USED], st.sm[sm, L.SM_CLOCK], st.par[P.L1_WAYS]
    if st.par[P.L1_REPLACEMENT] == ms.SLRU:
        for k in range(way // ways * ways, way // ways * ways + ways):
            used[k] = min(used[k], clock)
        clock += _PROTECTED
    if st.par[P.L1_REPLACEMENT] != ms.FIFO:
        used[way] = clock


@compiled
def replace_line(st, sm, way, line):
    """A way of L1 is another line's from now on, none of whose sectors is there."""
    st.sm[sm, L.SM_CLOCK] += 1
    tags = st.tags[sm]
    tags[L.TAG_TAG, way] = line
    tags[L.TAG_USED, way] = st.sm[sm, L.SM_CLOCK]
    tags[L.TAG_VALID, way] = tags[L.TAG_PENDING, way] = tags[L.TAG_MSHR, way] = tags[L.TAG_WORDS, way] = 0


@compiled
def keep_stored(st, sm, line, sectors, words):
    """With `l1.write_allocate`: words that are stored are in L1."""
    if st.sm[sm, L.SM_L1_SETS] == 0 or words == 0:
        return
    way, found = find_line(st, sm, line)
    if found:
        note_use(st, sm, way)
    elif way >= 0:
        replace_line(st, sm, way, line)
    if way >= 0:
        tags = st.tags[sm]
        tags[L.TAG_WORDS, way] |= words
        for s in range(ms.LINE_BYTES // ms.SECTOR_BYTES):  # a sector is there once all of its words are
            tags[L.TAG_VALID, way] |= np.int64((tags[L.TAG_WORDS, way] >> (_SECTOR_WORDS * s)) & 255 == 255) << s


@compiled
def line_words(address, line, mask, size):
    """Words of a line that lanes touch, those that stores of bytes and halves leave whole alone."""
    whole, words = np.int64(-1), (np.int64(1) << max(size >> 2, 1)) - 1
    for part in range(0, 4, size):
        found = np.int64(0)
        for lane in range(32):
            if (mask >> lane) & 1 and address[lane] >> 7 == line and address[lane] & 3 & -size == part:
                found |= words << ((address[lane] >> 2) & 31)
        whole &= found
    return whole


@compiled
def note_words(address, touched, count, mask, size):
    """touched[n, 2]: words of each of `count` lines, as `line_words` has them."""
    if size < 4:
        for n in range(count):
            touched[n, 2] = line_words(address, touched[n, 0], mask, size)
        return
    for n in range(count):
        touched[n, 2] = 0
    words = (1 << (size >> 2)) - 1
    n = 0
    for lane in range(32):
        if (mask >> lane) & 1:
            while touched[n, 0] != address[lane] >> 7:
                n = n + 1 if n + 1 < count else 0
            touched[n, 2] |= words << ((address[lane] >> 2) & 31)


@compiled
def absent_sectors(words, needed, wanted, absent):
    """Return which of the `wanted` sectors of a line a load has to ask for, `absent` of which are not there as a whole.

    Stores have left `words` there, which may be all that the load `needed`. If of a sector they are not, an H200 asks
    for all sectors that hold stored words.
    """
    left = absent
    again = False
    stored = np.int64(0)
    for s in range(ms.LINE_BYTES // ms.SECTOR_BYTES):
        here = (words >> (_SECTOR_WORDS * s)) & 255
        stored |= np.int64(here != 0) << s
        if (absent >> s) & 1 and here != 0:
            if (needed >> (_SECTOR_WORDS * s)) & 255 & ~here == 0:
                left &= ~(1 << s)
            else:
                again = True
    return left | (wanted & stored if again else 0)


@compiled
def tag_turns(par, touched, count):
    """Turns of the tag stage for `count` lines: it looks up one in each of its banks at a time.

    touched[n, 3] becomes the turn of the n-th, touched[n, 4] its sectors that are missing, none yet. H200: lines that
    follow each other, 8 or 128 apart take a quarter of their number, random ones as many as the fullest of four banks
    has (`l1tex__t_output_wavefronts_pipe_lsu`, to a per cent).
    """
    banks = par[P.L1_TAGS_PER_CYCLE]
    lines = np.int64(0)
    most = np.int64(0)
    for n in range(count):
        touched[n, 4] = 0
        if banks > 7:
            touched[n, 3] = n // banks
        else:
            key = touched[n, 0]
            for folded in (16, 8, 4, 2):
                key ^= key >> folded
            shift = _TAG_BITS * ((key & 255) % banks)
            touched[n, 3] = (lines >> shift) & 255
            lines += np.int64(1) << shift
        most = max(most, touched[n, 3])
    return most + 1


@compiled
def returned_turns(touched, count, tags):
    """Turns of the data stage for the words that are missing of `count` lines, when L2 has sent them: the lines of one
    of so many turns of the tag stage come together, if none of their words collide in a bank. H200: of 32 random lines
    that all miss 12.5 to 14 where the tag stage has 11.3; first words of random sectors, which want four banks, 11.0 to
    11.4 if all are there, as the fullest bank has, 17.8 if half are, 19 if none is."""
    some = more = np.int64(0)  # turns with one line and with several
    for n in range(count):
        if touched[n, 4] != 0:
            more |= some & 1 << touched[n, 3]
            some |= 1 << touched[n, 3]
    total = popc(some & ~more)
    for turn in range(tags):
        total += bank_turns(touched, count, turn, True) if (more >> turn) & 1 else 0
    return total


@compiled
def bank_turns(touched, count, turn, missing):
    """Turns that one bank takes for the lines of a turn of the tag stage, or of all (-1): how many of them want it."""
    ones = twos = fours = eights = more = np.int64(0)  # of each bank's number, in binary
    for n in range(count):
        if turn >= 0 and touched[n, 3] != turn:
            continue
        words = touched[n, 2] & (words_of(touched[n, 4]) ^ (0 if missing else -1))
        ones, words = ones ^ words, ones & words
        twos, words = twos ^ words, twos & words
        fours, words = fours ^ words, fours & words
        eights, words = eights ^ words, eights & words
        more, words = more ^ words, more & words
        if words != 0:
            return np.int64(32)
    most, banks = np.int64(0), np.int64(-1)
    for bit in (more, eights, fours, twos, ones):
        most = 2 * most + (1 if banks & bit != 0 else 0)
        banks = banks & bit if banks & bit != 0 else banks
    return most
