"""The interpreter against the H200, and the executors against the interpreter on drawn operands."""

from dataclasses import replace
from functools import partial
from itertools import chain
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.opcodes import OPCODES
from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import FULL, replay
from tests.gpusim.rows import SPECIAL_WORDS
from tests.oracle import MEANINGS, Undefined, lanes_between
from tests.oracle.replay import examples, interpret, recorded, written
from tests.oracle.test_memory import GROUPS

WITHOUT_MEANING = {
    "control flow, by test_exec_control.py and recorded kernels (test_flow_replay.py)": (
        "BRA BRX BRXU JMX JMXU JMP CALL RET EXIT BSSY BSYNC BREAK WARPSYNC ENDCOLLECTIVE BMOV YIELD NANOSLEEP DEPBAR"
        " KILL BPT LEPC NOP PMTRIG PREEXIT ACQBULK"
    ),
    "barriers, by test_exec_barrier.py, test_cluster.py and test_async_copy.py": (
        "BAR B2R UCGABAR_ARV UCGABAR_WAIT SYNCS ARRIVES"
    ),
    "order and caches of memory, without a value": (
        "LDGDEPBAR CCTL CCTLL MEMBAR ERRBAR CGAERRBAR FENCE UTMACCTL UTMACMDFLUSH"
    ),
    "bulk and tensor copies, by NumPy (test_async_copy.py, test_bulk_copy.py) and recorded (test_tensor_copy.py)": (
        "UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF STAS REDAS UGETNEXTWORKID"
    ),
    "registers beside the others, by test_bulk_copy.py": "RPCMOV USETMAXREG",
    "tensor memory, by test_tensor_memory.py": (
        "LDTM STTM UTCCP UTCSHIFT UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCBAR UTCATOMSWS UVIRTCOUNT"
    ),
    "products of narrow floats, by test_narrow_matrix.py": "QMMA OMMA",
    "wgmma, by the recording (test_group_matrix.py)": "HGMMA IGMMA QGMMA BGMMA WARPGROUP",
    "refused by name": " ".join(sorted(name for name, row in OPCODES.items() if row.refused)),
    "not the hardware's: calls of the driver's functions, by test_printf.py": "SYSCALL",
}
"""Opcodes that the interpreter leaves out, by what checks them instead."""
FORMS = recorded(MEANINGS)
RECORDED = sorted(opcode for opcode, found in FORMS.items() if found)
DRAWN = {opcode: FORMS[opcode] + written(MEANINGS).get(opcode, []) for opcode in MEANINGS}
IN_KERNELS = {text.split()[0].split(".")[0] for text, _, _ in chain(*GROUPS.values())}
"""Opcodes that test_memory.py draws."""
_WORDS = st.one_of(
    st.sampled_from(
        (*SPECIAL_WORDS, 0xFFC12345, 0x7F812345, 0x7FF00000, 0xFFF80001, 0x3FF00000, 0x00010001, 0x7C00FC00)
    ),
    st.integers(0, FULL),
    st.integers(0, 70),
    # Floats near 1 and near the least normal number, and their opposites: sums cancel, and become denormal.
    *(st.integers(-256, 255).map(partial(add, word)) for word in (0x3F800000, 0xBF800000, 0x00800100, 0x80800100)),
)
_LANES = range(0, 64, 2)


def test_every_opcode_has_a_meaning_or_another_check():
    """A row that is added to the opcode table without either fails here."""
    elsewhere = {name for names in WITHOUT_MEANING.values() for name in names.split()}
    meanings = {*MEANINGS, *lanes_between.MEANINGS, "MUFU", "FCHK"}  # the last two: functions.py
    assert not elsewhere & meanings
    assert meanings | elsewhere == set(OPCODES)


def test_every_meaning_is_compared_with_an_executor():
    assert {opcode for opcode, found in DRAWN.items() if not found} <= IN_KERNELS


@pytest.mark.parametrize("opcode", RECORDED)
def test_the_interpreter_is_right_about_the_gpu(opcode):
    """Every recorded form, in every ninth lane; they are random, so which lanes does not matter."""
    lanes = range(0, 64, 9)
    for form in FORMS[opcode]:
        try:
            found = interpret(form, lanes)
        except Undefined:
            continue
        np.testing.assert_array_equal(found, form.results[lanes], err_msg=form.instruction.text)


@pytest.mark.parametrize("opcode", sorted(opcode for opcode, found in DRAWN.items() if found))
def test_executors_agree_with_the_interpreter(opcode):
    """Every form with each example's operands, in every other lane; of opcodes with few forms, more examples."""

    @examples(max(2, 36 // len(DRAWN[opcode])))
    @given(st.lists(_WORDS, min_size=32, max_size=32), st.integers(0, 1 << 30))
    def check(drawn, seed):
        rng = np.random.default_rng(seed)
        operands = rng.choice(np.array(drawn, np.uint32), (64, 8))
        operands[::3] = rng.integers(0, 1 << 32, (22, 8), np.uint32)
        for form in DRAWN[opcode]:
            other = replace(form, operands=operands)
            try:
                expected = interpret(other, _LANES)
            except Undefined:
                continue
            np.testing.assert_array_equal(replay(other, EXECUTORS)[_LANES], expected, err_msg=form.instruction.text)

    check()
