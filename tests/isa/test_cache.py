"""Where the cache of programs lies, what it keeps in memory, and values whose content has no safe digest."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from isa import cache
from isa.cache import ProgramCache, Unkeyable, function_parts
from isa.folders import cache_folder
from tests.gpusim.records import make_program


@pytest.mark.parametrize(
    "platform, variables, folder",
    [
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/gpusim"),
        ("linux", {}, "~/.cache/gpusim"),
        ("darwin", {"XDG_CACHE_HOME": "/c"}, "~/Library/Caches/gpusim"),
        ("win32", {"LOCALAPPDATA": "/a"}, "/a/gpusim"),
        ("win32", {}, "~/AppData/Local/gpusim"),
        ("linux", {"GPUSIM_CACHE_DIR": "/own", "XDG_CACHE_HOME": "/c"}, "/own"),
    ],
)
def test_folder_of_each_platform(monkeypatch, platform, variables, folder):
    for name in ("GPUSIM_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == Path(folder).expanduser()


def test_memory_keeps_the_latest_and_the_disk_all(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "_KEPT_IN_MEMORY", 2)
    program = make_program(sha256=hashlib.sha256(b"").hexdigest())
    kept = ProgramCache(tmp_path)
    for key in ("one", "two", "three"):
        kept.put(key, program)
    assert kept.get("one") == program
    for key in ("one", "two", "three"):
        kept.path(key).unlink()
    # Reading "one" has pushed "two" out.
    assert [kept.get(key) is not None for key in ("two", "three", "one")] == [False, True, True]


def keyed(value):
    """Parts of a function that uses `value`, in a container and by itself."""

    def kernel(x):
        x[0] = value

    return function_parts(kernel)


def test_dictionaries_count_by_content():
    assert keyed({"a": 1, 2: (3.0,)}) == keyed({"a": 1, 2: (3.0,)})
    assert len({repr(keyed(value)) for value in ({}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1})}) == 5


def test_functions_that_call_each_other_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert keyed(even) == keyed(even) != keyed(odd)


def test_nested_functions_count():
    def outer(constant):
        if constant == 1:

            def kernel(x):
                x[0] = (lambda y: y + 1)(x[1])

        else:

            def kernel(x):
                x[0] = (lambda y: y + 2)(x[1])

        return function_parts(kernel)

    assert outer(1) == outer(1) != outer(2)


def test_values_without_a_safe_digest():
    def unbound():
        def kernel(x):
            x[0] = later

        parts = function_parts(kernel)
        later = 1
        return parts

    with pytest.raises(Unkeyable, match="later has no value yet"):
        unbound()
    for value in (np.array([object()]), object(), [1, object()], {"a": object()}):
        with pytest.raises(Unkeyable):
            keyed(value)


def test_types_that_name_an_address():
    """A Numba type that prints as an object at an address would be another one in the next process."""
    types = pytest.importorskip("numba.core.types")

    class Anonymous(types.Type):
        def __init__(self):
            super().__init__(name=f"<made at 0x{id(self):x}>")

    assert keyed(types.float32) != keyed(types.float64)
    with pytest.raises(Unkeyable, match="the type"):
        keyed(Anonymous())


def test_intrinsics_count_by_what_they_build():
    extending = pytest.importorskip("numba.cuda.extending")
    types = pytest.importorskip("numba.core.types")
    ir = pytest.importorskip("llvmlite.ir")

    def made(code, width=32):
        word = ir.IntType(width)

        @extending.intrinsic
        def instruction(typingctx, a):
            def codegen(context, builder, signature, args):
                return builder.asm(ir.FunctionType(word, [word]), code, "=r,r", args, False)

            return types.uint32(types.uint32), codegen

        def kernel(x):
            x[0] = instruction(x[1])

        return function_parts(kernel)

    assert made("popc.b32 $0, $1;") == made("popc.b32 $0, $1;") != made("clz.b32 $0, $1;")
    assert made("popc.b32 $0, $1;") != made("popc.b32 $0, $1;", 64)
    with pytest.raises(Unkeyable, match="the type"):
        keyed(ir.Context().get_identified_type("pair"))
