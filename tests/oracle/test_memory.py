"""Loads, stores, atomics, constants, copies to shared memory and special registers: one instruction in a kernel.

The interpreter against the H200's recorded forms, the machine against the same, and the machine against the
interpreter: every instruction at drawn addresses, on drawn operands.
"""

from functools import cache

import numpy as np
import pytest

from isa.instruction import parse_instruction
from tests.gpusim.recorded_forms import FULL, Form, forms, recording
from tests.gpusim.rows import SPECIAL_WORDS
from tests.oracle import Undefined
from tests.oracle.kernel import CELL, Case, interpreted, own_cells, simulated
from tests.oracle.replay import is_executed

FORMS = [form for form in forms() if form.family == "memory"]
OPCODES = sorted({form.instruction.opcode for form in FORMS})
# Not executed: what the indexing modes of constant loads mean is documented nowhere, and a compare-and-store of global
# memory never stores.
_UNDEFINED = ("LDC.", "ATOM.E.CAST.")


@cache
def _memory() -> dict[str, np.ndarray]:
    """Shared, local and global cells [64, 24] after each recorded form."""
    data = recording()
    texts = [text for text, family in zip(data["text"].tolist(), data["family"], strict=True) if family == 4]
    return dict(zip(texts, data["memory"], strict=True))


def recorded(form: Form) -> tuple[Case, np.ndarray]:
    """The case as it ran on the GPU, two blocks of 32 lanes, and what `interpreted` has to give."""
    at = own_cells(64)
    if form.instruction.opcode in ("LDS", "STS", "ATOMS"):
        at[:, 0] %= 32 * CELL
    columns = [form.results[:, :5], form.results[:, 6:8], np.zeros((64, 1)), _memory()[form.instruction.text]]
    return Case(form.instruction, form.operands, at), np.concatenate(columns, axis=1).astype(np.uint32)


@pytest.mark.parametrize("opcode", OPCODES)
def test_the_interpreter_is_right_about_the_gpu(opcode):
    for form in FORMS:
        if form.instruction.opcode == opcode:
            case, expected = recorded(form)
            try:
                found = interpreted(case)
            except Undefined:
                assert form.instruction.text.startswith(_UNDEFINED)
                continue
            np.testing.assert_array_equal(found, expected, err_msg=form.instruction.text)


@pytest.mark.parametrize("opcode", OPCODES)
def test_the_machine_is_right_about_the_gpu(opcode):
    """What is refused was recorded with operands that no compiler writes."""
    texts = [form.instruction.text for form in FORMS if form.instruction.opcode == opcode]
    refused = 0
    for form in FORMS:
        if form.instruction.opcode != opcode:
            continue
        if not is_executed(form.instruction):
            refused += 1
            continue
        case, expected = recorded(form)
        np.testing.assert_array_equal(simulated(case), expected, err_msg=form.instruction.text)
    assert refused == {"LDC": 13, "QSPC": len(texts), "ATOM": 1, "ATOMS": 1}.get(opcode, 0)


# --- drawn instructions ------------------------------------------------------------------------------------
_ADDRESSES = {
    "global": ["desc[UR4][R8.64{}]", "[R8.64{}]", "[R10.U32+UR8{}]", "desc[UR4][R11.U32.X4+UR8{}]"],
    "generic": ["[R8.64{}]", "desc[UR4][R8.64{}]"],
    "shared": ["[R2{}]", "[R10+UR10{}]", "[R11.X4+UR10{}]"],
    "local": ["[R3{}]"],
    "rows": ["[R2{}]", "[R10+UR10{}]"],
}
_SIZES = {"": 4, ".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16}
_ORDERS = ["", ".STRONG.SM", ".STRONG.GPU", ".STRONG.SYS", ".CONSTANT", ".EF"]


def _moves(opcodes: str, operands: str, orders: list[str]) -> list[tuple[str, str, int]]:
    return [
        (f"{opcode}{extended}{size}{order} {operands}", space, count)
        for opcode, space, extended in (part.split(":") for part in opcodes.split())
        for size, count in _SIZES.items()
        for order in (orders if extended and size in ("", ".S16") else [""])
        if not (order == ".CONSTANT" and space == "generic")
    ]


_INTEGERS = [(f"{name}{kind}", 4) for name in ("MIN", "MAX") for kind in ("", ".S32")]
_INTEGERS += [(name, 4) for name in ("ADD", "INC", "DEC", "AND", "OR", "XOR")]
_LONG = [(f"{name}{kind}", 8) for name in ("MIN", "MAX") for kind in (".64", ".S64")]
_LONG += [(f"{name}.64", 8) for name in ("ADD", "AND", "OR", "XOR")]
_SWAPS = [("EXCH", 4), ("EXCH.64", 8), ("CAS", 4), ("CAS.64", 8)]
_HUGE = [("EXCH.128", 16), ("CAS.128", 16)]
_FLOATS = [("ADD.F32.RN", 4), ("ADD.F32.FTZ.RN", 4), ("ADD.F64.RN", 8)]
_FLOATS += [("ADD.F32x2.FTZ.RN", 8), ("ADD.F32x4.FTZ.RN", 16)]
_FLOATS += [
    (f"{name}.{half}x{count}.RN", 2 * count)
    for name in ("ADD", "MIN", "MAX")
    for half in ("F16", "BF16")
    for count in (2, 4, 8)
]


def _atomics(opcode: str, operations: list[tuple[str, int]]) -> list[tuple[str, str, int]]:
    space = {"ATOMS": "shared", "ATOM": "generic", "RED": "generic"}.get(opcode, "global")
    result = "" if opcode.startswith("RED") else "R24, " if opcode == "ATOMS" else "P2, R24, "
    texts = []
    for name, count in operations:
        swap = ", R12" if name == "CAS.128" else ", R6" if name.startswith("CAS") else ""
        words = f"{opcode}.{name}" if opcode == "ATOMS" else f"{opcode}.E.{name}.STRONG.GPU"
        texts.append((f"{words} {result}{{}}, R4{swap}", space, count))
    return texts


_CONSTANTS = [
    (f"LDC{size} R24, c[0x0][R16+{0x220 + first:#x}]", "constant", count)
    for size, count in _SIZES.items()
    for first in (0, count)
]
_CONSTANTS += [(f"LDCU{size} UR24, c[0x0][UR6+0x220]", "constant", count) for size, count in _SIZES.items()]
_CONSTANTS += [
    (f"{opcode}{size} {register}, c[0x0][{0x220 + 3 * count:#x}]", "constant", count)
    for opcode, register in (("LDC", "R24"), ("ULDC", "UR24"))
    for size, count in _SIZES.items()
    if not (opcode == "ULDC" and count == 16)
]
GROUPS = {
    "loads": [
        ("LDS.U.64 R24, {}", "shared", 8),
        ("LDS.U.S16 R24, {}", "shared", 2),
        *_moves("LDG:global:.E LD:generic:.E LDS:shared: LDL:local:", "R24, {}", _ORDERS),
    ],
    "stores": _moves("STG:global:.E ST:generic:.E STS:shared: STL:local:", "{}, R4", _ORDERS[:4]),
    "ATOMG": _atomics("ATOMG", _INTEGERS + _LONG + _SWAPS + _HUGE + _FLOATS),
    "ATOM": _atomics("ATOM", _INTEGERS + _SWAPS + [("ADD.64", 8), ("ADD.F32.FTZ.RN", 4)]),
    "ATOMS": _atomics("ATOMS", _INTEGERS + _SWAPS + [("ADD.64", 8)]),
    "REDG": _atomics("REDG", _INTEGERS + _LONG + _FLOATS),
    "RED": _atomics("RED", _INTEGERS + _LONG),
    "counts": [("ATOMS.POPC.INC.32 R24, {}", "shared", 4)],
    "nobody's": [("ATOMG.E.ADD.STRONG.GPU PT, RZ, {}, R4", "global", 4), ("ATOMS.ADD RZ, {}, R4", "shared", 4)],
    "constants": _CONSTANTS,
    "copies": [
        (f"LDGSTS.E{cache}{size}{zero[0]} [R2], {{}}{zero[1]}", "global", count)
        for size, count in (("", 4), (".64", 8), (".128", 16))
        for cache in ("", ".BYPASS")
        for zero in (("", ""), (".ZFILL", ", P1"))
    ],
    "spaces": [(f"QSPC.E.{space} P2, RZ, [R8]", "generic", 4) for space in "SLG"],
    "LDSM": [
        (f"LDSM.16.{kind}{count} R24, {{}}", "rows", 16) for kind in ("M88", "MT88") for count in ("", ".2", ".4")
    ],
    "STSM": [(f"STSM.16.{kind}{count} {{}}, R4", "rows", 16) for kind in ("M88", "MT88") for count in ("", ".2", ".4")],
    "MOVM": [("MOVM.16.MT88 R24, R12", "none", 16)],
    "registers": [
        (f"{opcode}, {name}", "none", 4)
        for opcode in ("S2R R24", "S2UR UR24", "CS2R R24", "CS2R.32 R24")
        for name in ("SR_LANEID", "SR_TID.X", "SR_CTAID.X", "SR_LTMASK", "SR_GEMASK", "SR_EQMASK", "SRZ")
    ],
}
_HALVES = (0x7C00FC00, 0x03FF8001, 0x7E013C00, 0x80003F80, 0x7F80FF81)
_SPECIAL = np.array((*SPECIAL_WORDS, *_HALVES), np.uint32)


def drawn(group: str, text: str, space: str, size: int, seed: int) -> Case:
    """An instruction with an address of each lane's own, or of a few cells that lanes share; every size aligned."""
    rng = np.random.default_rng([sum(text.encode()), seed])

    def one_of(choices):
        return choices[rng.integers(len(choices))]

    # The result of stores to one place is whoever comes last, which CUDA leaves open; atomics and loads may meet.
    meets = group not in ("stores", "copies", "STSM") and one_of((True, False))
    operands = rng.choice(rng.choice(_SPECIAL, rng.integers(1, 7)), (32, 8))
    if one_of((True, False)):
        operands[::2] = rng.integers(0, 1 << 32, (16, 8), np.uint32)
    if "F64" in text:  # which NaN a sum is, is not known: none, and no infinity
        operands &= np.uint32(0xBFFFFFFF)
    if space == "constant":
        operands[:, 2] &= np.uint32(FULL - size + 1)
        operands[:, 6] &= np.uint32(0x1F - size + 1)
    cells = rng.integers(0, 3, 32) if meets else rng.permutation(32)
    offset = size * rng.integers(0, CELL // size, (2, 32))
    change = one_of((0, 0, -16, 16, -0x400, 0x1000))
    form = one_of(_ADDRESSES.get(space, [""]))
    if "R11" in form and size < 4:
        form = _ADDRESSES[space][0]
    if "U32" in form:
        change = -abs(change)  # the register alone must not be negative
    if space == "generic":
        change = -abs(change)  # nor before its window
    if group in ("copies", "spaces"):
        change = 0
    windows = rng.choice(one_of(_windows(group, space)), 32)
    at = np.stack([CELL * cells + offset[0] - change, offset[1] - change, windows, windows], axis=1).astype(np.int32)
    if "ZFILL" in text:
        change = one_of((0, 0, size // 2, size - 1))  # so many bytes become zero
    plus = f"+{change:#x}".replace("+-", "-").replace("-", "+-") if change else ""
    # The warp as a whole carries out these, and there is no guard for it.
    together = text.startswith(("ULDC", "LDCU", "S2UR", "LDSM", "STSM", "MOVM"))
    guard = "" if together else one_of(("", "", "@P0 ", "@!P0 "))
    return Case(parse_instruction(0, guard + text.format(form.format(plus)), 0, {}), operands, at)


def _windows(group: str, space: str) -> list[list[int]]:
    """Which of `kernel.WINDOWS` the lanes may mean; an atomic on local memory is left to the program."""
    if space != "generic":
        return [[0]]
    return [[0], [1], [0, 1]] if group in ("ATOM", "RED") else [[0], [1], [2], [0, 2], [0, 1, 2]]


@pytest.mark.parametrize("group", GROUPS)
def test_the_machine_agrees_with_the_interpreter(group):
    """Every instruction, the same cases in every run; more of each in a small group."""
    for chosen in GROUPS[group]:
        for seed in range(1 if len(GROUPS[group]) > 20 else 2):
            case = drawn(group, *chosen, seed)
            np.testing.assert_array_equal(simulated(case), interpreted(case), err_msg=case.instruction.text)
