"""Matrix products as an H200 computes them, bit for bit: every form of mma.sync that is one instruction on sm_90.

The recording holds what the GPU wrote for operands that `matrix_operands` makes again: moderate, spread and extreme
exponents, and arbitrary bits with NaN, infinity and denormal numbers.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from gpusim.engine.rows.tensor import exec_tensor
from isa.instruction import parse_instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout
from tests.gpusim.matrix_operands import BITS, MODES, WARPS, metadata, packed
from tests.gpusim.rows import LANES, WORD

DATA = Path(__file__).parent / "data" / "h200_matrix.npz"
_ROWS = 96
_A, _B, _C, _META, _D = 0, 32, 40, 80, 56


@pytest.fixture(scope="module")
def recording():
    with np.load(DATA) as data:
        return dict(data)


def forms():
    with np.load(DATA) as data:
        return json.loads(str(data["forms"]))


def lowered(head, sparse, selector):
    row, column = (".ROW", ".COL") if head.startswith(("IMMA", "BMMA")) else ("", "")
    tail = f", R{_META}, 0x{selector}" if sparse else ""
    text = f"{head} R{_D}, R{_A}{row}, R{_B}{column}, R{_C}{tail}"
    writer = lower_instruction(parse_instruction(0, text, 0, {}), ConstantPool(), RegisterLayout(_ROWS, _ROWS))
    return np.array([writer.columns], np.int32)


def operand(seed, mode, rows, columns, kind):
    words = max(rows * columns * BITS[kind] // 1024, 1)
    return packed(seed, WARPS[mode] * LANES * words, kind, mode).reshape(WARPS[mode], LANES, words)


def registers():
    space = np.zeros(32 * _ROWS + 16, np.uint32)
    return space[(-space.ctypes.data // 4) % 16 :][: 32 * _ROWS]


@pytest.mark.parametrize("form", forms(), ids=lambda form: f"{form[0]}-{form[7]}")
def test_products_equal_the_hardware(form, recording):
    head, index, (rows, columns, depth), result, a_kind, b_kind, sparse, selector = form
    code = lowered(head, sparse, selector)
    for number, mode in enumerate(MODES):
        seed = 1000 + 40 * index + 10 * number
        a = operand(seed, mode, rows, depth // 2 if sparse else depth, a_kind)
        b = operand(seed + 1, mode, columns, depth, b_kind)
        c = operand(seed + 2, mode, rows, columns, result)
        chosen = metadata(seed + 3, WARPS[mode] * LANES, a_kind).reshape(WARPS[mode], LANES)
        expected = recording[f"m{index}_{mode}"]
        for warp in range(len(expected)):
            regs = registers()
            table = regs.reshape(_ROWS, LANES)
            for first, words in ((_A, a[warp]), (_B, b[warp]), (_C, c[warp]), (_META, chosen[warp][:, None])):
                table[first : first + words.shape[1]] = words.T
            exec_tensor(code, 0, regs, 0, np.zeros(16, np.uint32), 0, np.uint32(WORD))
            got = table[_D : _D + expected.shape[2]].T
            np.testing.assert_array_equal(got, expected[warp], f"{head}, {mode} operands, warp {warp}")
