"""Executors against an H200: every form of a SASS instruction that nvdisasm knows, run there on 64 lanes.

`python -m validate instructions` made the recording; `recorded_forms.py` says how one is replayed. Results must
agree bit for bit; those of MUFU in single precision are `tests/oracle/test_functions.py`'s.
"""

import numpy as np
import pytest

from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import forms, recording, replay
from tests.oracle.replay import NOT_YET, is_executed, is_known_gap

# Memory is replayed with whole kernels (test_corpus.py), ELECT belongs to the machine.
FORMS = [
    form
    for form in forms()
    if form.family != "memory"
    and form.instruction.opcode != "ELECT"
    and is_executed(form.instruction)
    and not is_known_gap(form.instruction)
    and (form.instruction.opcode != "MUFU" or {"F16", "BF16"} & set(form.instruction.modifiers))
]
OPCODES = sorted({form.instruction.opcode for form in FORMS})


@pytest.mark.parametrize("opcode", OPCODES)
def test_recorded_results(opcode):
    wrong = []
    for form in FORMS:
        if form.instruction.opcode != opcode:
            continue
        if not np.array_equal(replay(form, EXECUTORS), form.results):
            wrong.append(form.instruction.text)
    assert not wrong


def test_most_recorded_forms_are_executed():
    """What is left out is counted here, so that it cannot grow unseen."""
    texts = recording()["text"].tolist()
    assert len(texts) - len(forms()) < 60  # not decoded
    refused = [form for form in forms() if form.family != "memory" and not is_executed(form.instruction)]
    assert len(refused) < 170
    assert len(FORMS) > 3250


@pytest.mark.parametrize("gap", NOT_YET)
def test_known_gaps_are_still_open(gap):
    """Executable gaps: when an executor is put right, its line in `NOT_YET` has to go."""
    concerned = [
        form
        for form in forms()
        if form.family != "memory" and NOT_YET[gap](form.instruction) and is_executed(form.instruction)
    ]
    assert any(not np.array_equal(replay(form, EXECUTORS), form.results) for form in concerned)
