"""Products of dense matrices: the interpreter against the H200's recording, the executor against the interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.engine.exec_tensor import exec_tensor
from isa.instruction import Instruction, parse_instruction
from tests.gpusim.matrix_operands import MODES
from tests.gpusim.rows import LANES, WORD
from tests.gpusim.test_matrix_replay import DATA, forms, lowered, operand, registers
from tests.oracle import Undefined
from tests.oracle.lane import Lane
from tests.oracle.lanes_between import execute_warp

DENSE = [form for form in forms() if not form[6]]
_A, _B, _C, _D = 0, 32, 40, 56  # first registers, as test_matrix_replay.py has them
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


def instruction(head: str) -> Instruction:
    row, column = (".ROW", ".COL") if head.startswith(("IMMA", "BMMA")) else ("", "")
    return parse_instruction(0, f"{head} R{_D}, R{_A}{row}, R{_B}{column}, R{_C}", 0, {})


def interpreted(head: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, words: int) -> np.ndarray:
    """Result registers [32, words] from operand registers [32, ...].

    Raises:
        Undefined: a NaN among doubles.
    """
    lanes = [Lane(number=number) for number in range(LANES)]
    for first, table in ((_A, a), (_B, b), (_C, c)):
        for lane, row in zip(lanes, table.tolist(), strict=True):
            lane.registers.update({first + k: word for k, word in enumerate(row)})
    execute_warp(instruction(head), lanes)
    return np.array([[lane.registers[_D + k] for k in range(words)] for lane in lanes], np.uint32)


@pytest.mark.parametrize("form", DENSE, ids=lambda form: form[0])
def test_the_interpreter_is_right_about_the_gpu(form):
    head, index, (rows, columns, depth), result, a_kind, b_kind, *_ = form
    with np.load(DATA) as recording:
        for number, mode in enumerate(MODES):
            seed = 1000 + 40 * index + 10 * number
            a = operand(seed, mode, rows, depth, a_kind)
            b = operand(seed + 1, mode, columns, depth, b_kind)
            c = operand(seed + 2, mode, rows, columns, result)
            expected = recording[f"m{index}_{mode}"]
            try:
                found = interpreted(head, a[0], b[0], c[0], expected.shape[2])
            except Undefined:
                assert head.startswith("DMMA") and mode == "any"
                continue
            np.testing.assert_array_equal(found, expected[0], err_msg=f"{head}, {mode} operands")


@pytest.mark.parametrize("opcode", ["HMMA", "IMMA", "BMMA", "DMMA"])
def test_the_executor_agrees_with_the_interpreter(opcode):
    @settings(max_examples=30, deadline=None, database=None, derandomize=True)
    @given(
        st.sampled_from([form for form in DENSE if form[0].startswith(opcode)]),
        st.sampled_from(MODES),
        st.lists(_WORDS, min_size=1, max_size=4),
        st.sampled_from((0, 0.02, 0.3)),
        st.integers(0, 1 << 20),
    )
    def check(form, mode, words, share, seed):
        head, _, (rows, columns, depth), result, a_kind, b_kind, *_ = form
        rng = np.random.default_rng(seed)
        shapes = ((rows, depth, a_kind), (columns, depth, b_kind), (rows, columns, result))
        tables = [operand(seed + k, mode, *shape)[0].copy() for k, shape in enumerate(shapes)]
        for table in tables:
            chosen = rng.random(table.shape) < share
            table[chosen] = rng.choice(np.array(words, np.uint32), chosen.sum())
        count = tables[2].shape[1]
        try:
            expected = interpreted(head, *tables, count)
        except Undefined:
            return
        regs = registers()
        rows_of = regs.reshape(-1, LANES)
        for first, table in zip((_A, _B, _C), tables, strict=True):
            rows_of[first : first + table.shape[1]] = table.T
        exec_tensor(lowered(head, False, 0), 0, regs, 0, np.zeros(16, np.uint32), 0, np.uint32(WORD))
        np.testing.assert_array_equal(rows_of[_D : _D + count].T, expected, err_msg=head)

    check()
