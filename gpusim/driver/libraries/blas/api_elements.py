"""cuBLAS: what is done element by element with vectors and matrices, and sums and places of absolute values."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from gpusim.driver.caller import read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.api_vector import LETTERS, ONE, Vector, result_on_device, start
from gpusim.driver.libraries.blas.kernels import run
from gpusim.driver.libraries.blas.multiply import C32, C64, F32, F64, KINDS
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.state import Driver

_NOTHING = 0, 0, 0
_THREADS, _MOST_BLOCKS = 256, 4096
_REAL = {F32: F32, F64: F64, C32: F32, C64: F64}
_LEFT, _RIGHT = 0, 1  # cublasSideMode_t

Operand = tuple[int, int, int]
"""First element, elements to the next row and to the next column; nothing if all are 0."""


def _elements(
    driver: Driver,
    handle: Handle,
    name: str,
    kind: int,
    extents: tuple[int, int],
    operands: tuple[Operand, Operand, Operand, Operand],
    alpha: int = 0,
    beta: int = 0,
    conjugated: int = 0,
    scalars: int | None = None,
) -> None:
    """D = alpha A X + beta B. operands: A, X, B, D. alpha, beta: addresses, 0 for 1. scalars: their type."""
    scalars = kind if scalars is None else scalars
    fail_if(min(extents) < 0, ResultCode.INVALID_VALUE)
    if not min(extents):
        return
    at, values = [], b""
    for address in (alpha, beta):
        on_device = bool(address and handle.pointer_mode)
        at.append(address if on_device else 0)
        value = bytes(16) if on_device else read(address, KINDS[scalars][1]) if address else ONE[scalars]
        values += value.ljust(16, b"\0")
    given = b"".join(struct.pack("<Q2q", *each) for each in operands) + struct.pack("<2Q", *at) + values
    given += struct.pack("<3i", *extents, conjugated)
    types = {"T": KINDS[kind][0], "TS": KINDS[scalars][0]}
    grid = min(-(-extents[0] * extents[1] // _THREADS), _MOST_BLOCKS), 1, 1
    run(driver, handle.stream, "elements.cu", f"gpusim_{name}_{types['T']}", grid, _THREADS, given, **types)


def _vector(given: Vector, count: int, kind: int, across: bool = False) -> Operand:
    """A vector as a column, or as a row."""
    address, step = given
    first = start(address, count, step, KINDS[kind][1])
    return (first, 0, step) if across else (first, step, 0)


def _matrix(given: Vector, rows: int, operation: int = 0) -> Operand:
    """op() of a matrix of so many rows, at an address with a leading extent. Raises INVALID_VALUE."""
    address, leading = given
    fail_if(leading < max(1, rows) or operation not in (0, 1, 2), ResultCode.INVALID_VALUE)
    return (address, leading, 1) if operation else (address, 1, leading)


def _norm(kind: int, of: int, name: str, driver: Driver, handle: Handle, n: int, given: Vector, to: int) -> None:
    x, step = given
    size = KINDS[_REAL[kind]][1] if of < 2 else 4
    count = max(n, 0) if step > 0 else 0
    with result_on_device(driver, handle, to, size) as there:
        types: dict[str, Any] = {"T": KINDS[kind][0], "OF": of}
        values = struct.pack("<QqQi", x, step, there, count)
        run(driver, handle.stream, "norm.cu", f"gpusim_{name}_{types['T']}", (1, 1, 1), _THREADS, values, **types)


def _declare(letter: str, kind: int) -> None:
    def axpy(driver: Driver, handle: Handle, n: int, alpha: int, given: Vector, to: Vector) -> None:
        x, y = _vector(given, n, kind), _vector(to, n, kind)
        _elements(driver, handle, "axpy", kind, (max(n, 0), 1), (x, _NOTHING, y, y), alpha)

    def copy(driver: Driver, handle: Handle, n: int, given: Vector, to: Vector) -> None:
        x, y = _vector(given, n, kind), _vector(to, n, kind)
        _elements(driver, handle, "copy", kind, (max(n, 0), 1), (x, _NOTHING, _NOTHING, y))

    def scal(scalars: int, driver: Driver, handle: Handle, n: int, alpha: int, given: Vector) -> None:
        x = *given, 0
        operands = x, _NOTHING, _NOTHING, x
        _elements(driver, handle, "scal", kind, (max(n, 0) if x[1] > 0 else 0, 1), operands, alpha, scalars=scalars)

    def ger(conjugated: int, driver: Driver, handle: Handle, extents: Vector, alpha: int, *given: Vector) -> None:
        m, n = extents
        x, y, a = _vector(given[0], m, kind), _vector(given[1], n, kind, across=True), _matrix(given[2], m)
        _elements(driver, handle, "ger", kind, (m, n), (x, y, a, a), alpha, conjugated=conjugated)

    def geam(driver: Driver, handle: Handle, operations: Vector, extents: Vector, *given: Any) -> None:
        (of_a, of_b), (m, n), (alpha, first, beta, second, to) = operations, extents, given
        a, b = _matrix(first, n if of_a else m, of_a), _matrix(second, n if of_b else m, of_b)
        conjugated = (of_a == 2) + 4 * (of_b == 2)
        _elements(driver, handle, "geam", kind, (m, n), (a, _NOTHING, b, _matrix(to, m)), alpha, beta, conjugated)

    def dgmm(driver: Driver, handle: Handle, side: int, extents: Vector, *given: Vector) -> None:
        (m, n), (first, vector, to) = extents, given
        fail_if(side not in (_LEFT, _RIGHT), ResultCode.INVALID_VALUE)
        x = _vector(vector, n if side else m, kind, across=bool(side))
        _elements(driver, handle, "dgmm", kind, (m, n), (_matrix(first, m), x, _NOTHING, _matrix(to, m)))

    plain, real = f"cublas{letter}", _REAL[kind]
    routine(f"{plain}axpy_v2", "n p pn pn")(axpy)
    routine(f"{plain}copy_v2", "n pn pn")(copy)
    routine(f"{plain}scal_v2", "n p pn")(partial(scal, kind))
    routine(f"{plain}geam", "ii nn p pn p pn pn")(geam)
    routine(f"{plain}dgmm", "i nn pn pn pn")(dgmm)
    of_reals = letter if real == kind else {"C": "Sc", "Z": "Dz"}[letter]
    for of, name in enumerate(("asum", "nrm2")):
        routine(f"cublas{of_reals}{name}_v2", "n pn p")(partial(_norm, kind, of, name))
    for of, name in enumerate(("amax", "amin"), 2):
        routine(f"cublasI{letter.lower()}{name}_v2", "n pn p")(partial(_norm, kind, of, name))
    if real == kind:
        routine(f"{plain}ger_v2", "nn p pn pn pn")(partial(ger, 0))
    else:
        routine(f"{plain}{'sd'[real]}scal_v2", "n p pn")(partial(scal, real))
        routine(f"{plain}geru_v2", "nn p pn pn pn")(partial(ger, 0))
        routine(f"{plain}gerc_v2", "nn p pn pn pn")(partial(ger, 2))


for _letter, _kind in LETTERS.items():
    _declare(_letter, _kind)
