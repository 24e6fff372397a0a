"""From Python arguments to a kernel's parameters: bytes in constant bank 0, arrays in device memory and back.

The layouts are those of the two ways to compile a kernel:

- `abi="numba"`: an array becomes meminfo and parent pointer (both 0), item count, item size, data pointer,
  then each extent and each stride, all 64-bit; tuples become their elements, complex numbers two floats,
  records a pointer; other scalars stay as they are, a bool in one byte. (The flattening that Numba's CUDA
  launcher does; checked against its PTX.)
- `abi="c"`: an array becomes one pointer, a record its bytes (which may also be given as they are), a tensor map what
  the driver encodes, a structure its bytes with the addresses of its arrays, a scalar itself.

A parameter's place comes from the program, whose compiler aligned it; here count and sizes must agree. `program_of` has
the program of a launch, for its architecture, and `place_arguments` puts its arguments in place.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from gpusim.errors import ArgumentError
from gpusim.launch.cuda import CudaSource, Struct, TensorMap
from gpusim.launch.device_array import DeviceArray
from gpusim.launch.launch import Launch
from gpusim.launch.memory import DeviceMemory, span
from gpusim.launch.tensor_map import encode_tiled
from isa import Program, compile_kernel, load

__all__ = ["BoundArguments", "DeviceArray", "bind", "infer_signature", "parse_signature"]


@dataclass
class BoundArguments:
    """Arguments in place for one launch.

    parameter_bytes: the parameter area of constant bank 0, from `program.parameter_base` on.
    arrays: DeviceArray of every array argument by position in the call; arrays in tuples are not listed.
    write_back: what `copy_back` copies, as (host array or record, its DeviceArray).
    owned: addresses that `release` frees.
    """

    memory: DeviceMemory
    parameter_bytes: bytes = b""
    arrays: dict[int, DeviceArray] = field(default_factory=dict)
    write_back: list[tuple[Any, DeviceArray]] = field(default_factory=list)
    owned: list[int] = field(default_factory=list)

    def copy_back(self) -> None:
        """Copy every writable array argument from the device into the host's array, in place."""
        for host, device in self.write_back:
            if isinstance(host, np.void):
                values = device.host_view[()]
                for name in host.dtype.names or ():
                    host[name] = values[name]
            else:
                np.copyto(host, device.host_view)

    def release(self) -> None:
        """Free what was allocated for this launch. Calling it again does nothing."""
        while self.owned:
            self.memory.free(self.owned.pop())


def bind(
    program: Any, args: Sequence[Any], memory: DeviceMemory, signature: Any = None, names: Sequence[str] = ()
) -> BoundArguments:
    """Place `args` for a launch of `program` (an `isa.Program`) and return what the launch needs.

    Every NumPy array is copied to `memory` with its own strides: what lies between the elements of a slice is
    not copied, in or out. The same array passed twice shares one allocation. Read-only arrays are not copied
    back. A DeviceArray must lie in `memory` and stays there.

    signature: converts scalars to its types and must agree with the arrays; see `parse_signature`. None takes
        each value as it is; with `abi="c"` a Python number then takes the size that the parameter has.
    names: parameter names for error messages.

    Raises ArgumentError, naming kernel and argument, for a wrong count, size, type or layout; nothing stays
    allocated then.
    """
    binder = _Binder(program, memory, names)
    types = parse_signature(signature) if signature is not None else None
    if types is not None and len(types) != len(args):
        raise ArgumentError(f"{len(args)} arguments given, the signature has {len(types)}", kernel=program.name)
    try:
        pieces = [
            (i, piece)
            for i, value in enumerate(args)
            for piece in binder.flatten(i, value, types[i] if types else None, True)
        ]
        binder.bound.parameter_bytes = binder.pack(pieces, len(args))
    except BaseException:
        binder.bound.release()
        raise
    return binder.bound


class _Binder:
    def __init__(self, program: Any, memory: DeviceMemory, names: Sequence[str]):
        self.program, self.memory, self.names = program, memory, names
        self.numba = program.abi == "numba"
        self.bound = BoundArguments(memory)
        self.uploaded: dict[Any, DeviceArray] = {}

    def error(self, i: int, reason: str) -> ArgumentError:
        name = self.names[i] if i < len(self.names) else None
        return ArgumentError(reason, kernel=self.program.name, argument=i, name=name)

    def flatten(self, i: int, value: Any, type_: Any, top: bool) -> Iterator[bytes | int | float]:
        """Parameters that `value` becomes: bytes as they lie in memory, or a Python number whose size is still open."""
        if isinstance(value, (np.ndarray, DeviceArray)):
            device = self.array(i, value, type_)
            if top:
                self.bound.arrays[i] = device
            yield from self.array_pieces(device)
        elif isinstance(value, TensorMap) and not self.numba:
            kind, shape, strides, box, swizzle = value.fields
            device = self.bound.arrays[i] = self.array(i, value.array, None)
            yield encode_tiled(kind, device.address, shape, strides, box, swizzle=swizzle).tobytes()
        elif isinstance(value, Struct) and not self.numba:
            data = bytearray(value.data)
            for offset, array in value.arrays.items():
                device = self.bound.arrays[i] = self.array(i, array, None)
                data[offset : offset + 8] = _word(device.address)
            yield bytes(data)
        elif isinstance(value, np.void) and (value.dtype.names or not self.numba):
            if self.numba:
                yield _word(self.upload(i, value, f"argument {i}").address)
            else:
                yield value.tobytes()
        elif isinstance(value, tuple):
            yield from self.tuple_pieces(i, value, type_)
        elif isinstance(value, enum.Enum):
            yield from self.flatten(i, value.value, getattr(type_, "dtype", None), False)
        elif type_ is not None:
            yield from self.scalar_pieces(self.converted(i, value, type_))
        elif not self.numba and isinstance(value, bytes | bytearray):
            yield bytes(value)
        elif not self.numba and type(value) in (int, float):
            yield value
        else:
            yield from self.scalar_pieces(self.scalar(i, value))

    def array_pieces(self, device: DeviceArray) -> Iterator[bytes]:
        whole = 0, 0, device.size, device.dtype.itemsize, device.address, *device.shape, *device.strides
        yield from map(_word, whole if self.numba else (device.address,))

    def tuple_pieces(self, i: int, value: tuple, type_: Any) -> Iterator[bytes | int | float]:
        if not self.numba:
            raise self.error(i, "a tuple cannot be passed to a C kernel; pass its elements one by one")
        types = list(type_) if type_ is not None and hasattr(type_, "__iter__") else [None] * len(value)
        if len(types) != len(value):
            raise self.error(i, f"a tuple of {len(value)} elements given, the signature says {type_}")
        for element, element_type in zip(value, types, strict=True):
            yield from self.flatten(i, element, element_type, False)

    def scalar_pieces(self, scalar: np.generic) -> Iterator[bytes]:
        if isinstance(scalar, np.complexfloating) and self.numba:
            yield scalar.real.tobytes()
            yield scalar.imag.tobytes()
        else:
            yield scalar.tobytes()

    def scalar(self, i: int, value: Any) -> np.generic:
        """A value as the NumPy scalar whose type Numba gives it."""
        if isinstance(value, np.generic | bool | int | float | complex):
            scalar = np.asarray(value)
            if scalar.dtype.hasobject:
                raise self.error(i, f"{value} does not fit in 64 bits")
            if scalar.dtype.kind in "biufcmM":
                return scalar.dtype.type(scalar)
        raise self.error(i, f"{kind_of(value)} cannot be passed to a kernel; pass a NumPy array or a number")

    def converted(self, i: int, value: Any, type_: Any) -> np.generic:
        """A scalar in the type of the signature."""
        dtype = scalar_dtype(type_)
        if dtype is None:
            raise self.error(i, f"{kind_of(value)} given, the signature says {type_}")
        scalar = self.scalar(i, value)
        if (scalar.dtype.kind == "c" and dtype.kind != "c") or ((dtype.kind in "mM") != (scalar.dtype.kind in "mM")):
            raise self.error(i, f"{kind_of(value)} given, the signature says {type_}")
        if dtype.kind in "iu" and scalar.dtype.kind in "iu":
            limits = np.iinfo(dtype)
            if not limits.min <= int(scalar) <= limits.max:
                raise self.error(i, f"{value} does not fit in {type_}")
        return dtype.type(scalar)

    def array(self, i: int, value: np.ndarray | DeviceArray, type_: Any) -> DeviceArray:
        if type_ is not None:
            self.check_array(i, value, type_)
        if isinstance(value, np.ndarray):
            return self.upload(i, value, self.names[i] if i < len(self.names) else f"argument {i}")
        if not value.memory.shares(self.memory):
            raise self.error(i, "a DeviceArray of another device")
        low, high = span(value.dtype.itemsize, value.shape, value.strides)
        self.memory.check(value.address + low, high - low, access="kernel argument")
        return value

    def check_array(self, i: int, value: np.ndarray | DeviceArray, type_: Any) -> None:
        """An array must be what compiled code takes it for, down to the order of its elements."""
        from numba.np.numpy_support import as_dtype

        layout = getattr(type_, "layout", None)
        if layout is None:
            raise self.error(i, f"{kind_of(value)} given, the signature says {type_}")
        flags = (value.host_view if isinstance(value, DeviceArray) else value).flags
        dense = {"C": flags.c_contiguous, "F": flags.f_contiguous}.get(layout, True)
        if as_dtype(type_.dtype) != value.dtype or type_.ndim != value.ndim or not dense:
            order = "" if dense else f" that is not dense in {layout} order"
            raise self.error(i, f"{kind_of(value)}{order} given, the signature says {type_}")

    def upload(self, i: int, value: np.ndarray | np.void, label: str) -> DeviceArray:
        """Copy an array or a record to the device, once however often it is passed."""
        if value.dtype.hasobject or isinstance(value, np.ma.MaskedArray):
            raise self.error(i, f"{kind_of(value)} cannot be passed to a kernel")
        shape, strides = (value.shape, value.strides) if isinstance(value, np.ndarray) else ((), ())
        pointer = value.__array_interface__["data"][0] if isinstance(value, np.ndarray) else id(value)
        key = (pointer, shape, strides, value.dtype.str if value.dtype.names is None else id(value.dtype))
        if key in self.uploaded:
            return self.uploaded[key]
        low, high = span(value.dtype.itemsize, shape, strides)
        start = self.memory.alloc(high - low, label)
        self.bound.owned.append(start)
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            self.memory.holds_array(start, value.itemsize, shape if self.numba else (value.size,))
        device = DeviceArray(self.memory, start - low, shape, value.dtype, strides)
        self.memory.write(device.address, device.dtype, device.shape, device.strides, value)
        if isinstance(value, np.void) or value.flags.writeable:
            self.bound.write_back.append((value, device))
        self.uploaded[key] = device
        return device

    def pack(self, pieces: list[tuple[int, bytes | int | float]], count: int) -> bytes:
        """Put the pieces where the program's parameters lie."""
        parameters = sorted(self.program.parameters, key=lambda parameter: parameter.index)
        if len(parameters) != len(pieces):
            layout = "" if len(pieces) == count else f", which become {len(pieces)} parameters"
            raise ArgumentError(
                f"{count} argument{'' if count == 1 else 's'} given{layout}; "
                f"the kernel has {len(parameters)} parameters",
                kernel=self.program.name,
            )
        area = bytearray(max((p.offset + p.size for p in parameters), default=0))
        for parameter, (i, piece) in zip(parameters, pieces, strict=True):
            data = piece if isinstance(piece, bytes) else self.sized(i, piece, parameter.size)
            if len(data) != parameter.size:
                raise self.error(
                    i, f"{len(data)} bytes given for parameter {parameter.index}, which has {parameter.size}"
                )
            area[parameter.offset : parameter.offset + parameter.size] = data
        return bytes(area)

    def sized(self, i: int, value: int | float, size: int) -> bytes:
        """A Python number in the size of a C parameter."""
        if isinstance(value, float):
            if size not in (2, 4, 8):
                raise self.error(i, f"a float given for a parameter of {size} bytes")
            return np.array(value, dtype=f"<f{size}").tobytes()
        try:
            return value.to_bytes(size, "little", signed=value < 0)
        except OverflowError:
            raise self.error(i, f"{value} does not fit in a parameter of {size} bytes") from None


def _word(value: int) -> bytes:
    return int(value).to_bytes(8, "little", signed=value < 0)


def program_of(launch: Launch, arch: str) -> Program:
    """The machine code of a launch's kernel, for its arguments and an architecture such as 'sm_90'."""
    kernel, signature = launch.kernel, launch.signature
    if isinstance(kernel, Program):
        return kernel
    if isinstance(kernel, CudaSource):
        return load(kernel.path, kernel.entry, abi="c", arch=kernel.arch or arch, options=kernel.options)
    name = getattr(kernel, "__name__", None)
    types = parse_signature(signature) if signature is not None else infer_signature(launch.args, name)
    return compile_kernel(kernel, types, arch)


def place_arguments(program: Program, launch: Launch, memory: DeviceMemory) -> BoundArguments:
    """The launch's arguments in device memory, as its program takes them; see `bind`."""
    signature = None if program is launch.kernel else launch.signature
    declared = program.once("declared parameters", lambda: _declared(program))
    for i, (value, (type_, star, name)) in enumerate(zip(launch.args, declared, strict=False)):
        if not _fits(value, type_, star):
            reason = f"{kind_of(value)} given, the kernel takes {type_}{star and ' *'}"
            raise ArgumentError(reason, kernel=program.name, argument=i, name=name)
    names = _parameter_names(launch.kernel) or tuple(name for _, _, name in declared)
    return bind(program, launch.args, memory, signature, names)


def _parameter_names(kernel: Any) -> tuple[str, ...]:
    """Names of a Python kernel's parameters, for messages; empty for a program."""
    code = getattr(getattr(kernel, "py_func", kernel), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()


_C_TYPES = {"float": "f4", "double": "f8", "int": "i4", "unsigned int": "i4", "long long": "i8", "size_t": "i8"}
_DECLARED = re.compile(r"\s*((?:\w+ )*?\w+)\s*(\*?)\s*(\w+)\s*")


def _declared(program: Program) -> list[tuple[str, str, str]]:
    """Type, '*' and name of each parameter of a C kernel as its source has them; none where that is not plain."""
    text = "\n".join(line for lines in program.source.values() for line in lines) if program.abi == "c" else ""
    found = re.findall(rf"__global__[^;{{}}]*\b{re.escape(program.name)}\s*\(([^)]*)\)\s*{{", text)
    parts = [re.sub(r"\b(?:const|volatile|__restrict__)\b", "", each) for each in "".join(found).split(",")]
    plain = [each.groups() for each in map(_DECLARED.fullmatch, parts) if each]
    return plain if len(found) == 1 and len(plain) == len(parts) == len(program.parameters) else []  # type: ignore


def _fits(value: Any, type_: str, star: str) -> bool:
    """False if a C parameter's type takes an argument for something else, such as float64 for float."""
    array, sized = isinstance(value, (np.ndarray, DeviceArray)), isinstance(value, np.number)
    if type_ not in _C_TYPES or not (array or sized or type(value) in (int, float)):
        return True
    wanted, given = np.dtype(_C_TYPES[type_]), value.dtype if array or sized else np.dtype(type(value))
    if array != bool(star):
        return not array and given.kind in "iu"  # an address
    return (given.kind == "f") == (wanted.kind == "f") and (given.itemsize == wanted.itemsize or not array | sized)


# --- Numba's types of arguments ---------------------------------------------------------------------------------------
# Numba is imported on first use only, and by name: numba-cuda puts its own `numba.cuda` in place at run time, which
# type checkers cannot follow.


def infer_signature(args: Sequence[Any], kernel: str | None = None) -> tuple[Any, ...]:
    """Numba types of `args`, as a Numba launch finds them: arrays by dtype, dimensions and layout, NumPy scalars their
    own type, int int64, float float64, bool boolean. Raises ArgumentError for a value that no kernel can take."""
    found = []
    for i, value in enumerate(args):
        try:
            type_ = _typeof(value.host_view if isinstance(value, DeviceArray) else value)
        except (ValueError, TypeError, NotImplementedError) as error:
            raise _refused(value, kernel, i, str(error)) from None
        if not _passable(type_):
            raise _refused(value, kernel, i, "pass a NumPy array, a number or a tuple of these")
        found.append(type_)
    return tuple(found)


def _typeof(value: Any) -> Any:
    """The Numba type of a value. What is plain has the same one everywhere, and need not wait for `numba.cuda`."""
    dtype = getattr(value, "dtype", None)
    plain = type(value) in (bool, int, float) or type(value) is np.ndarray or isinstance(value, np.generic)
    if plain and (dtype is None or (dtype.kind in "biuf" and dtype.isnative and dtype.itemsize <= 8)):
        return import_module("numba").typeof(value)
    return import_module("numba.cuda.typing.typeof").typeof(value)


def parse_signature(signature: Any) -> tuple[Any, ...]:
    """Numba argument types of a signature: a string "void(float32[:], int32)", a Numba signature or a
    sequence of types. Raises ArgumentError for anything else and for a return type other than void."""
    normalize = import_module("numba.cuda.core.sigutils").normalize_signature
    try:
        arguments, result = normalize(tuple(signature) if isinstance(signature, list) else signature)
    except Exception as error:
        raise ArgumentError(f"not a signature: {signature!r} ({error})") from None
    if result is not None and str(result) != "none":
        raise ArgumentError(f"a kernel returns nothing, but the signature says {result}")
    return tuple(arguments)


def scalar_dtype(type_: Any) -> np.dtype | None:
    """NumPy's dtype of a Numba number, boolean, date or time span; None for any other type."""
    from numba.core import types
    from numba.np.numpy_support import as_dtype

    scalars = types.Number | types.Boolean | types.NPDatetime | types.NPTimedelta
    return as_dtype(type_) if isinstance(type_, scalars) else None


def kind_of(value: Any) -> str:
    """Type of `value`, in words for an error message."""
    if isinstance(value, (np.ndarray, DeviceArray)):
        return f"an array of {value.dtype} with {value.ndim} dimension{'' if value.ndim == 1 else 's'}"
    if isinstance(value, np.generic):
        return f"a value of {value.dtype}"
    return f"a value of type {type(value).__name__}"


def _passable(type_: Any) -> bool:
    """True if a kernel can take an argument of a Numba type."""
    from numba.core import types

    if isinstance(type_, types.BaseTuple):  # type: ignore[attr-defined]
        elements: Any = type_
        return all(_passable(element) for element in elements)
    if isinstance(type_, types.EnumMember | types.Array):
        return _passable(type_.dtype)
    scalars = (types.Number, types.Boolean, types.NPDatetime, types.NPTimedelta, types.Record)
    return isinstance(type_, scalars)


def _refused(value: Any, kernel: str | None, i: int, reason: str) -> ArgumentError:
    return ArgumentError(f"{kind_of(value)} cannot be passed to a kernel: {reason}", kernel=kernel, argument=i)
