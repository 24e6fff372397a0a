"""Instructions whose lanes see each other: the interpreter against the H200, the executors against the interpreter."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import FULL, replay
from tests.oracle import Undefined
from tests.oracle.lanes_between import MEANINGS as OF_WARPS
from tests.oracle.replay import examples, interpret_warp, recorded, written

_WORDS = st.integers(0, FULL) | st.sampled_from([0, 31, 1 << 31, FULL, 0x7F800000, 0xFF800000, 0x7FC12345, 0xFF800001])
FORMS = {opcode: found for opcode, found in recorded(OF_WARPS).items() if found} | written(["CREDUX"])


@pytest.mark.parametrize("opcode", [opcode for opcode in FORMS if opcode != "CREDUX"])
def test_the_interpreter_is_right_about_the_gpu(opcode):
    assert FORMS[opcode]
    for form in FORMS[opcode]:
        if form.family == "uniform":  # each set of operands was in all lanes of a warp of its own
            for k in range(0, 64, 5):
                alike = replace(form, family="word", operands=np.repeat(form.operands[k : k + 1], 32, axis=0))
                np.testing.assert_array_equal(interpret_warp(alike, 0)[0], form.results[k])
            continue
        found = np.concatenate([interpret_warp(form, 0), interpret_warp(form, 32)])
        np.testing.assert_array_equal(found, form.results, err_msg=form.instruction.text)


@pytest.mark.parametrize("opcode", [opcode for opcode in FORMS if opcode != "ELECT"])
def test_executors_agree_with_the_interpreter(opcode):
    """Few different words, so that lanes match, and any predicates. ELECT: see test_exec_control.py."""

    @examples(max(10, 100 // len(FORMS[opcode])))
    @given(
        st.lists(_WORDS, min_size=1, max_size=4),
        st.sampled_from([0, 0x7F, None]),
        st.integers(0, 1 << 30),
    )
    def check(words, predicates, seed):
        rng = np.random.default_rng(seed)
        lanes = rng.choice(np.array(words, np.uint32), (32, 8))
        lanes[:, 5] = rng.integers(0, 128, 32) if predicates is None else predicates
        for form in FORMS[opcode]:
            other = replace(form, family="word", operands=np.concatenate([lanes, lanes]))
            try:
                expected = interpret_warp(other, 0)
            except Undefined:
                continue
            got = replay(other, EXECUTORS)[:32]
            np.testing.assert_array_equal(got, expected, err_msg=form.instruction.text)

    check()
