"""The rows of `isa.microops` against lowering and the executors: what a row names counts, and nothing else does.

Samples are the instructions that were recorded on an H200, lowered; every column of each is changed in turn.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gpusim.engine
from isa import microops as m
from isa.errors import UnknownInstruction
from isa.lower import lower, lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout
from isa.microop_table import CLASS_SIZE, MicroOperation, MicroOperations
from programs import images, registry
from tests.gpusim.executors import EXECUTORS
from tests.gpusim.recorded_forms import forms
from tests.gpusim.rows import SPECIAL_WORDS

ENGINE = Path(gpusim.engine.__file__).parent
NAMES = {row.number: name for name, row in m.MICRO_OPERATIONS.items()}
LAYOUT = RegisterLayout(40, 104)
COLUMNS = ("DST", "A", "B", "C", "PD0", "PD1", "PS0", "PS1", "PS2", *(f"AUX{k}" for k in range(6)))
RESULTS = ("DST", "PD0", "PD1")
PREDICATES = ("PD0", "PD1", "PS0", "PS1", "PS2")
SAMPLES = 20
# Where a column counts only with operands that no sample has: halves and flags of MUFU, all lanes alike, a rare carry.
SELDOM = {
    "MUFU": {"AUX0", "AUX1", "AUX5"},
    "IMAD_HI": {"PS0"},
    "FRND": {"AUX5"},
    "F2FP_NARROW": {"AUX1", "AUX4", "AUX5"},
    "MATCH_ALL": {"A", "AUX0"},
    "REDUX": {"AUX1"},
}


def column(name: str) -> int:
    return getattr(m, "COL_" + name)


@cache
def lowered() -> dict[int, list[tuple[list[int], list[tuple[int, int, int]]]]]:
    """Columns and constant rows of some forms of every micro-operation."""
    found = defaultdict(list)
    for form in forms():
        pool = ConstantPool()
        try:
            columns = lower_instruction(form.instruction, pool, LAYOUT).columns
        except UnknownInstruction:
            continue
        found[columns[m.COL_OP]].append((columns, pool.rows))
    return {op: each[:: max(1, len(each) // SAMPLES)] for op, each in found.items()}


def samples_of(row: MicroOperation) -> list[tuple[list[int], list[tuple[int, int, int]]]]:
    """Recorded instructions; of what the H200 has not, rows with all words 0 and all 1."""
    if row.number in lowered():
        return lowered()[row.number]
    columns = [0] * m.COLUMNS
    columns[m.COL_OP], columns[m.COL_CLASS] = row.number, row.number // CLASS_SIZE
    for name, value in zip(COLUMNS, (24, 12, 14, 4, 5, 6, 4, 7, 7), strict=False):
        columns[column(name)] = value
    ones = list(columns)
    ones[m.COL_AUX0 : m.COL_AUX0 + 6] = [1] * 6
    return [(columns, []), (ones, [])]


@cache
def operands() -> tuple[np.ndarray, np.ndarray]:
    """Registers and predicates of a warp. Small numbers, which lanes share, and special ones beside random bits and
    floats near one."""
    rng = np.random.default_rng(5)
    words = rng.integers(0, 1 << 32, 32 * 112, np.uint32)
    floats = rng.uniform(-4, 4, words.size).astype(np.float32).view(np.uint32)
    small, special = (
        rng.integers(0, 2, words.size, np.uint32),
        rng.choice(np.array(SPECIAL_WORDS, np.uint32), words.size),
    )
    regs = np.choose(rng.integers(0, 5, words.size), [words, floats, small, small, special])
    preds = rng.integers(0, 1 << 32, 16, np.uint32)
    preds[[7, 15]] = 0xFFFFFFFF
    return regs, preds


def result(columns: list[int], constants: list[tuple[int, int, int]]) -> bytes:
    """Registers and predicates of a warp after one micro-operation."""
    first = 32 * len(constants)
    space = np.zeros(first + 32 * 112 + 16, np.uint32)
    regs = space[(-space.ctypes.data // 4) % 16 :][: first + 32 * 112]
    for k, (kind, value, _) in enumerate(constants):
        regs[32 * k : 32 * k + 32] = 0x9E3779B9 * (k + 1) & 0xFFFFFFFF if kind else value & 0xFFFFFFFF
    regs[first:], preds = operands()
    preds = preds.copy()
    code = np.array([columns], np.int32)
    EXECUTORS[columns[m.COL_CLASS]](code, 0, regs, first, preds, 0, np.uint32(0xFFFF0FFF))
    return regs.tobytes() + preds.tobytes()


def changed(columns: list[int], name: str) -> list[list[int]]:
    """The same with other values in one column."""
    place = column(name)
    if name in PREDICATES:
        values = [value for value in (1, 2) if value != columns[place]]
    elif name.startswith("AUX"):
        values = [value for value in (0, 1, 2, 3, 4, 8, 32, 64) if value != columns[place]]
    else:
        values = [30 if columns[place] != 30 else 34]
    return [[*columns[:place], value, *columns[place + 1 :]] for value in values]


EXECUTED = [name for name, row in m.MICRO_OPERATIONS.items() if row.number // CLASS_SIZE in EXECUTORS]


@pytest.mark.parametrize("name", EXECUTED)
def test_columns_that_a_row_does_not_name_change_nothing(name):
    row = m.MICRO_OPERATIONS[name]
    for columns, constants in samples_of(row)[::3]:
        expected = result(columns, constants)
        for other in set(COLUMNS) - row.columns - {"DST"}:
            for variant in changed(columns, other):
                assert result(variant, constants) == expected, other


@pytest.mark.parametrize("name", EXECUTED)
def test_columns_that_a_row_names_count(name):
    row = m.MICRO_OPERATIONS[name]
    samples = samples_of(row)
    counts = {
        each
        for columns, constants in samples
        for each in row.columns
        if any(result(variant, constants) != result(columns, constants) for variant in changed(columns, each))
    }
    seldom = next((words for start, words in SELDOM.items() if name.startswith(start)), set())
    assert row.columns - counts <= seldom


def test_lowering_sets_no_other_word():
    """All recorded instructions and a bundled kernel of each family."""
    rows = [columns for samples in lowered().values() for columns, _ in samples]
    for last in (ladder[-1] for ladder in registry.families().values() if ladder[-1].image):
        rows += lower(images.image(last.name)).code.tolist()
    surplus = set()
    for columns in rows:
        row = m.MICRO_OPERATIONS[NAMES[columns[m.COL_OP]]]
        words = {f"AUX{k}" for k in range(6) if columns[m.COL_AUX0 + k] != 0}
        surplus |= {(NAMES[row.number], name) for name in words - row.columns}
    assert sorted(surplus) == []


def test_every_row_names_a_function():
    for place in {row.executor for row in m.MICRO_OPERATIONS.values()}:
        file, function = place.split(": ")
        found = ast.parse((ENGINE / file).read_text()).body
        assert function in {node.name for node in found if isinstance(node, ast.FunctionDef)}, place


def test_contradictory_rows_are_refused():
    def table(first=100, **words):
        rows = MicroOperations()
        rows.block(first, "rows/int.py: exec_int")
        return rows, rows.row("d = A", **words)

    rows, number = table()
    classes = {"CLS_INT": 1}
    assert rows.named({**classes, "OP_MOV": number})["MOV"].columns == {"DST", "A"}
    with pytest.raises(ValueError, match="one name"):
        rows.named({**classes, "OP_MOV": number, "OP_COPY": number})
    with pytest.raises(ValueError, match="one name"):
        rows.named(classes)
    with pytest.raises(ValueError, match="overlap"):
        rows.block(100, "rows/int.py: exec_int")
        rows.row("d = B")
    with pytest.raises(ValueError, match="in no class"):
        rows, number = table(1300)
        rows.named({**classes, "OP_MOV": number})
    with pytest.raises(ValueError, match="not a word"):
        table(aux6="1: twice")
    with pytest.raises(ValueError, match="does not exist"):
        rows, number = table(aux0="SHAPE_*")
        rows.named({**classes, "OP_MOV": number})
