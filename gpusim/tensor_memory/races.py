"""Loads of what a product writes before anyone has waited for it, which `check="racecheck"` reports.

Behind the cells of an SM's tensor memory lie words: of each column the number of the product that wrote it last, how
many there were (behind the columns), of mbarriers how many there were at the commit that told them last (TMEM_TOLD, by
the mbarrier's place; several may share a word), and the most of those of an mbarrier whose phase some thread has seen
end (TMEM_SEEN, `engine.sm.shadow_copies`). So what is reported is wrong for certain; not found is a load whose thread
is not behind the one that waited. Products of a pair or of parts of the lanes are left out.
"""

import numpy as np

from gpusim.engine.sm.shadow_clocks import CHECK_RACE
from gpusim.engine.sm.space import fail
from gpusim.engine.state import L, P, compiled

_BEGUN = L.TMEM_NOTES + L.TMEM_COLUMNS


@compiled
def note(st, sm, address, columns, product):
    """Some columns are written by a new product, or (0) newly allocated."""
    if st.par[P.CHECKS] & CHECK_RACE:
        st.tmem[sm, _BEGUN] += np.uint32(product)
        first = L.TMEM_NOTES + (address & 0xFFFF)
        st.tmem[sm, first : first + columns] = st.tmem[sm, _BEGUN] * np.uint32(product)


@compiled
def note_commit(st, sm, there, word):
    """An mbarrier of SM `there` will hear of all products so far; that of another SM is taken to have been seen."""
    place = L.TMEM_TOLD + (word >> 1) % 64 if there == sm else L.TMEM_SEEN
    st.tmem[sm, place] = st.tmem[sm, _BEGUN]


@compiled
def waited_for(st, sm, w, i, address, columns):
    """Return whether what products have written to some columns has been waited for; else that is an error."""
    for column in range(address & 0xFFFF, ((address & 0xFFFF) + columns) if st.par[P.CHECKS] & CHECK_RACE else 0):
        if st.tmem[sm, L.TMEM_NOTES + column] > st.tmem[sm, L.TMEM_SEEN]:
            fail(st, sm, L.ERROR_TMEM_EARLY, i, w, 0, column, 0)
            return False
    return True
