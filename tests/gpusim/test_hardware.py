"""Executors against an H200: 691 SASS instructions run there on 64 lanes of random and special operands.

The recording was made with driver 580 by replacing one instruction of a kernel compiled for sm_90, for each
instruction in turn: the 64-bit operands were in R12, R14 and R4, predicates P0..P6 in bits 32..38 of the third, the
result in R24 (R25) and the predicates afterwards. Arithmetic must agree bit for bit; MUFU within its error.
"""

from pathlib import Path

import numpy as np
import pytest

from gpusim.engine.exec_convert import exec_convert
from gpusim.engine.exec_cross import exec_cross
from gpusim.engine.exec_double import exec_double
from gpusim.engine.exec_float import exec_float
from gpusim.engine.exec_half import exec_half
from gpusim.engine.exec_int import exec_int
from gpusim.engine.exec_pred import exec_pred
from isa import microops as m
from isa.instruction import parse_instruction
from isa.lower import lower_instruction
from isa.lower_writer import ConstantPool, RegisterLayout

EXECUTORS = {
    m.CLS_INT: exec_int,
    m.CLS_FLOAT: exec_float,
    m.CLS_DOUBLE: exec_double,
    m.CLS_CONVERT: exec_convert,
    m.CLS_PRED: exec_pred,
    m.CLS_CROSS: exec_cross,
    m.CLS_HALF: exec_half,
}
RECORDING = np.load(Path(__file__).parent / "data" / "h200_instructions.npz")
TEXTS = RECORDING["text"].tolist()
OPCODES = sorted({text.split()[0].split(".")[0] for text in TEXTS})
_ROWS = 48
# Largest distance in units in the last place of what the hardware approximates; sine, cosine and logarithm have an
# absolute bound where the result is small.
_MUFU_UNITS = {"RCP": 1, "RSQ": 1, "SQRT": 1, "EX2": 2, "RCP64H": 1, "RSQ64H": 1, "TANH": 200}
_MUFU_ABSOLUTE = {"SIN": 2.0**-20.5, "COS": 2.0**-20.5, "LG2": 2.0**-20}


def execute(index: int) -> tuple[np.ndarray, int, str]:
    """Results [lanes, 3] of one recorded instruction, how many destination rows it has, and its mnemonic."""
    low, high = (int(word) for word in RECORDING["encoding"][index])
    instruction = parse_instruction(0, TEXTS[index], low | high << 64, {})
    pool = ConstantPool()
    writer = lower_instruction(instruction, pool, RegisterLayout(40, 40), "recording")
    code = np.array([writer.columns], np.int32)
    first = 32 * len(pool.rows)
    space = np.zeros(first + 32 * _ROWS + 16, np.uint32)
    regs = space[(-space.ctypes.data // 4) % 16 :]
    for k, (_, value, _) in enumerate(pool.rows):
        regs[32 * k : 32 * k + 32] = value
    rows = regs[first : first + 32 * _ROWS].reshape(_ROWS, 32)
    results = []
    operands = RECORDING["operands"]
    for start in range(0, operands.shape[1], 32):
        for register, words in zip((12, 14, 4), operands[:, start : start + 32], strict=True):
            rows[register] = words & np.uint64(0xFFFFFFFF)
            rows[register + 1] = words >> np.uint64(32)
        preds = np.zeros(16, np.uint32)
        preds[[7, 15]] = 0xFFFFFFFF
        for k in range(7):
            preds[k] = sum(int(word >> k & 1) << lane for lane, word in enumerate(rows[5].tolist()))
        function = EXECUTORS[writer.columns[m.COL_CLASS]]
        function(code, 0, regs, first, preds, 0, np.uint32(0xFFFFFFFF))
        bits = sum((preds[k] >> np.arange(32, dtype=np.uint32) & 1) << k for k in range(7))
        results.append(np.stack([rows[24], rows[25], bits], axis=1))
    return np.concatenate(results), writer.columns[m.COL_DST_COUNT], instruction.mnemonic


def distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Units in the last place between two arrays of float32 bits; NaN agree only with NaN."""
    keys = []
    for bits in (x.astype(np.int64), y.astype(np.int64)):
        size = bits & 0x7FFFFFFF
        size[size > 0x7F800000] = 1 << 40
        keys.append(np.where(bits >> 31 & (size < 1 << 40), -size, size))
    return np.abs(keys[0] - keys[1])


@pytest.mark.parametrize("opcode", OPCODES)
def test_recorded_results(opcode):
    for index, text in enumerate(TEXTS):
        if text.split()[0].split(".")[0] != opcode:
            continue
        expected = RECORDING["results"][index]
        got, rows, mnemonic = execute(index)
        np.testing.assert_array_equal(got[:, 2], expected[:, 2], err_msg=text)
        if opcode != "MUFU":
            np.testing.assert_array_equal(got[:, :rows], expected[:, :rows], err_msg=text)
            continue
        name = mnemonic.split(".")[1]
        units = distance(got[:, 0], expected[:, 0])
        if name in _MUFU_UNITS:
            assert units.max() <= _MUFU_UNITS[name], text
        else:
            values, truth = (x[:, 0].copy().view(np.float32).astype(float) for x in (got, expected))
            with np.errstate(invalid="ignore"):
                close = np.abs(values - truth) <= _MUFU_ABSOLUTE[name] + 2.0**-22 * np.abs(truth)
            assert np.all(close | (units == 0)), text
