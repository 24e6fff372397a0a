"""Python kernels through Numba and ptxas: results, cache keys, errors, and what importing costs."""

from __future__ import annotations

import math
import runpy
import sys
import time
import types as python_types
import warnings
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
from isa import CompileError
from isa.cache import ProgramCache, default_cache, function_parts
from isa.compile import _key
from isa.numba_code import numba_code, renumbering
from isa.toolchain import find_tool, numba_version

numba = pytest.importorskip("numba", reason="Numba is not installed")
cuda = pytest.importorskip("numba.cuda", reason="Numba's CUDA target is not installed")
types = numba.types
try:
    find_tool("ptxas"), find_tool("nvdisasm"), numba_version()
except isa.ToolchainMissing as error:
    pytest.skip(str(error), allow_module_level=True)

float32, int32, int64 = types.float32, types.int32, types.int64
FLOATS = types.float32[::1]
WEIGHTS = np.arange(8, dtype=np.float32)
FACTOR = 3


class Mode(IntEnum):
    FAST = 2


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@cuda.jit(device=True)
def clamp(value, limit):
    if value > limit:
        return limit * FACTOR
    return value


def clamped(x, limit):
    i = cuda.grid(1)
    x[i] = clamp(x[i], limit)


def weighted(x):
    table = cuda.const.array_like(WEIGHTS)
    x[cuda.grid(1)] = table[cuda.threadIdx.x] * Mode.FAST


def make_scale(factor: Any) -> Callable[..., None]:
    def scale(x):
        x[cuda.grid(1)] *= factor

    return scale


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of these tests alone, shared among them so that each kernel compiles once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSIM_CACHE_DIR", str(folder))
        yield folder


def test_saxpy_is_complete() -> None:
    program = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
    assert (program.name, program.arch, program.abi) == ("saxpy", "sm_90", "numba")
    # float32, then seven 64-bit words for each one-dimensional array.
    assert [(each.offset, each.size) for each in program.parameters] == [(0, 4)] + [(8 * k, 8) for k in range(1, 15)]
    assert (program.parameter_base, program.max_threads, program.exceptions) == (0x210, None, {})
    assert program.opcode_histogram()["FFMA"] == 1
    fused = next(each for each in program.instructions if each.opcode == "FFMA")
    assert fused.file == __file__
    assert program.source_line(fused) == "        y[i] = a * x[i] + y[i]"
    assert all(each.line for each in program.instructions)


def test_cached_program_is_equal_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    first = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
    assert isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS)) is first
    monkeypatch.setattr("isa.compile.numba_code", lambda *_: pytest.fail("compiled again"))
    spent = []
    for _ in range(3):
        default_cache()._recent.clear()
        start = time.thread_time()
        again = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
        spent.append(time.thread_time() - start)
        assert again == first
    assert min(spent) < 0.030


def test_key_covers_types_target_and_options() -> None:
    usual: tuple[Any, ...] = (saxpy, (float32, FLOATS, FLOATS), "sm_90", {}, None)
    keys = {_key(*usual)}
    for position, value in (
        (0, weighted),
        (1, (float32, FLOATS)),
        (2, "sm_80"),
        (3, {"fastmath": True}),
        (4, 32),
    ):
        changed = list(usual)
        changed[position] = value
        keys.add(_key(*changed))
    assert len(keys) == 6 and None not in keys
    assert _key(*usual) in keys


def parts(kernel: Any) -> str:
    return ProgramCache.key(function_parts(kernel))


def test_key_follows_globals_devices_arrays_and_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts(clamped)
    assert parts(clamped) == before
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 4)
    assert parts(clamped) != before  # a global that only the device function names
    before = parts(weighted)
    WEIGHTS[3] += 1
    assert parts(weighted) != before  # the content of an array
    WEIGHTS[3] -= 1
    assert parts(weighted) == before
    module = python_types.ModuleType("settings")
    module.WIDTH = 8  # type: ignore[attr-defined]

    def uses(x):
        x[0] = module.WIDTH * math.pi

    before = parts(uses)
    module.other = 1  # type: ignore[attr-defined]
    assert parts(uses) == before
    module.WIDTH = 9  # type: ignore[attr-defined]
    assert parts(uses) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), (0.0, -0.0), ("a", b"a"), ((1, 2), [1, 2]), (np.float32(1), np.float64(1)),
        (np.zeros((2, 3)), np.zeros((3, 2))), (np.zeros((2, 2)), np.asfortranarray(np.zeros((2, 2)))),
        (np.dtype("i4"), np.dtype("f4")), (types.float32, types.float64), (math.sin, math.cos),
        (Mode.FAST, 2), (None, 0), (np.sin, np.cos), (((1,), 2), (1, (2,))),
    ],
)  # fmt: skip
def test_different_values_have_different_keys(one: Any, other: Any) -> None:
    assert parts(make_scale(one)) == parts(make_scale(one))
    assert parts(make_scale(one)) != parts(make_scale(other))


def test_value_without_safe_key_compiles_without_cache(cache: Path) -> None:
    class Opaque:
        pass

    def unkeyable(x):
        x[0] = 1.0
        if False:
            holder  # noqa: B018, F821

    before = set(cache.rglob("*.gpuprog"))
    unkeyable.__globals__["holder"] = Opaque()
    try:
        assert isa.compile_kernel(unkeyable, (FLOATS,)).name == "unkeyable"
    finally:
        del unkeyable.__globals__["holder"]
    assert len(set(cache.rglob("*.gpuprog")) - before) == 1  # the decoded cubin alone


def test_damaged_cache_entry_is_replaced(tmp_path: Path) -> None:
    program = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
    ProgramCache(tmp_path).put("key", program)
    assert ProgramCache(tmp_path).get("key") == program
    path = ProgramCache(tmp_path).path("key")
    path.write_bytes(path.read_bytes()[:100])
    damaged = ProgramCache(tmp_path)
    assert damaged.get("key") is None
    damaged.put("key", program)
    assert ProgramCache(tmp_path).get("key") == program


def test_unwritable_cache_is_no_error(tmp_path: Path) -> None:
    program = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
    (tmp_path / "file").write_text("in the way")
    blocked = ProgramCache(tmp_path / "file" / "cache")
    assert blocked.get("key") is None
    blocked.put("key", program)
    assert blocked.get("key") is program


def test_source_text_is_current_after_a_comment_changes(tmp_path: Path) -> None:
    path = tmp_path / "user_kernel.py"
    program = {}
    for comment in ("old", "new"):
        path.write_text(f"def fill(x):\n    x[0] = 1.0  # {comment}\n")
        program[comment] = isa.compile_kernel(runpy.run_path(str(path))["fill"], (FLOATS,))
    assert program["old"].sha256 == program["new"].sha256
    assert program["new"].source[str(path)][1].endswith("# new")


def test_numba_counter_does_not_reach_the_ptx() -> None:
    first, again = (numba_code(make_scale(2.0), (FLOATS,), "sm_90", {}).ptx for _ in range(2))
    assert first == again
    # Two functions of one name stay apart.
    assert renumbering()("fB2v7B5cw51c fB3v12B5cw51c fB2v7B5cw51c") == "fB2v1B5cw51c fB2v2B5cw51c fB2v1B5cw51c"


def test_dispatchers_strings_and_signatures_agree() -> None:
    plain = isa.compile_kernel(saxpy, (float32, FLOATS, FLOATS))
    assert isa.compile_kernel(cuda.jit(saxpy), "void(float32, float32[::1], float32[::1])") == plain
    assert isa.compile_kernel(saxpy, types.void(float32, FLOATS, FLOATS)) == plain


def roots(x):
    i = cuda.grid(1)
    x[i] = math.sqrt(x[i]) / x[i + 1] + x[i + 2] * x[i + 3]


def test_options_of_the_dispatcher_apply() -> None:
    program = isa.compile_kernel(cuda.jit(fastmath=True, launch_bounds=128)(roots), (FLOATS,))
    assert program.max_threads == 128
    assert "CALL" not in program.opcode_histogram()  # of an exact division


def test_max_registers_limits_registers() -> None:
    def hungry(x):
        i = cuda.grid(1)
        total = float32(0)
        for k in range(40):
            total += x[i + k] * x[i - 3 * k]
        x[i] = total

    loose, tight = (isa.compile_kernel(cuda.jit(**how)(hungry), (FLOATS,)) for how in ({}, {"max_registers": 24}))
    assert tight.registers <= 24 < loose.registers


def test_device_functions_need_no_gpu_and_keep_their_lines() -> None:
    program = isa.compile_kernel(clamped, (FLOATS, float32))
    texts = {program.source_line(each) for each in program.instructions}
    assert "    if value > limit:" in texts


ABOVE = """\
from numba import cuda
from elsewhere import halved

@cuda.jit(device=True, inline="always")
def cubed(x):
    y = x * x
    return y * x

@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    x[i] = halved(cubed(x[i]))
"""
ELSEWHERE = """\
# Lines of this file must not be taken for lines of the kernel's.
from numba import cuda

@cuda.jit(device=True, inline="always")
def halved(x):
    return cuda.libdevice.fast_expf(x)
"""


def test_what_numba_inlines_keeps_its_own_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba gives lines above the kernel's `def` to the `def`, and those of another file to the kernel's file."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    path = tmp_path / "above.py"
    path.write_text(ABOVE)
    monkeypatch.syspath_prepend(tmp_path)
    program = isa.compile_kernel(runpy.run_path(str(path))["kernel"], (FLOATS,))
    places = {(Path(each.file or "").name, each.line) for each in program.instructions}
    of = {each.opcode: (Path(each.file or "").name, each.line) for each in program.instructions}
    assert {("above.py", 6), ("above.py", 7), ("elsewhere.py", 6)} <= places
    assert of["MUFU"] == ("elsewhere.py", 6) and of["STG"] == ("above.py", 12)
    assert ("above.py", 5) not in places and ("elsewhere.py", 5) not in places
    assert program.source[str(tmp_path / "elsewhere.py")][5] == "    return cuda.libdevice.fast_expf(x)"


def test_no_warning_leaks() -> None:
    code = clamped.__code__.replace(co_filename="<nowhere>")  # without source, about which Numba warns
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = isa.compile_kernel(python_types.FunctionType(code, globals()), (FLOATS, float32))
    assert not any(file.endswith("<nowhere>") for file in program.source)


def unknown_attribute(x):
    x[0] = 1
    x[1] = x.nope


@cuda.jit(device=True)
def broken_device(x):
    return x.missing


def calls_broken_device(x):
    x[0] = broken_device(x)


def returns(x):
    return x[0]


def unknown_name(x):
    x[0] = undefined_name  # noqa: F821


def grid_sync(x):
    cuda.cg.this_grid().sync()
    x[0] = 1


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(text))


@pytest.mark.parametrize(
    ("kernel", "place", "message"),
    [
        (unknown_attribute, "x[1] = x.nope", "has no 'nope'"),
        (calls_broken_device, "return x.missing", "has no 'missing'"),
        (returns, "return x[0]", "a kernel returns nothing"),
        (unknown_name, "x[0] = undefined_name  # noqa: F821", "'undefined_name' is not defined"),
    ],
)
def test_mistakes_become_one_sentence_with_a_place(kernel: Any, place: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        isa.compile_kernel(kernel, (FLOATS,))
    text = str(caught.value)
    assert message in text and kernel.__name__ in text
    assert "\n" not in text and len(text) < 400
    assert (caught.value.file, caught.value.line) == (__file__, line_of(place))
    assert text.startswith(f"{__file__}:{caught.value.line}: ")
    assert caught.value.__cause__ is not None


def test_wrong_number_of_arguments_bad_signature_and_no_function() -> None:
    with pytest.raises(CompileError, match="number of arguments is 2, and the kernel takes 1"):
        isa.compile_kernel(unknown_attribute, (FLOATS, int32))
    with pytest.raises(CompileError, match="bad signature"):
        isa.compile_kernel(saxpy, "void(floot32)")
    with pytest.raises(CompileError, match=r"a kernel is a function, .*, not 3"):
        isa.compile_kernel(3, (int64,))


def test_libraries_are_linked_and_a_missing_one_is_named() -> None:
    program = isa.compile_kernel(grid_sync, (FLOATS,))
    assert program.name == "grid_sync" and "__cuda_syscall_CGS_sync" in program.labels
    text = ".version 7.8 .target sm_90 .address_size 64 .extern .func absent; .visible .entry k() { call absent; ret; }"
    with pytest.raises(CompileError, match="calls absent"):
        isa.assemble(text)


def test_tool_from_cuda_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "ptxas"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert find_tool("ptxas") == str(tool)
