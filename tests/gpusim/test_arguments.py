"""Arguments: parameter bytes as the compiler laid them out, arrays there and back, and mistakes named."""

import enum
import re
import struct
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpusim.errors import ArgumentError, MemoryAccessError
from gpusim.launch.arguments import DeviceArray, bind, infer_signature, parse_signature
from gpusim.launch.memory import DeviceMemory


@dataclass(frozen=True)
class Parameter:
    index: int
    offset: int
    size: int


@dataclass(frozen=True)
class Program:
    """Of an `isa.Program`, what binding looks at."""

    parameters: tuple[Parameter, ...]
    abi: str = "numba"
    name: str = "kernel"


def program(*sizes, abi="numba"):
    """A program whose parameters have these sizes and natural alignment."""
    parameters, end = [], 0
    for index, size in enumerate(sizes):
        offset = -(-end // size) * size
        parameters.append(Parameter(index, offset, size))
        end = offset + size
    return Program(tuple(parameters), abi)


def words(count):
    return (8,) * count


def refusal(*args, **options):
    memory = DeviceMemory()
    with pytest.raises(ArgumentError) as caught:
        bind(*args, memory, **options)
    assert memory.used_bytes == 0 and not memory.allocations, "nothing stays allocated"
    return str(caught.value)


def test_numba_array():
    memory = DeviceMemory()
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    bound = bind(program(*words(9)), [data], memory)
    meminfo, parent, items, item_bytes, pointer, *rest = struct.unpack("<9q", bound.parameter_bytes)
    assert (meminfo, parent, items, item_bytes, rest) == (0, 0, 6, 4, [2, 3, 12, 4])
    np.testing.assert_array_equal(memory.array(pointer, np.float32, (2, 3)), data)
    assert bound.arrays[0].address == pointer
    bound.arrays[0].host_view[...] = data + 1
    bound.copy_back()
    np.testing.assert_array_equal(data, np.arange(6).reshape(2, 3) + 1)
    bound.release()
    bound.release()
    assert memory.used_bytes == 0


def test_numba_scalars_lie_where_the_program_says():
    args = [True, np.int8(-2), np.float32(1.5), 3, 2.5, np.float16(1.0), 1 - 2j, np.complex64(3 + 4j), 2**63]
    sizes = [1, 1, 4, 8, 8, 2, 8, 8, 4, 4, 8]
    bound = bind(program(*sizes), args, DeviceMemory())
    expected = struct.pack("<?bxxfqde6xddffQ", True, -2, 1.5, 3, 2.5, 1.0, 1.0, -2.0, 3.0, 4.0, 2**63)
    assert bound.parameter_bytes == expected


def test_numba_tuples_records_enums_and_dates():
    class Mode(enum.IntEnum):
        FAST = 7

    memory = DeviceMemory()
    record = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])[0]
    date = np.datetime64(5, "s")
    array = np.ones(3)
    bound = bind(program(8, 4, *words(7), 8, 8, 8), [(1, np.int32(2), array), record, Mode.FAST, date], memory)
    raw = bound.parameter_bytes
    assert struct.unpack_from("<qi", raw) == (1, 2)
    assert struct.unpack_from("<qq", raw, 80) == (7, 5)
    (pointer,) = struct.unpack_from("<q", raw, 72)
    memory.view(pointer, 4)[...] = np.frombuffer(struct.pack("<i", 9), np.uint8)
    bound.copy_back()
    assert record["a"] == 9 and record["b"] == 2.0


def test_c_kernel():
    memory = DeviceMemory()
    data = np.arange(4, dtype=np.int32)
    record = np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")])[0]
    bound = bind(program(8, 4, 4, 8, 1, 8, abi="c"), [data, -5, 1.5, np.int64(6), 200, record], memory)
    pointer, n, x, m, byte, a, b = struct.unpack("<qifqB7xif", bound.parameter_bytes)
    assert (n, x, m, byte, a, b) == (-5, 1.5, 6, 200, 1, 2.0)
    np.testing.assert_array_equal(memory.array(pointer, np.int32, (4,)), data)


def test_read_only_arrays_are_not_written_back():
    data = np.zeros(4)
    data.flags.writeable = False
    bound = bind(program(*words(7)), [data], DeviceMemory())
    bound.arrays[0].host_view[...] = 1
    bound.copy_back()
    assert not data.any()


def test_one_array_passed_twice_is_one_allocation():
    memory = DeviceMemory()
    data = np.zeros(4)
    bound = bind(program(8, 8, 8, abi="c"), [data, data, data.copy()], memory)
    a, b, c = struct.unpack("<3q", bound.parameter_bytes)
    assert a == b != c
    assert len(bound.write_back) == len(memory.allocations) == 2


def test_device_arrays_stay():
    memory = DeviceMemory()
    array = DeviceArray(memory, memory.upload(np.arange(4)), (4,), np.int64)
    bound = bind(program(8, abi="c"), [array], memory)
    assert bound.parameter_bytes == struct.pack("<q", array.address)
    assert not bound.write_back
    bound.release()
    np.testing.assert_array_equal(array.host_view, np.arange(4))
    assert "another device" in refusal(program(8, abi="c"), [array])
    memory.free(array.address)
    with pytest.raises(MemoryAccessError, match="use after free"):
        bind(program(8, abi="c"), [array], memory)


@pytest.mark.parametrize(
    ("sizes", "abi", "args", "words"),
    [
        ((8,), "c", [], "0 arguments given; the kernel has 1 parameters"),
        ((8, 8), "numba", [np.zeros(3)], "1 argument given, which become 7 parameters; the kernel has 2"),
        ((4,), "numba", [1], "argument 0: 8 bytes given for parameter 0, which has 4"),
        ((4,), "c", [np.float64(1)], "argument 0: 8 bytes given for parameter 0, which has 4"),
        ((8, 1), "c", [np.zeros(3), 256], "argument 1: 256 does not fit in a parameter of 1 bytes"),
        ((1,), "c", [1.5], "a float given for a parameter of 1 bytes"),
        ((8,), "c", [(1, 2)], "a tuple cannot be passed to a C kernel"),
        ((8,), "numba", [[1, 2]], "argument 0: a value of type list cannot be passed to a kernel"),
        ((8, 8), "c", [np.zeros(3), None], "argument 1: a value of type NoneType cannot be passed"),
        ((8,), "c", [np.array([None])], "an array of object with 1 dimension cannot be passed"),
        ((8,), "numba", [2**64], "does not fit in 64 bits"),
    ],
)
def test_mistakes_are_named(sizes, abi, args, words):
    message = refusal(program(*sizes, abi=abi), args)
    assert message.startswith("kernel 'kernel'") and words in message


def test_names_in_messages():
    assert "argument 0 ('count')" in refusal(program(4), [1], names=["count"])


def test_signature_converts_scalars():
    bound = bind(program(4, 4, 1), [3, 2, 5], DeviceMemory(), signature="void(int32, float32, uint8)")
    assert bound.parameter_bytes == struct.pack("<ifB", 3, 2.0, 5)
    bound = bind(program(8, 4), [(1, 2)], DeviceMemory(), signature="void(Tuple((int64, int32)),)")
    assert bound.parameter_bytes == struct.pack("<qi", 1, 2)


@pytest.mark.parametrize(
    ("signature", "args", "words"),
    [
        (
            "void(float32[:])",
            [np.zeros(3)],
            "argument 0: an array of float64 with 1 dimension given, the signature says",
        ),
        ("void(float64[:, :])", [np.zeros(3)], "with 1 dimension given"),
        ("void(float64[::1])", [np.zeros(6)[::2]], "that is not dense in C order given"),
        ("void(float64)", [np.zeros(3)], "the signature says float64"),
        ("void(float64[:])", [1.0], "a value of type float given"),
        ("void(int8)", [200], "200 does not fit in int8"),
        ("void(float32)", [1j], "a value of type complex given"),
        ("void(int32, int32)", [1], "1 arguments given, the signature has 2"),
        ("void(Tuple((int64, int64)),)", [(1, 2, 3)], "a tuple of 3 elements given"),
    ],
)
def test_signature_must_agree(signature, args, words):
    assert words in refusal(program(*words_for(args)), args, signature=signature)


def words_for(args):
    return words(7 if isinstance(args[0], np.ndarray) else 1)


def test_inferred_types_are_those_of_a_launch():
    memory = DeviceMemory()
    device = DeviceArray(memory, memory.upload(np.zeros((2, 3), np.float32)), (2, 3), np.float32)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    args = [device, np.zeros((4, 4))[:, ::2], np.zeros((3, 4), order="F"), frozen, 1, 1.0, True, np.int8(1), (1, 2.0)]
    found = infer_signature(args)
    assert [(a.ndim, a.layout, a.mutable) for a in found[:4]] == [
        (2, "C", True),
        (2, "A", True),
        (2, "F", True),
        (1, "C", False),
    ]
    assert [str(t) for t in found[4:]] == ["int64", "float64", "bool", "int8", "Tuple(int64, float64)"]
    for value in ("text", [1], None, object(), np.array([None]), ([1],)):
        with pytest.raises(ArgumentError, match=r"kernel 'k', argument 1: .* cannot be passed"):
            infer_signature([1, value], kernel="k")


def test_parse_signature():
    from numba import types

    expected = (types.float32[:], types.int32)
    for signature in (
        "void(float32[:], int32)",
        types.void(*expected),
        expected,
        list(expected),
        "(float32[:], int32)",
    ):
        assert parse_signature(signature) == expected
    for signature in ("int32(int32)", "foo(", 7):
        with pytest.raises(ArgumentError):
            parse_signature(signature)


def test_layout_agrees_with_the_compiler():
    """Sizes of the parameters in the PTX that Numba writes are the sizes that binding expects."""
    from numba import cuda

    def kernel(out, flag, small, half, pair, point, both, number):
        if flag:
            out[0, 0] = small + half + pair[0] + pair[1][0] + point.a + both.real + number

    record = np.array([(1, 2.0)], dtype=np.dtype([("a", "i4"), ("b", "f4")], align=True))[0]
    out = np.zeros((2, 2), dtype=np.float64)
    args = [out, True, np.int8(3), np.float16(2), (np.int16(4), np.arange(5)), record, np.complex64(1j), 2.0]
    ptx, _ = cuda.compile(kernel, infer_signature(args), cc=(9, 0), output="ptx", device=False, abi="numba")
    header = ptx[ptx.index(".entry") : ptx.index("{")]
    sizes = [int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", header)]
    bound = bind(program(*sizes), args, DeviceMemory())
    assert sizes == [*words(9), 1, 1, 2, 2, *words(7), 8, 4, 4, 8]
    raw = bound.parameter_bytes
    assert struct.unpack_from("<?beh", raw, 72) == (True, 3, 2.0, 4)
    assert struct.unpack_from("<ffd", raw, len(raw) - 16) == (0.0, 1.0, 2.0)


@given(
    hnp.arrays(
        dtype=st.sampled_from([np.uint8, np.int32, np.float64, np.complex64]),
        shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements=st.integers(0, 100),
    ),
    st.data(),
)
@settings(max_examples=60, deadline=None)
def test_any_view_goes_there_and_back(base, data):
    index = data.draw(hnp.basic_indices(base.shape, allow_newaxis=True))
    array = base[index]
    if not isinstance(array, np.ndarray):
        return
    array.flags.writeable = True
    before = base.copy()
    memory = DeviceMemory()
    bound = bind(program(*words(5 + 2 * array.ndim)), [array], memory)
    device = bound.arrays[0]
    np.testing.assert_array_equal(device.host_view, array)
    assert (device.shape, device.strides) == (array.shape, array.strides)
    array[...] = 0
    bound.copy_back()
    np.testing.assert_array_equal(base, before)
    bound.release()
    assert memory.used_bytes == 0
