"""The engine without compilation (NUMBA_DISABLE_JIT=1): each primitive, and whole runs, equal the compiled ones.

With compilation off there is nothing to compare with, and these tests are skipped.
"""

import importlib
import json
import operator
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit
from numba.extending import _Intrinsic

from gpusim.engine.memory import host_memory
from gpusim.engine.rows import lanes
from gpusim.engine.state import bits
from tests.gpusim.interpreted_runner import KERNELS, outcome
from tests.gpusim.rows import SPECIAL_WORDS, WORD

pytestmark = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="compilation is off")

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 24
SPECIAL_DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 2.0**52 + 1, 2.0**-149, 2.0**-150, 5e-324, -2.0**-1022, 65504.0, 65520.0,
    1.0000000000000002, 1.7976931348623157e308, 3.4028234663852886e38, 3.4028235677973366e38, np.inf, -np.inf, np.nan,
)  # fmt: skip

# A slot is 64 words of the array `regs`: a row of 64-bit elements, or of 32-bit ones in its first half. Slot 3: result.
_SLOT = 64
_DTYPES = {"u32": np.uint32, "u64": np.uint64, "f32": np.float32, "f64": np.float64}

ROWS = {
    "u32": "count_ones leading_zeros reverse_bits",
    "u32 u32": "shl shr sar min_u max_u min_s max_s",
    "u64 u32": "shl64 shr64 sar64",
    "f32": "sqrt32 nearest32 floor32 ceil32 truncate32",
    "f64": "sqrt64 nearest64 floor64 ceil64 truncate64",
    "f32 f32 f32": "fma32",
    "f64 f64 f64": "fma64",
}
"""Primitives whose result is a row of their first argument's type."""
TURNED = {
    "as_f32": "u32 f32", "as_u32": "f32 u32", "as_f64": "u64 f64", "as_u64": "f64 u64", "zero_extend": "u32 u64",
    "sign_extend": "u32 u64", "low": "u64 u32", "high": "u64 u32", "to_f64": "f32 f64", "to_f32": "f64 f32",
    "s64_to_f64": "u64 f64", "u64_to_f64": "u64 f64", "s64_to_f32": "u64 f32", "u64_to_f32": "u64 f32",
    "half_to_f32": "u32 f32", "f32_to_half": "f32 u32", "join": "u32 u32 u64",
    "f64_to_s64": "s63 u64", "f64_to_u64": "n64 u64",
}  # fmt: skip
"""Primitives whose result is a row of another type: types of the arguments and of the result. s63 and n64 are doubles
inside the 64-bit integers, outside of which a conversion is undefined."""
COMPARED = {
    "u32 u32": "equal less_u less_s",
    "u64 u64": "equal64 less_u64 less_s64",
    "f32 f32": "equal_f32 less_f32 unordered_f32",
    "f64 f64": "equal_f64 less_f64 unordered_f64",
}
OPERATORS = {"u32 u32": "add sub mul and_ or_ xor", "f32 f32": "add sub mul truediv"}
ROW_CASES = [
    *((name, kinds.split(), kinds.split()[0]) for kinds, names in ROWS.items() for name in names.split()),
    *((name, kinds.split()[:-1], kinds.split()[-1]) for name, kinds in TURNED.items()),
    *((name, kinds.split(), "mask") for kinds, names in COMPARED.items() for name in names.split()),
    *((name, kinds.split(), kinds.split()[0]) for kinds, names in OPERATORS.items() for name in names.split()),
    *((name, ["u64", "u64"], "u64") for name in OPERATORS["u32 u32"].split()),
    *((name, ["f64", "f64"], "f64") for name in OPERATORS["f32 f32"].split()),
    ("lshift", ["u32", "c32"], "u32"), ("rshift", ["u32", "c32"], "u32"),
    ("lshift", ["u64", "c64"], "u64"), ("rshift", ["u64", "c64"], "u64"),
]  # fmt: skip
"""c32 and c64 are counts below the width, which the operators need."""
OTHERS = (
    "load", "store", "gather", "get_u32", "get_f32", "get_f64", "put_u32", "put_f32", "put_f64", "fma_scalar", "splat",
    "splat64", "splat_f32", "splat_f64", "lane_numbers", "mask_bits", "select", "popc", "lowest_bit", "prefetch",
    "borrowed",
)  # fmt: skip
"""Primitives with a test of their own."""


def intrinsics():
    """Every intrinsic of the engine by name."""
    found = {}
    for file in (ROOT / "gpusim/engine").rglob("*.py"):
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        found |= {name: value for name, value in vars(module).items() if isinstance(value, _Intrinsic)}
    return found


def interpreted(primitive):
    return primitive.interpreted if isinstance(primitive, _Intrinsic) else primitive


@njit
def u32_at(regs, slot):
    return lanes.load(regs, _SLOT * slot)


@njit
def f32_at(regs, slot):
    return lanes.as_f32(lanes.load(regs, _SLOT * slot))


@njit
def u64_at(regs, slot):
    return lanes.join(lanes.load(regs, _SLOT * slot), lanes.load(regs, _SLOT * slot + 32))


@njit
def f64_at(regs, slot):
    return lanes.as_f64(u64_at(regs, slot))


@njit
def put_u32_row(regs, row):
    lanes.store(regs, 3 * _SLOT, row, WORD)


@njit
def put_u64_row(regs, row):
    lanes.store(regs, 3 * _SLOT, lanes.low(row), WORD)
    lanes.store(regs, 3 * _SLOT + 32, lanes.high(row), WORD)


@njit
def put_f32_row(regs, row):
    put_u32_row(regs, lanes.as_u32(row))


@njit
def put_f64_row(regs, row):
    put_u64_row(regs, lanes.as_u64(row))


@njit
def put_mask(regs, mask):
    regs[3 * _SLOT] = mask


READ = {"u32": u32_at, "u64": u64_at, "f32": f32_at, "f64": f64_at}
WRITE = {"u32": put_u32_row, "u64": put_u64_row, "f32": put_f32_row, "f64": put_f64_row, "mask": put_mask}
ELEMENT = {"c32": "u32", "c64": "u64", "s63": "f64", "n64": "f64"}
"""Types of the rows of restricted operands."""


def compiled_on_rows(primitive, kinds, result):
    """`primitive` on the rows in slots 0, 1, 2 of `regs`, the result into slot 3."""
    first, second, third = (READ[ELEMENT.get(kind, kind)] for kind in (kinds + kinds + kinds)[:3])
    write = WRITE[result]
    if len(kinds) == 1:
        return njit(lambda regs: write(regs, primitive(first(regs, 0))))
    if len(kinds) == 2:
        return njit(lambda regs: write(regs, primitive(first(regs, 0), second(regs, 1))))
    return njit(lambda regs: write(regs, primitive(first(regs, 0), second(regs, 1), third(regs, 2))))


def random_row(rng, kind):
    """32 values of one kind of operand, about half of them special."""
    special = rng.random(32) < 0.5
    words = np.where(special, rng.choice(SPECIAL_WORDS, 32), rng.integers(0, 1 << 32, 32)).astype(np.uint32)
    if kind in ("u32", "f32"):
        return words.view(_DTYPES[kind])
    if kind in ("c32", "c64"):
        return rng.integers(0, int(kind[1:]), 32).astype(_DTYPES[ELEMENT[kind]])
    if kind in ("s63", "n64"):
        low, high = (-(2.0**63), 2.0**63) if kind == "s63" else (0.0, 2.0**64)
        near = rng.choice([0.0, 1.5, 2.0**31, 2.0**32 + 0.5, low, np.nextafter(high, 0)], 32)
        return np.where(special, near, np.trunc(rng.uniform(low, np.nextafter(high, 0), 32)))
    wide = rng.integers(0, 1 << 64, 32, np.uint64)
    if kind == "u64":
        return np.where(special, words.astype(np.uint64) << rng.integers(0, 33, 32).astype(np.uint64), wide)
    narrow = rng.standard_normal(32) * 2.0 ** rng.integers(-160, 140, 32)
    return np.where(special, rng.choice(SPECIAL_DOUBLES, 32), np.where(wide % 2 == 0, narrow, wide.view(np.float64)))


def slot_of(row):
    """A row as the words of its slot."""
    words = np.zeros(_SLOT, np.uint32)
    if row.itemsize == 4:
        words[:32] = row.view(np.uint32)
    else:
        words[:32], words[32:] = row.view(np.uint64) & np.uint64(WORD), row.view(np.uint64) >> np.uint64(32)
    return words


def registers():
    space = np.zeros(4 * _SLOT + 16, np.uint32)
    return space[(-space.ctypes.data // 4) % 16 :][: 4 * _SLOT]


def result_of(regs, kind):
    if kind == "mask":
        return regs[3 * _SLOT]
    words = regs[3 * _SLOT :]
    if kind in ("u32", "f32"):
        return words[:32].view(_DTYPES[kind])
    return (words[:32] | words[32:].astype(np.uint64) << np.uint64(32)).view(_DTYPES[kind])


def test_every_intrinsic_is_compared_here():
    assert sorted(intrinsics()) == sorted(
        {name for name, _, _ in ROW_CASES if not hasattr(operator, name)} | set(OTHERS)
    )


@pytest.mark.parametrize("name, kinds, result", ROW_CASES, ids=[f"{n}-{k[0]}" for n, k, _ in ROW_CASES])
def test_functions_of_rows(name, kinds, result):
    """Bit for bit, except the payload of a NaN that comes out of arithmetic: executors make it canonical."""
    primitive = getattr(lanes, name, None) or getattr(operator, name)
    run = compiled_on_rows(primitive, kinds, result)
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        rows = [random_row(rng, kind) for kind in kinds]
        regs = registers()
        for k, row in enumerate(rows):
            regs[_SLOT * k : _SLOT * (k + 1)] = slot_of(row)
        run(regs)
        with np.errstate(all="ignore"):
            expected = np.asarray(interpreted(primitive)(*rows))
        got = result_of(regs, result)
        assert expected.dtype == got.dtype
        if name not in TURNED and result in ("f32", "f64"):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
            expected, got = expected[~np.isnan(expected)], got[~np.isnan(got)]
        assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("mask", [0, 1, 0x80000000, 0xA5A50FF0, WORD])
def test_rows_in_memory(mask):
    rng = np.random.default_rng(mask)
    regs = registers()
    regs[:] = rng.integers(0, 1 << 32, regs.size)
    picks = rng.integers(0, 32, 32).astype(np.uint32)
    regs[_SLOT : _SLOT + 32] = picks

    @njit
    def run(regs, mask):
        value = lanes.gather(regs, 32, lanes.load(regs, _SLOT))
        either = lanes.select(mask, value, lanes.load(regs, 0))
        lanes.store(regs, 3 * _SLOT, either + lanes.mask_bits(mask), ~mask)

    again = regs.copy()
    run(regs, np.uint32(mask))
    load, store, gather, select, mask_bits = (
        interpreted(getattr(lanes, name)) for name in ("load", "store", "gather", "select", "mask_bits")
    )
    loaded = load(again, 0)
    either = select(mask, gather(again, 32, load(again, _SLOT)), loaded)
    store(again, 3 * _SLOT, either + mask_bits(mask), ~mask)
    assert (regs == again).all()
    again[0] += 1
    assert loaded[0] == regs[0]  # a row that was loaded is a value, not a view


@pytest.mark.parametrize("kind, value", [("u32", 7), ("f32", -2.5), ("f64", 2.0**-1074)])
def test_one_lane(kind, value):
    get, put = getattr(lanes, f"get_{kind}"), getattr(lanes, f"put_{kind}")
    read, write = READ[kind], WRITE[kind]
    run = njit(lambda regs, lane, other: write(regs, put(read(regs, 0), lane, get(read(regs, 0), other))))
    row = np.full(32, value, _DTYPES[kind])
    row[[3, 30]] = 1, 2
    for lane, other in ((0, 3), (31, 30), (3, 3)):
        regs = registers()
        regs[:_SLOT] = slot_of(row)
        run(regs, lane, other)
        expected = interpreted(put)(row, lane, interpreted(get)(row, other))
        assert result_of(regs, kind).tolist() == expected.tolist()
    assert row[0] == value


@pytest.mark.parametrize(
    "name, kind, values",
    [
        ("splat", "u32", (0, -1, WORD, np.int32(-5), np.uint32(WORD), np.int64(1 << 40))),
        ("splat64", "u64", (0, -1, np.uint64((1 << 64) - 1), np.int32(-5), np.uint32(WORD))),
        ("splat_f32", "f32", (0.1, np.float32(-0.0), 1e39)),
        ("splat_f64", "f64", (0.1, np.float32(0.1), np.inf)),
    ],
)
def test_one_value_in_all_lanes(name, kind, values):
    splat, write = getattr(lanes, name), WRITE[kind]
    run = njit(lambda regs, value: write(regs, splat(value)))
    for value in values:
        regs = registers()
        run(regs, value)
        with np.errstate(all="ignore"):
            expected = interpreted(splat)(value)
        assert result_of(regs, kind).tobytes() == expected.tobytes()


def test_lane_numbers():
    run = njit(lambda regs: put_u32_row(regs, lanes.lane_numbers()))
    regs = registers()
    run(regs)
    assert result_of(regs, "u32").tolist() == interpreted(lanes.lane_numbers)().tolist()


def test_scalars():
    fma = njit(lambda x, y, z: lanes.fma_scalar(x, y, z))
    rng = np.random.default_rng(2)
    for _ in range(400):
        x, y, z = (random_row(rng, "f64")[0] for _ in range(3))
        with np.errstate(all="ignore"):
            np.testing.assert_equal(interpreted(lanes.fma_scalar)(x, y, z), fma(x, y, z))
    for name in ("popc", "lowest_bit"):
        count = getattr(bits, name)
        run = njit(lambda mask: count(mask))  # noqa: B023
        for mask in (0, 1, 0x80000000, 0xF0, WORD, -1, np.int64(1) << 40, np.uint32(WORD)):
            assert interpreted(count)(mask) == run(mask)


def test_host_memory():
    """Hints to the host change nothing, and an array without its reference count is the array."""

    @njit
    def run(array):
        host_memory.prefetch(array, 1)
        return host_memory.borrowed(array)[1]

    array = np.arange(4)
    assert host_memory.prefetch.interpreted(array, 1) is None
    assert host_memory.borrowed.interpreted(array)[1] == run(array) == 1


@pytest.mark.parametrize("name", KERNELS)
def test_whole_runs(name):
    """Cycles, every counter of every instruction, the memory system's counters and all outputs."""
    runner = Path(__file__).with_name("interpreted_runner.py")
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(runner), name], env=env, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    interpreted_outcome = json.loads(done.stdout)
    assert interpreted_outcome["compiled"] is False
    compiled_outcome = outcome(name)
    assert compiled_outcome.pop("compiled") is True
    del interpreted_outcome["compiled"]
    assert interpreted_outcome == compiled_outcome
