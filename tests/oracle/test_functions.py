"""MUFU within what exact mathematics and the manual allow, and FCHK by what it is for: recorded and executed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import FULL, Form, replay
from tests.gpusim.rows import SPECIAL_WORDS
from tests.oracle.floating import part
from tests.oracle.floats import BF16, F16, F32, Format
from tests.oracle.functions import UPPER_OF_DOUBLE, Interval, is_permitted, permitted, short_way_is_right
from tests.oracle.lane import View
from tests.oracle.replay import examples, lanes_of, recorded

_WORDS = st.sampled_from((*SPECIAL_WORDS, 0x3F000000, 0x42FE0000, 0xC2FC0000, 0x7E800000, 0x3C007C00)) | st.integers(
    0, FULL
)
FORMS = recorded(["MUFU", "FCHK"])
NAMES = sorted({form.instruction.mnemonic for form in FORMS["MUFU"]})


def moderate(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Bits of numbers from 2**-16 to 2**16."""
    exponent, sign = rng.integers(0x70, 0x90, shape) << 23, rng.integers(0, 2, shape) << 31
    return (rng.integers(0, 1 << 23, shape) | exponent | sign).astype(np.uint32)


def operands(form: Form, count: int) -> list[int]:
    """Bits of MUFU's operand in each of the first lanes, in its format."""
    view = [View(form.instruction, lane, True) for lane in lanes_of(form, range(count))]
    return [part(each, 0, _format(form)) for each in view]


def _format(form: Form) -> Format:
    last = form.instruction.modifiers[-1]
    return {"F16": F16, "BF16": BF16}.get(last, UPPER_OF_DOUBLE if last.endswith("64H") else F32)


def described(allowed: int | Interval) -> str:
    return f"{allowed:#x}" if isinstance(allowed, int) else " to ".join(repr(float(bound)) for bound in allowed)


def wrong(form: Form, results: np.ndarray) -> list[str]:
    name = form.instruction.modifiers[0].removesuffix("64H")
    kind = _format(form)
    return [
        f"{form.instruction.text}: {x:#x} gives {result:#x}, allowed {described(permitted(name, kind, x))}"
        for x, result in zip(operands(form, len(results)), results[:, 0].tolist(), strict=True)
        if not is_permitted(name, kind, x, result)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_keeps_to_the_manual(name):
    for form in FORMS["MUFU"]:
        if form.instruction.mnemonic == name:
            assert not wrong(form, form.results)


@pytest.mark.parametrize("name", NAMES)
def test_executors_keep_to_the_manual(name):
    usable = [form for form in FORMS["MUFU"] if form.instruction.mnemonic == name]

    @examples(10)
    @given(st.sampled_from(usable), st.lists(_WORDS, min_size=16, max_size=16), st.integers(0, 1 << 30))
    def check(form, drawn, seed):
        rng = np.random.default_rng(seed)
        # Of the other half the exponents lie around zero, where values are neither huge nor nothing.
        lanes = np.concatenate([np.repeat(np.array(drawn, np.uint32)[:, None], 8, axis=1), moderate(rng, (16, 8))])
        lanes[:, 5] = FULL
        other = replace(form, operands=np.concatenate([lanes, lanes]))
        assert not wrong(other, replay(other, EXECUTORS)[:32])

    check()


def needs_the_long_way(form: Form, outcome: np.ndarray) -> list[tuple[int, int, bool]]:
    """Dividend, divisor and FCHK's result in each of the lanes."""
    predicate = form.instruction.operands[0].index
    views = [View(form.instruction, lane, False) for lane in lanes_of(form, range(len(outcome)))]
    found = [bool(bits >> predicate & 1) for bits in outcome[:, 4].tolist()]
    return [(view.floating(0), view.floating(1), each) for view, each in zip(views, found, strict=True)]


DIVISIONS = [form for form in FORMS["FCHK"] if form.instruction.operands[0].index != 7]


def check_division(form: Form, outcome: np.ndarray) -> None:
    """Where FCHK says no the short way gives the right quotient; of moderate numbers it says no."""
    for a, b, long in needs_the_long_way(form, outcome):
        assert long or short_way_is_right(a, b), f"{form.instruction.text}: {a:#x} / {b:#x}"
        if all(0x70 <= x >> 23 & 0xFF < 0x90 for x in (a, b)):
            assert not long, f"{form.instruction.text}: {a:#x} / {b:#x}"


def test_the_gpu_divides_right():
    assert len(DIVISIONS) > 15
    for form in DIVISIONS:
        check_division(form, form.results)


@examples(40)
@given(st.sampled_from(DIVISIONS), st.lists(_WORDS, min_size=16, max_size=16), st.integers(0, 1 << 30))
def test_executors_divide_right(form, drawn, seed):
    """A third each of any bits, of moderate numbers, and of quotients at the ends of the range of exponents."""
    rng = np.random.default_rng(seed)
    lanes = moderate(rng, (32, 8))
    lanes[:12] = rng.choice(np.array(drawn, np.uint32), (12, 8))
    lanes[12:22, 2] = lanes[12:22, 0] + np.uint32(1 << 23) * rng.integers(-260, 260, 10).astype(np.uint32)
    other = replace(form, operands=np.concatenate([lanes, lanes]))
    check_division(other, replay(other, EXECUTORS)[:32])
