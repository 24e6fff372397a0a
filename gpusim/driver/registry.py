"""The driver API as a table: which functions there are, how C passes their arguments, and what runs them.

A function is plain Python. It gets the driver and what C passes, and returns what C wants to be told:

    @entry("cuMemAllocPitch_v2", "*p *p q q (u)")
    def allocate_pitch(driver: Driver, width: int, height: int) -> tuple[int, int]: ...

It raises `DriverError` for an error code. The signature has a letter for each argument of C's, in order:

- p pointer, q 64 bits or a size, u and i 32 bits without and with sign, h 16 bits, b 8 bits: passed as integers;
- X a dim3, Y, Z, H and U structures of three, four, eight and sixteen words, all by value: passed as tuples;
- D number of a device, C context (0: the current one), S stream, E event, K kernel, M module or library, G graph,
  L executable graph, N node of a graph, P memory pool, T C string: looked up, and an error code if there is none;
- V the management library's handle of a device: looked up;
- *p, *i, *f: a place for a result of 64 bits, of 32, or a float. It is not passed: what the function returns, one value
  or a tuple, is written to these places, except for None and where the caller wants no answer (address 0);
- in parentheses: what this driver has no use for; behind all others it may be left out.

A signature that begins with '=' is that of a function that gives C no error code but what it returns, a number; with
'&' it is the address of a text.
"""

from __future__ import annotations

import ctypes
import re
import struct
import tomllib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

from gpusim.driver.caller import Gone, caller, read, text
from gpusim.driver.codes import STATUSES, Code, DriverError, ManagementCode, ResultCode, fail_if, known, say
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import DriverStream, called_by_stream, node_of
from isa.errors import SimulationError
from isa.folders import cache_folder

_AARCH64 = 8
"""Registers for arguments, which tell that ABI."""


_LONG = ctypes.c_uint64
_WORDS = {"X": ("_Dim3", ctypes.c_uint32 * 3), "Y": ("_ThreeWords", _LONG * 3), "Z": ("_FourWords", _LONG * 4)}
_WORDS |= {"H": ("_EightWords", _LONG * 8), "U": ("_SixteenWords", _LONG * 16)}
_STRUCTURES: dict[str, Any] = {
    letter: type(name, (ctypes.Structure,), {"_fields_": (("words", words),)})
    for letter, (name, words) in _WORDS.items()
}
_NUMBERS = {"q": _LONG, "u": ctypes.c_uint32, "h": ctypes.c_uint16, "b": ctypes.c_uint8}
_TYPES: dict[str, Any] = {**_STRUCTURES, **_NUMBERS, **dict.fromkeys("iD", ctypes.c_int32)}
"""C types by letter; the other letters are pointers or handles."""
_RESULTS: dict[str, Any] = {"*p": ctypes.c_uint64, "*i": ctypes.c_uint32, "*f": ctypes.c_float}
_LOOKED_UP: dict[str, Callable[[Driver, int], Any]] = {
    "D": Driver.gpu_of,
    "C": lambda driver, handle: driver.context_of(handle) if handle else driver.context(),
    "S": Driver.stream_of,
    "E": Driver.event_of,
    "K": Driver.kernel_of,
    "M": lambda driver, handle: known(driver.owned("modules", handle)),
    "G": lambda driver, handle: known(driver.graphs.get(handle), ResultCode.INVALID_VALUE),
    "L": lambda driver, handle: known(driver.executables.get(handle), ResultCode.INVALID_VALUE),
    "N": lambda driver, handle: node_of(handle),
    "P": lambda driver, handle: known(driver.pools.get(handle), ResultCode.INVALID_VALUE),
    "T": lambda driver, address: text(address),
    "V": lambda driver, handle: known(
        dict(enumerate(driver.gpus, MANAGED_DEVICE)).get(handle), ManagementCode.INVALID_ARGUMENT
    ),
}
MANAGED_DEVICE = 0x5EED_0000_0004
"""Handle of the first device in the management library."""
_API = re.compile("p?_*(cublas|cuda|cudnn|cufft|cupti|cusparse|cu|nccl|nvml).*")
_Run = TypeVar("_Run", bound=Callable[..., Any])


@dataclass(frozen=True)
class EntryPoint:
    """One exported function.

    symbol: exported name, such as 'cuMemAlloc_v2'. letters: its arguments, each a letter of the signature with a star
    for a result, '' for one that is not used. since: the CUDA version that brought this variant (12000 is 12.0), which
    is how callers of `cuGetProcAddress` choose among those of one name. anytime: works without a context, and after a
    kernel has failed. gives_value: what it returns is no error code; gives_text: but a C string. per_thread: its stream
    0 is the calling thread's own.
    """

    symbol: str
    argument_types: tuple[Any, ...]
    letters: tuple[str, ...]
    run: Callable[..., Any]
    since: int
    anytime: bool
    gives_value: bool = False
    gives_text: bool = False
    per_thread: bool = False

    @property
    def name(self) -> str:
        """The name without the variant's suffix."""
        return re.sub(r"_v\d+$", "", self.symbol)

    @cached_property
    def api(self) -> str:
        """'cu', 'cuda', 'cublas', 'cudnn', 'cufft', 'cupti', 'cusparse', 'nccl' or 'nvml'."""
        return _API.sub(r"\1", self.symbol)

    def call(self, driver: Driver, arguments: Sequence[Any]) -> int:
        """Do what C asks for; what the call returns. Raises DriverError."""
        passed, places = [], []
        for letter, value in zip(self.letters, arguments, strict=True):
            if letter in _RESULTS:
                places.append((_RESULTS[letter], value))
            elif letter in _STRUCTURES:
                passed.append(tuple(value.words) if isinstance(value, ctypes.Structure) else value)
            elif letter:
                found: Any = _LOOKED_UP[letter](driver, value) if letter in _LOOKED_UP else value
                if letter == "S" and "Captur" not in self.symbol:
                    driver.not_in_implicit(found)
                passed.append(found)
        try:
            answer = self.run(driver, *passed)
        except DriverError:
            self._spoil_captures(passed)
            raise
        if self.gives_value:
            return int(answer or 0)
        answers = answer if isinstance(answer, tuple) else (answer,)
        for (kind, address), value in zip(places, answers, strict=bool(places)):
            if address and value is not None:
                caller().write(address, bytes(kind(value)))
        return 0

    def _spoil_captures(self, passed: Sequence[Any]) -> None:
        """A capture does not survive a call on its stream that fails, but for those about captures themselves."""
        for each in passed:
            if isinstance(each, DriverStream) and each.capture is not None and "Captur" not in self.symbol:
                each.capture.valid = False

    def arguments(self, words: Sequence[int], registers: int) -> list[Any]:
        """The arguments among the words that a caller's registers and stack hold, as the System V ABI of x86-64 or,
        with eight registers, AAPCS64 passes them."""
        found: list[Any] = []
        register, stack = 0, registers
        for kind in self.argument_types:
            size = ctypes.sizeof(kind)
            count = -(-size // 8)
            if issubclass(kind, ctypes.Structure) and count > 2 and registers == _AARCH64:
                size, count = 8, 1  # such a structure's address is passed
            if count <= 2 and register + count <= registers:
                taken = words[register : register + count]
                register += count
            else:
                taken = words[stack : stack + count]
                stack += count
                register = registers if registers == _AARCH64 and count < 3 else register
            data = struct.pack(f"<{count}Q", *taken)
            if issubclass(kind, ctypes.Structure) and size != ctypes.sizeof(kind):
                data = read(taken[0], ctypes.sizeof(kind))
            value = kind.from_buffer_copy(data)
            found.append(value if isinstance(value, ctypes.Structure) else value.value)
        return found


def registers(symbol: str) -> bool:
    """Return True if a function only registers content of the program, which every start does, whether used or not."""
    return symbol.startswith(("__cudaRegister", "__cudaUnregister"))


ENTRY_POINTS: dict[str, EntryPoint] = {}
"""By exported name."""


def entry(symbols: str, signature: str = "", *, anytime: bool = False) -> Callable[[_Run], _Run]:
    """Declare functions of the API that one Python function serves; see the top of this file. symbols: their exported
    names, each with the CUDA version behind it that brought this variant, where there are several of one name."""

    def declare(run: _Run) -> _Run:
        used, types, letters = True, [], []
        for part in re.findall(r"\*?[a-zA-Z]|[()]", signature):
            if part in "()":
                used = part == ")"
                continue
            types.append(_TYPES.get(part, ctypes.c_uint64))
            letters.append(part if used else "")
        gives = signature.startswith(("=", "&")), signature.startswith("&")
        for symbol, since in re.findall(r"([^\W\d]\S*)(?: (\d+))?", symbols):
            if symbol in ENTRY_POINTS:
                raise ValueError(f"{symbol} is declared twice")
            version = int(since or 0)
            ENTRY_POINTS[symbol] = EntryPoint(symbol, tuple(types), tuple(letters), run, version, anytime, *gives)
        return run

    return declare


def entries(*rows: tuple[str, str, Callable[..., Any]], anytime: bool = False) -> None:
    """Declare functions of an expression each: (symbols, signature, what runs them)."""
    for symbols, signature, run in rows:
        entry(symbols, signature, anytime=anytime)(run)


def same(symbol: str, other: str) -> None:
    """Declare a function that does what another does."""
    if symbol in ENTRY_POINTS:
        raise ValueError(f"{symbol} is declared twice")
    ENTRY_POINTS[symbol] = replace(ENTRY_POINTS[other], symbol=symbol)


def signatures() -> str:
    """A line for each declared function, for who calls it: its name, and of each argument the letter and the type, by
    its name in ctypes."""
    lines = []
    for symbol, point in sorted(ENTRY_POINTS.items()):  # the same text in every process
        arguments = zip(point.letters, point.argument_types, strict=True)
        lines.append(" ".join([symbol, *(f"{letter}:{kind.__name__}" for letter, kind in arguments)]))
    return "\n".join(lines)


def nothing(driver: Driver, *_checked: object) -> None:
    """Do nothing: the call is done once its arguments have been looked up, for what it asks for is so anyway."""


_RETURNED_AS_STATE = (ResultCode.SUCCESS, ResultCode.NOT_READY)


def _admit(driver: Driver, point: EntryPoint) -> None:
    """Check what has to hold before a call. Raises DriverError."""
    if point.api == "nvml":
        fail_if(not (point.anytime or driver.managed), ManagementCode.UNINITIALIZED)
        return
    if point.api in ("cuda", *STATUSES) and not registers(point.symbol):
        driver.begin_runtime_call(point.anytime)
    elif not point.anytime:
        fail_if(not driver.initialized, ResultCode.NOT_INITIALIZED)
    if not point.anytime and (failed := driver.context().failed) is not None:
        raise DriverError(failed)


def answer(driver: Driver, point: EntryPoint, arguments: Sequence[Any]) -> int:
    """Return to C what a function answers: no exception leaves it but one that ends the process."""
    code: Code
    driver.callers.append(None)
    driver.calls += 1
    try:
        fail_if(called_by_stream() and not permitted_within(point.symbol), ResultCode.NOT_PERMITTED)
        with driver.lock, driver.around_call(point):
            driver.stop_if_interrupted()
            driver.time.calls(driver.queues, begins=True)
            driver.thread.has_own_default = point.per_thread
            if waits(point.symbol):
                driver.wait_for_all(driver.gpu)
            _admit(driver, point)
            try:
                return point.call(driver, arguments)
            finally:
                driver.time.calls(driver.queues, begins=False)
    except DriverError as error:
        code, message = error.code, error.message
    except SimulationError as error:
        code, message = ResultCode.NOT_SUPPORTED, f"{point.symbol}: {error}"
    except KeyboardInterrupt:  # work may be lost, so nothing goes on as if it were not
        for each in driver.contexts():
            each.failed = ResultCode.UNKNOWN
        caller().interrupted()
        say(f"{point.symbol}: interrupted; the context cannot be used any more")
        return ResultCode.UNKNOWN.status(point.api)  # and no last error
    except Gone:
        raise
    except OSError as error:
        where = f"GPUSIM_CACHE_DIR says where compiled code goes ({cache_folder()}), TMPDIR others ({gettempdir()})"
        code, message = ResultCode.UNKNOWN, f"{point.symbol}: {error}; {where}"
    except Exception:
        traceback.print_exc()
        code, message = ResultCode.UNKNOWN, ""
    finally:
        driver.callers.pop()
        driver.interrupted = driver.interrupted and bool(driver.callers)
        driver.calls += 1
    if message:
        say(message)
    if isinstance(code, ResultCode):
        if point.api == "cuda" and code not in _RETURNED_AS_STATE:
            driver.thread.last_error = code
        return code.status(point.api)
    return int(code)


def find(name: str, version: int) -> EntryPoint | None:
    """The variant of `name` that a caller written for CUDA `version` means, None if there is none."""
    if name in ENTRY_POINTS and re.search(r"_v\d+$", name):
        return ENTRY_POINTS[name]
    variants = (each for each in _variants(len(ENTRY_POINTS)).get(name, ()) if each.since <= version)
    return max(variants, key=lambda each: each.since, default=None)


@cache
def _variants(declared: int) -> dict[str, list[EntryPoint]]:
    """All functions by name, while so many are declared: programs ask for hundreds when they start."""
    found: dict[str, list[EntryPoint]] = {}
    for each in ENTRY_POINTS.values():
        found.setdefault(each.name, []).append(each)
    return found


# --- which calls wait -------------------------------------------------------------------------------------------------

_PREFIX = re.compile("^_*cuda|^cu")
_CALLS = tomllib.loads(Path(__file__).with_name("calls.toml").read_text("utf-8"))
_WITHIN, _AT_ONCE = (re.compile("|".join(" ".join(_CALLS[each].values()).split())) for each in ("within", "at_once"))


@cache
def permitted_within(symbol: str) -> bool:
    """Return whether a function that a stream calls may call this one, by its exported name."""
    of_either_api = _WITHIN.fullmatch(_bare(symbol)) is not None
    return of_either_api or symbol.startswith(("nvml", "nvtx", "cupti", "__cuda")) or symbol == "cuStreamQuery"


@cache
def waits(symbol: str) -> bool:
    """Return whether a function, by its exported name, waits for the work of all streams."""
    if symbol.startswith(("nvml", "nvtx", "cupti", "Initialize")):
        return False
    return _AT_ONCE.fullmatch(_bare(symbol)) is None


def _bare(symbol: str) -> str:
    return re.sub(r"(@\d+|_v\d+)$", "", _PREFIX.sub("", symbol, count=1))
