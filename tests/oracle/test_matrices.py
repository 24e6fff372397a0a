"""Products of matrices: the interpreter against the H200's recording, the executor against the interpreter."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.engine.rows.tensor import exec_tensor
from isa.instruction import Instruction, parse_instruction
from tests.gpusim.matrix_operands import MODES, WARPS, metadata
from tests.gpusim.rows import LANES, WORD
from tests.gpusim.test_matrix_replay import DATA, forms, lowered, operand, registers
from tests.oracle import Undefined
from tests.oracle.lane import Lane
from tests.oracle.lanes_between import execute_warp
from tests.oracle.replay import examples

FORMS = forms()
_A, _B, _C, _META, _D = 0, 32, 40, 80, 56  # first registers, as test_matrix_replay.py has them
_OPERANDS = (_A, _B, _C, _META)
# Halves, bytes, single and double words of which some are zero, infinite, NaN or denormal in each format.
_WORDS = st.sampled_from(
    (
        0,
        0x80008000,
        0x00018001,
        0x7C003C00,
        0xFC007BFF,
        0x7E003C01,
        0x7F807F7F,
        0x3F800000,
        0x80000000,
        0x7F800000,
    )
) | st.integers(0, WORD)


def kind_of(form) -> str:
    return form[0].split(".")[0] + ".SP" * form[6] + ".S4" * (form[4] == "s4")


def instruction(head: str, selector: int) -> Instruction:
    row, column = (".ROW", ".COL") if head.startswith(("IMMA", "BMMA")) else ("", "")
    tail = f", R{_META}, {selector:#x}" if ".SP." in head else ""
    return parse_instruction(0, f"{head} R{_D}, R{_A}{row}, R{_B}{column}, R{_C}{tail}", 0, {})


def operands(form, seed: int, mode: str) -> list[np.ndarray]:
    """Registers [32, ...] of A, B, C and of what says which elements of a sparse A are there, of the first warp."""
    _, _, (rows, columns, depth), result, a_kind, b_kind, sparse, _ = form
    a = operand(seed, mode, rows, depth // 2 if sparse else depth, a_kind)
    b, c = operand(seed + 1, mode, columns, depth, b_kind), operand(seed + 2, mode, rows, columns, result)
    chosen = metadata(seed + 3, WARPS[mode] * LANES, a_kind).reshape(WARPS[mode], LANES, 1)
    return [a[0], b[0], c[0], chosen[0]]


def interpreted(form, tables: list[np.ndarray]) -> np.ndarray:
    """Result registers [32, ...], as many as C has, from operand registers.

    Raises:
        Undefined: a NaN among doubles.
    """
    lanes = [Lane(number=number) for number in range(LANES)]
    for first, table in zip(_OPERANDS, tables, strict=True):
        for lane, row in zip(lanes, table.tolist(), strict=True):
            lane.registers.update({first + k: word for k, word in enumerate(row)})
    execute_warp(instruction(form[0], form[7]), lanes)
    words = tables[2].shape[1]
    return np.array([[lane.registers[_D + k] for k in range(words)] for lane in lanes], np.uint32)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form[0]}-{form[7]}")
def test_the_interpreter_is_right_about_the_gpu(form):
    head, index = form[:2]
    with np.load(DATA) as recording:
        for number, mode in enumerate(MODES):
            try:
                found = interpreted(form, operands(form, 1000 + 40 * index + 10 * number, mode))
            except Undefined:
                assert head.startswith("DMMA") and mode == "any"
                continue
            np.testing.assert_array_equal(found, recording[f"m{index}_{mode}"][0], f"{head}, {mode} operands")


def executed(form, tables: list[np.ndarray]) -> np.ndarray:
    """The same of the executor."""
    regs = registers()
    rows_of = regs.reshape(-1, LANES)
    for first, table in zip(_OPERANDS, tables, strict=True):
        rows_of[first : first + table.shape[1]] = table.T
    exec_tensor(lowered(form[0], form[6], form[7]), 0, regs, 0, np.zeros(16, np.uint32), 0, np.uint32(WORD))
    return rows_of[_D : _D + tables[2].shape[1]].T


@pytest.mark.parametrize("sign", [0, 1 << 31])
def test_sums_of_the_largest_products_do_not_overflow(sign):
    """Sixteen products just below 4 and an addend just below 2: over 2**31 units of the last of 25 places."""
    form = next(form for form in FORMS if form[0].startswith("HMMA.16816.F32") and form[4] == "f16" and not form[6])
    tables = operands(form, 1, "near")
    for table, word in zip(tables, (0x3FFF3FFF | sign | sign >> 16, 0x3FFF3FFF, 0x3FFFFFFF | sign), strict=False):
        table[:] = word
    np.testing.assert_array_equal(executed(form, tables), interpreted(form, tables))


# An H200 has no BMMA.XOR, nor products of four bits in one instruction.
EXECUTED = FORMS + [(form[0].replace(".AND.", ".XOR."), *form[1:]) for form in FORMS if ".AND." in form[0]]
EXECUTED.append(("IMMA.16864.S4.U4", 0, (16, 8, 64), "s32", "s4", "u4", False, 0))


@pytest.mark.parametrize("kind", sorted({kind_of(form) for form in EXECUTED}))
def test_the_executor_agrees_with_the_interpreter(kind):
    @examples(15)
    @given(
        st.sampled_from([form for form in EXECUTED if kind_of(form) == kind]),
        st.sampled_from(MODES),
        st.lists(_WORDS, min_size=1, max_size=4),
        st.sampled_from((0, 0.02, 0.3)),
        st.integers(0, 1 << 20),
    )
    def check(form, mode, words, share, seed):
        rng = np.random.default_rng(seed)
        tables = [table.copy() for table in operands(form, seed, mode)]
        for table in tables[:3]:
            chosen = rng.random(table.shape) < share
            table[chosen] = rng.choice(np.array(words, np.uint32), chosen.sum())
        try:
            expected = interpreted(form, tables)
        except Undefined:
            return
        np.testing.assert_array_equal(executed(form, tables), expected, err_msg=form[0])

    check()
