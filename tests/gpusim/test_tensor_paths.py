"""The two ways to a product on tensor cores give the same bits: the exact one, and the faster one for ordinary numbers.

Operands are drawn, with zeros, denormal numbers, infinities and NaN among them, and at the edges of what the faster way
takes: the largest and smallest exponents of products, and sums that just fit 32 bits.
"""

import numpy as np
import pytest

from gpusim.engine.rows import lanes as V
from gpusim.engine.rows.tensor import any_floats, exec_tensor
from gpusim.engine.rows.tensor_sum import value_of
from gpusim.engine.rows.tensor_tile import RESULTS, finite_words, four_rows, number_of, room, take, tile_products
from gpusim.engine.state import compiled
from isa import microops as m
from tests.gpusim.matrix_operands import BITS, FLOATS, elements
from tests.gpusim.rows import LANES, WORD
from tests.gpusim.test_matrix_replay import _A, _B, _C, _D, _ROWS, lowered, registers

FORMS = {
    "HMMA.16816.F32": ("f16", "f32"),
    "HMMA.16816.F16": ("f16", "f16"),
    "HMMA.1688.F32": ("f16", "f32"),
    "HMMA.16816.F32.BF16": ("bf16", "f32"),
    "HMMA.1688.F32.TF32": ("tf32", "f32"),
}
_KINDS = {"f16": m.TENSOR_F16, "bf16": m.TENSOR_BF16, "tf32": m.TENSOR_TF32}
_FRAGMENTS = ((_A, 4), (_B, 2), (_C, 4))


def exactly(code, regs, wide):
    """D by the exact way, its rows of 32 lanes as the instruction stores them."""
    place = np.zeros(RESULTS + 256, np.uint32)
    place = place[(-place.ctypes.data // 4) % 16 :]
    any_floats(code, 0, regs, 0, place)
    rows = place[RESULTS : RESULTS + 128].reshape(4, LANES)
    return rows if wide else rows[::2] | rows[1::2] << 16


@compiled
def faster(regs, kind, result_bits):
    """Whether the faster way takes a product of two words a lane."""
    place = room()
    c0, c1, c2, c3 = four_rows(regs, 32 * _C)
    right = finite_words(c0, c1, c2, c3, result_bits)
    right = right and take(place, regs, 32 * _A, 2, 2, kind, 0) and take(place, regs, 32 * _B, 2, 1, kind, 0)
    return right and tile_products(place, 2, kind, c0, c1, c2, c3, result_bits, 0)


def agree(head, table):
    """Compare both ways for the registers of `table`."""
    code, regs = lowered(head, False, 0), table.reshape(-1)
    want = exactly(code, regs, FORMS[head][1] == "f32")
    exec_tensor(code, 0, regs, 0, np.zeros(16, np.uint32), 0, np.uint32(WORD))
    np.testing.assert_array_equal(table[_D : _D + len(want)], want, head)


def filled(rows, values, kind):
    """Put elements into rows of words."""
    per = 32 // BITS[kind]
    shifts = np.arange(per, dtype=np.uint64) * np.uint64(BITS[kind])
    rows[:] = np.bitwise_or.reduce(values.reshape(*rows.shape, per) << shifts, axis=-1).astype(np.uint32)


def drawn(rng, seed, rows, kind, mode):
    """Elements in `mode` ('any': every pattern), some in sixteen of them special ones."""
    count = rows.size * 32 // BITS[kind]
    exponent_bits, fraction_bits = FLOATS[kind]
    values, top = elements(seed, count, kind, mode), (1 << exponent_bits) - 1
    infinity, largest = top << fraction_bits, ((top - 1) << fraction_bits) | ((1 << fraction_bits) - 1)
    ordinary = [0, 1, 3, (1 << fraction_bits) - 1, 1 << fraction_bits, largest]
    special = np.array(ordinary if mode != "any" else [*ordinary, infinity, infinity | 1], np.uint64)
    special = rng.choice(special, count) | rng.integers(0, 2, count).astype(np.uint64) << np.uint64(BITS[kind] - 1)
    filled(rows, np.where(rng.random(count) < rng.choice([0, 1 / 64, 1 / 2]), special, values), kind)


@pytest.mark.parametrize("mode", ["near", "spread", "wide", "any"])
@pytest.mark.parametrize("head", FORMS)
def test_drawn_operands(head, mode):
    kind, result = FORMS[head]
    rng = np.random.default_rng(list(FORMS).index(head))
    for seed in range(60):
        table = registers().reshape(_ROWS, LANES)
        for number, (first, count) in enumerate(_FRAGMENTS):
            of = result if first == _C else kind
            drawn(rng, 3 * seed + number, table[first : first + count], of, mode)
        agree(head, table)


def powers(table, kind, a, b, c):
    """A, B and C full of 1.99.. times powers of two; C of zeros for None."""
    exponent_bits, fraction_bits = FLOATS[kind]
    bias, fraction = (1 << (exponent_bits - 1)) - 1, (1 << fraction_bits) - 1
    for (first, count), exponent in zip(_FRAGMENTS[:2], (a, b), strict=True):
        rows = table[first : first + count]
        values = np.full(rows.size * 32 // BITS[kind], (exponent + bias) << fraction_bits | fraction, np.uint64)
        filled(rows, values, kind)
    table[_C : _C + 4] = 0 if c is None else (c + 127) << 23 | 0x7FFFFF


@pytest.mark.parametrize("head", ["HMMA.16816.F32.BF16", "HMMA.1688.F32.TF32"])
@pytest.mark.parametrize(("exponent", "taken"), [(-101, False), (-100, True), (125, True), (126, False)])
def test_edges_of_exponents(head, exponent, taken):
    """Exponents of products from -100 to 125 are what the faster way takes."""
    table = registers().reshape(_ROWS, LANES)
    kind = FORMS[head][0]
    powers(table, kind, exponent // 2, exponent - exponent // 2, None)
    assert faster(table.reshape(-1), _KINDS[kind], 32) == taken
    agree(head, table)


@pytest.mark.parametrize(("c", "taken"), [(None, True), (-6, True), (-5, False), (0, False), (1, True)])
def test_edges_of_sums(c, taken):
    """Sixteen products of almost four times a power of two fit 32 bits, and what C adds until it aligns them."""
    table = registers().reshape(_ROWS, LANES)
    powers(table, "f16", 3, -3, c)
    assert faster(table.reshape(-1), m.TENSOR_F16, 32) == taken
    agree("HMMA.16816.F32", table)


@compiled
def both_numbers(regs, out, kind):
    for k in range(4):
        word = V.load(regs, 0)
        V.store(out, 64 * k, V.as_u32(number_of(word, k, kind, 0)), 0xFFFFFFFF)
        exact = value_of((word >> V.splat(8 * k)) & V.splat(0xFF), kind)
        V.store(out, 64 * k + 32, V.as_u32(V.to_f32(exact)), 0xFFFFFFFF)


@pytest.mark.parametrize(("kind", "most"), [(m.TENSOR_E4M3, 0x7E), (m.TENSOR_E5M2, 0x7B)])
def test_numbers_of_bytes(kind, most):
    """All finite numbers of 8 bits, at each place of a word."""
    finite = [byte for byte in range(256) if byte & 0x7F <= most]
    for start in range(0, len(finite), LANES):
        regs, out = registers()[:LANES], registers()
        several = np.resize(np.array(finite[start : start + LANES], np.uint32), LANES)
        regs[:] = several | np.roll(several, 1) << 8 | np.roll(several, 2) << 16 | np.roll(several, 3) << 24
        both_numbers(regs, out, kind)
        rows = out[:256].reshape(4, 2, LANES)
        np.testing.assert_array_equal(rows[:, 0], rows[:, 1])
