"""Matrix products over a warp that neither the recordings nor `tests/oracle/test_matrices.py` have, against NumPy, with
the fragments laid out as the PTX manual draws them."""

import numpy as np
import pytest

from gpusim.engine.rows.tensor import exec_tensor
from isa import microops as m
from tests.gpusim.rows import LANES, WORD, Warp

A_ROW, B_ROW, C_ROW, D_ROW = 0, 10, 20, 40


def split(matrix, per_word, rows_of_word):
    """Words of a fragment: rows_of_word(word) gives (first row, first k) of the word that lane 4g + t holds."""
    words = []
    for first_row, first_k in rows_of_word:
        lanes = []
        for lane in range(LANES):
            g, t = lane // 4, lane % 4
            start = first_k + t * per_word
            lanes.append(matrix[first_row + g, start : start + per_word])
        words.append(np.ascontiguousarray(lanes).view(np.uint32).ravel())
    return words


def place(warp, first, words):
    for k, word in enumerate(words):
        warp.row(first + k)[:] = word


def collect(warp, rows, dtype):
    """The 8 or 16 by 8 matrix of 32-bit results."""
    result = np.zeros((rows, 8), dtype)
    for half in range(rows // 8):
        for odd in range(2):
            word = warp.row(D_ROW + 2 * half + odd).view(dtype)
            for lane in range(LANES):
                result[8 * half + lane // 4, 2 * (lane % 4) + odd] = word[lane]
    return result


def spread(matrix):
    """Words of C for a matrix of 32-bit elements."""
    words = []
    for half in range(matrix.shape[0] // 8):
        for odd in range(2):
            words.append(np.array([matrix[8 * half + k // 4, 2 * (k % 4) + odd] for k in range(LANES)]).view(np.uint32))
    return words


def run(op, a_words, b_words, c_words, shape, **columns):
    warp = Warp()
    place(warp, A_ROW, a_words)
    place(warp, B_ROW, b_words)
    place(warp, C_ROW, c_words)
    code = np.zeros((1, m.COLUMNS), np.int32)
    values = {"op": op, "a": A_ROW, "b": B_ROW, "c": C_ROW, "dst": D_ROW, "aux0": shape} | columns
    for name, value in values.items():
        code[0, getattr(m, "COL_" + name.upper())] = value
    exec_tensor(code, 0, warp.regs, 32 * 8, warp.preds, 0, np.uint32(WORD))
    return warp


@pytest.mark.parametrize(("rows", "depth"), [(8, 128), (16, 128), (16, 256)])
def test_bits_that_differ(rows, depth):
    """BMMA.XOR, which an H200 does not have: how many bits of a row and a column differ."""
    rng = np.random.default_rng(rows + depth)
    a, b = (rng.integers(0, 1 << 32, (count, depth // 32), np.uint32) for count in (rows, 8))
    c = rng.integers(-1000, 1000, (rows, 8)).astype(np.int32)
    places = [(row, k) for k in range(0, depth // 32, 4) for row in range(0, rows, 8)]
    b_words = split(b, 1, [(0, k) for k in range(0, depth // 32, 4)])
    shape = rows << 16 | 8 << 8 | depth
    warp = run(m.OP_IMMA, split(a, 1, places), b_words, spread(c), shape, aux1=m.INTEGER_XOR << 4, aux4=depth // 128)
    counts = [[sum(int(word).bit_count() for word in left ^ right) for right in b] for left in a]
    np.testing.assert_array_equal(collect(warp, rows, np.int32), np.array(counts) + c)


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_the_largest_products_do_not_overflow(sign):
    """Sixteen products just below 4 and an addend just below 2: over 2**31 units of the last of 25 places."""
    largest = np.nextafter(np.float16(2), np.float16(0))
    a, b = np.full((16, 16), sign * largest), np.full((16, 8), largest)
    c = np.full((16, 8), sign * np.nextafter(np.float32(2), np.float32(0)))
    places = [(row, k) for k in range(0, 16, 8) for row in (0, 8)]
    b_words = split(np.ascontiguousarray(b.T), 2, [(0, 0), (0, 8)])
    warp = run(m.OP_HMMA, split(a, 2, places), b_words, spread(c), 16 << 16 | 8 << 8 | 16, aux1=m.TENSOR_F16, aux2=32)
    exact = 16 * float(largest) ** 2 + float(np.nextafter(np.float32(2), np.float32(0)))
    nearest = np.float32(exact)
    below = nearest if float(nearest) <= exact else np.nextafter(nearest, np.float32(0))
    np.testing.assert_array_equal(collect(warp, 16, np.float32), np.full((16, 8), sign * below))
