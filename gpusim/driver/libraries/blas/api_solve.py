"""cuBLAS: triangular systems of equations, and the factors, solutions and inverses of many matrices."""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

from gpusim.driver.api.launch import describe
from gpusim.driver.caller import put_int, read
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.api_vector import LETTERS, ONE
from gpusim.driver.libraries.blas.kernels import kernel
from gpusim.driver.libraries.blas.multiply import KINDS
from gpusim.driver.libraries.blas.state import Handle, routine
from gpusim.driver.state import Driver

_THREADS, _MOST_BATCHES = 256, 65535
_LOWER = 0  # cublasFillMode_t
_UNIT = 1  # cublasDiagType_t
_CONJUGATED = 2  # cublasOperation_t


@dataclass
class _System:
    """What the kernel takes, in its order; addresses, elements to the next row and column, numbers, flags."""

    a: int = 0
    b: int = 0
    a_list: int = 0
    b_list: int = 0
    pivots: int = 0
    info: int = 0
    alpha_at: int = 0
    alpha: bytes = bytes(16)
    a_row: int = 1
    a_column: int = 0
    b_row: int = 1
    b_column: int = 0
    n: int = 0
    columns: int = 0
    conjugated: bool = False
    lower: bool = False
    unit: bool = False
    factored: bool = False
    transposed: bool = False
    from_unit: bool = False


def _launch(driver: Driver, handle: Handle, name: str, kind: int, what: _System, batches: int = 1) -> None:
    fail_if(min(what.n, what.columns, batches) < 0 or what.a_column < 0, ResultCode.INVALID_VALUE)
    fail_if(batches > _MOST_BATCHES, ResultCode.NOT_SUPPORTED)
    if not (what.n and what.columns and batches):
        return
    letters = KINDS[kind][0]
    found = kernel(driver, "solve.cu", f"gpusim_{name}_{letters}", T=letters, FACTOR=int(name == "getrf"))
    grid = 1 if name == "getrf" else -(-what.columns // _THREADS), batches, 1
    values = struct.pack("<7Q16s4q8i", *astuple(what))
    launch = describe(driver, found, grid, (_THREADS, 1, 1), 0, values=values)
    driver.enqueue(driver.stream_of(handle.stream), launch)


def _declare(letter: str, kind: int) -> None:
    def trsm(driver: Driver, handle: Handle, *x: int, batches: int = 1, lists: bool = False) -> None:
        right, uplo, operation, diagonal, m, n, alpha, a, lda, b, ldb = x
        fail_if(lda < max(1, n if right else m) or ldb < max(1, m) or not alpha, ResultCode.INVALID_VALUE)
        what = _System(n=m, columns=n, conjugated=operation == _CONJUGATED, unit=diagonal == _UNIT)
        # From the right, X op(A) = B is op(A) transposed times X transposed.
        flipped = bool(operation) != bool(right)
        what.a_row, what.a_column = (lda, 1) if flipped else (1, lda)
        what.lower = (uplo == _LOWER) != flipped
        what.b_row, what.b_column = (ldb, 1) if right else (1, ldb)
        if right:
            what.n, what.columns = n, m
        if handle.pointer_mode:
            what.alpha_at = alpha
        else:
            what.alpha = read(alpha, KINDS[kind][1]).ljust(16, b"\0")
        if lists:
            what.a_list, what.b_list = a, b
        else:
            what.a, what.b = a, b
        _launch(driver, handle, "trsm", kind, what, batches)

    def trsm_batched(driver: Driver, handle: Handle, *x: int) -> None:
        trsm(driver, handle, *x[:11], batches=x[11], lists=True)

    def getrf(driver: Driver, handle: Handle, n: int, a: int, lda: int, pivots: int, info: int, batches: int) -> None:
        what = _System(a_list=a, a_column=lda, n=n, columns=n, pivots=pivots, info=info)
        _launch(driver, handle, "getrf", kind, what, batches)

    def getrs(driver: Driver, handle: Handle, operation: int, n: int, columns: int, *x: int) -> None:
        a, lda, pivots, b, ldb, info, batches = x
        steps = (lda, 1) if operation else (1, lda)
        what = _System(0, 0, a, b, pivots, 0, 0, _one(kind), *steps, 1, ldb, n, columns, factored=True)
        what.conjugated, what.transposed = operation == _CONJUGATED, bool(operation)
        _launch(driver, handle, "getrs", kind, what, batches)
        put_int(info, 0)

    def getri(driver: Driver, handle: Handle, n: int, *x: int) -> None:
        a, lda, pivots, c, ldc, info, batches = x
        what = _System(0, 0, a, c, pivots, info, 0, _one(kind), 1, lda, 1, ldc, n, n, factored=True, from_unit=True)
        _launch(driver, handle, "getri", kind, what, batches)

    plain = f"cublas{letter}"
    routine(f"{plain}trsm_v2", "iiii nn p pn pn")(trsm)
    routine(f"{plain}trsmBatched", "iiii nn p pn pn n")(trsm_batched)
    routine(f"{plain}getrfBatched", "n pn p p n", wide=False)(getrf)
    routine(f"{plain}getrsBatched", "i nn pn p pn p n", wide=False)(getrs)
    routine(f"{plain}getriBatched", "n pn p pn p n", wide=False)(getri)


def _one(kind: int) -> bytes:
    return ONE[kind].ljust(16, b"\0")


for _letter, _kind in LETTERS.items():
    _declare(_letter, _kind)
