"""Values that the time of a launch depends on, written down by a functional run and read by runs in time.

Each warp has words of its own, in the order of its instructions: the lanes for which a guarded instruction runs, those
that a branch takes, the lines and sectors of an access, the wavefronts of one to shared memory. They lie in chunks, the
last word of which is the place of the next chunk; the first word of all is where the next free chunk begins.
"""

import numpy as np

from gpusim.engine.sm.space import exhausted
from gpusim.engine.sm.stored import words_of
from gpusim.engine.state import L, P, compiled

CHUNK = 64
_LAST = CHUNK - 1


@compiled
def new_chunk(st, sm, w):
    """Place of the next free chunk; the first one again if there is none, which ends the run with an error."""
    k = st.recorded[0]
    if k + CHUNK > st.recorded.size:
        exhausted(st, sm, L.POOL_RECORD, w, st.recorded.size)
        return np.int64(CHUNK)
    st.recorded[0] = k + CHUNK
    return k


@compiled
def begin(st, sm, w):
    """A warp comes up for the first time."""
    block = st.block[sm, st.warp[w, L.WARP_BLOCK], L.BLOCK_NUMBER]
    number = block * st.par[P.WARPS] + st.warp[w, L.WARP_INDEX]
    if st.par[P.MODE] & L.RECORDS != 0:
        st.record_starts[number] = new_chunk(st, sm, w)
    st.warp[w, L.WARP_RECORD] = st.record_starts[number]


@compiled
def put(st, sm, w, word):
    """Writes the warp's next word."""
    k = st.warp[w, L.WARP_RECORD]
    if k & _LAST == _LAST:
        chunk = new_chunk(st, sm, w)
        st.recorded[k] = chunk
        k = chunk
    st.recorded[k] = word
    st.warp[w, L.WARP_RECORD] = k + 1


@compiled
def note(st, sm, w, word):
    """Writes the warp's next word if a recording is made."""
    if st.par[P.MODE] & L.RECORDS != 0:
        put(st, sm, w, word)


@compiled
def take(st, w):
    """The warp's next word."""
    k = st.warp[w, L.WARP_RECORD]
    if k & _LAST == _LAST:
        k = st.recorded[k]
    st.warp[w, L.WARP_RECORD] = k + 1
    return st.recorded[k]


@compiled
def put_lines(st, sm, w, count):
    """Writes the lines in st.touched[sm], behind their number, and which words, if it is not all of their sectors."""
    put(st, sm, w, count)
    for n in range(count):
        line, sectors, words = st.touched[sm, n, 0], st.touched[sm, n, 1], st.touched[sm, n, 2]
        some = words != words_of(sectors)
        put(st, sm, w, line << 5 | (16 if some else 0) | sectors)
        if some:
            put(st, sm, w, words)


@compiled
def take_lines(st, sm, w):
    """Reads them. Returns their number."""
    count = take(st, w)
    for n in range(count):
        line = take(st, w)
        st.touched[sm, n, 0] = line >> 5
        st.touched[sm, n, 1] = line & 15
        st.touched[sm, n, 2] = take(st, w) if line & 16 else words_of(line & 15)
    return count
