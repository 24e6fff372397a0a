"""Executors against an H200: every form of a SASS instruction that nvdisasm knows, run there on 64 lanes.

`recorded_forms.py` says what was recorded, and how a form is replayed. Arithmetic must
agree bit for bit; MUFU within its error.
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
]
OPCODES = sorted({form.instruction.opcode for form in FORMS})
# Largest distance in units in the last place of what the hardware approximates; sine, cosine and logarithm have an
# absolute bound where the result is small.
_MUFU_UNITS = {"RCP": 1, "RSQ": 2, "SQRT": 1, "EX2": 2, "RCP64H": 1, "RSQ64H": 1, "TANH": 200}
_MUFU_ABSOLUTE = {"SIN": 2.0**-20.5, "COS": 2.0**-20.5, "LG2": 2.0**-20}


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Units in the last place between two arrays of float32 bits; NaN agree only with NaN."""
    keys = []
    for bits in (x.astype(np.int64), y.astype(np.int64)):
        size = bits & 0x7FFFFFFF
        size[size > 0x7F800000] = 1 << 40
        keys.append(np.where(bits >> 31 & (size < 1 << 40), -size, size))
    return np.abs(keys[0] - keys[1])


def is_close(name: str, got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results of a MUFU function lie within its bound."""
    units = distance(got, expected)
    if name in _MUFU_UNITS:
        return bool(units.max() <= _MUFU_UNITS[name])
    values, truth = (x.copy().view(np.float32).astype(float) for x in (got, expected))
    with np.errstate(invalid="ignore"):
        close = np.abs(values - truth) <= _MUFU_ABSOLUTE[name] + 2.0**-22 * np.abs(truth)
    return bool(np.all(close | (units == 0)))


@pytest.mark.parametrize("opcode", OPCODES)
def test_recorded_results(opcode):
    wrong = []
    for form in FORMS:
        if form.instruction.opcode != opcode:
            continue
        got = replay(form, EXECUTORS)
        words = set(form.instruction.modifiers)
        if opcode == "MUFU" and not words & {"F16", "BF16"}:
            same = is_close(form.instruction.modifiers[0], got[:, 0], form.results[:, 0])
            got[:, 0] = form.results[:, 0]
        else:
            same = True
        if not same or not np.array_equal(got, form.results):
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
