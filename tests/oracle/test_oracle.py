"""The interpreter against the H200, and the executors against the interpreter on drawn operands."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.opcodes import OPCODES
from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import FULL, replay
from tests.gpusim.rows import SPECIAL_WORDS
from tests.oracle import MEANINGS, Undefined, lanes_between
from tests.oracle.replay import interpret, is_known_gap, recorded

WITHOUT_MEANING = {
    "control flow and barriers, by recorded kernels (test_flow_replay.py)": (
        "BRA BRX JMX JMP CALL RET EXIT BSSY BSYNC BREAK WARPSYNC ENDCOLLECTIVE BMOV YIELD NANOSLEEP DEPBAR KILL BPT"
        " LEPC NOP PMTRIG PREEXIT ACQBULK BAR B2R UCGABAR_ARV UCGABAR_WAIT SYNCS ARRIVES"
    ),
    "values of memory, by the recorded corpus (test_corpus.py)": (
        "LDG LD LDS LDL STG ST STS STL LDC ULDC LDGSTS LDGDEPBAR LDSM STSM CCTL QSPC MEMBAR"
        " ERRBAR CGAERRBAR FENCE MAPA UMAPA"
    ),
    "bulk and tensor copies, by test_async_copy.py and test_tensor_copy.py": (
        "UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH USETMAXREG"
    ),
    "atomics, one lane after the other by test_exec_atomic.py": "ATOM ATOMG ATOMS RED REDG",
    "all lanes of a warp, by test_exec_cross.py and the recording": "MOVM FSWZADD",
    "matrices, by test_exec_tensor.py and test_matrix_replay.py": "HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA BGMMA"
    " WARPGROUP",
    "machine state, by test_special_registers.py": "S2R S2UR CS2R",
    "approximate or undocumented, by the recording (test_hardware.py)": "MUFU FCHK",
    "Blackwell's, which an H200 does not have": (
        "BRXU CREDUX FADD2 FFMA2 FHADD FHFMA FMNMX3 FMUL2 JMXU LDCU LDTM STTM SYSCALL TMML UNNAMED UTCATOMSWS UTCBAR"
        " UTCCP UTCHMMA UTCIMMA UTCOMMA UTCQMMA UTCSHIFT UF2F"
    ),
    "textures and surfaces": "SUATOM SULD SUQUERY SURED SUST TEX TLD TLD4 TXA TXD TXQ",
    "formats of their own, by test_exec_convert.py and the recording": "F2F F2IP UF2FP VHMNMX CLMAD",
}
"""Opcodes that the interpreter leaves out, by what checks them instead."""
FORMS = recorded(MEANINGS)
RECORDED = sorted(opcode for opcode, found in FORMS.items() if found)
_WORDS = st.one_of(
    st.sampled_from(
        (*SPECIAL_WORDS, 0xFFC12345, 0x7F812345, 0x7FF00000, 0xFFF80001, 0x3FF00000, 0x00010001, 0x7C00FC00)
    ),
    st.integers(0, FULL),
    st.integers(0, 70),
)
_LANES = 32


def test_every_opcode_has_a_meaning_or_another_check():
    """A row that is added to the opcode table without either fails here."""
    elsewhere = {name for names in WITHOUT_MEANING.values() for name in names.split()}
    meanings = set(MEANINGS) | set(lanes_between.MEANINGS)
    assert not set(OPCODES) - meanings - elsewhere
    assert not elsewhere & meanings


@pytest.mark.parametrize("opcode", RECORDED)
def test_the_interpreter_is_right_about_the_gpu(opcode):
    """Every recorded form, in every fifth lane; they are random, so which lanes does not matter."""
    lanes = range(0, 64, 5)
    for form in FORMS[opcode]:
        try:
            found = interpret(form, lanes)
        except Undefined:
            continue
        np.testing.assert_array_equal(found, form.results[lanes], err_msg=form.instruction.text)


@pytest.mark.parametrize("opcode", RECORDED)
def test_executors_agree_with_the_interpreter(opcode):
    usable = [form for form in FORMS[opcode] if not is_known_gap(form.instruction)]
    if not usable:
        assert any(is_known_gap(form.instruction) for form in FORMS[opcode])
        return

    @settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @given(st.sampled_from(usable), st.lists(_WORDS, min_size=32, max_size=32), st.integers(0, 1 << 30))
    def check(form, drawn, seed):
        rng = np.random.default_rng(seed)
        lanes = rng.integers(0, 1 << 32, (_LANES, 8), np.uint32)
        lanes[4:20] = rng.choice(np.array(drawn, np.uint32), (16, 8))
        lanes[:4] = np.array(drawn, np.uint32).reshape(4, 8)
        other = replace(form, operands=np.concatenate([lanes, lanes]))
        try:
            expected = interpret(other, range(_LANES))
        except Undefined:
            return
        got = replay(other, EXECUTORS)[:_LANES]
        np.testing.assert_array_equal(got, expected, err_msg=form.instruction.text)

    check()
