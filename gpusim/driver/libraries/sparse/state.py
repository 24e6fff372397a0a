"""Objects behind cuSPARSE's handles, and the start of a kernel with what a call is given."""

from __future__ import annotations

import struct
from math import ceil
from types import SimpleNamespace
from typing import Any, Self

from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas import kernels
from gpusim.driver.libraries.blas.product import BF16, C32, C64, F16, F32, F64, KINDS, Scalars

CSR, CSC, COO, BSR = 1, 2, 3, 6  # cusparseFormat_t
INDICES = {2: ("i32", 4), 3: ("i64", 8)}
"""Name in CUDA C++ and bytes of an index, by cusparseIndexType_t."""
WHOLE = {F64: F64, C32: C32, C64: C64}
"""Types that elements are computed in, by their own; those of others are floats."""
_BY_ROWS, _CONJUGATED = 2, 2  # CUSPARSE_ORDER_ROW, cusparseOperation_t
_COMPUTED = (F32, F64, C32, C64, F16, BF16)
_OF_ORDER = ("sort_tiles", "merge_runs", "unpack", "compress", "expand", "count_up")
_THREADS = 256


class _Named(SimpleNamespace):
    """Values by the names in `functions.txt`."""

    def but(self, **changed: Any) -> Self:
        return type(self)(**vars(self) | changed)


class SparseDescriptor(_Named):
    """A descriptor of any kind: a matrix or vector, the attributes of one, the state of a product. role: its letter in
    `functions.txt`. rows, columns, count: of BSR those of blocks. offsets: of COO the rows. stride, line_stride: from a
    matrix of a batch to the next, of elements and of offsets. result: of a product, with sums for values."""

    role, result = "", None
    format = columns = count = leading = offsets = indices = values = offset_kind = base = kind = 0
    stride = line_stride = fill = diagonal = type = room = 0
    rows = block = block_columns = order = batches = 1
    index_kind = 2

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of elements."""
        return self.rows * self.block, self.columns * self.block

    def taken(self, operation: int) -> SparseDescriptor:
        """Return op() of a dense matrix."""
        turned = {"rows": self.columns, "columns": self.rows, "order": 3 - self.order}
        return self.but(**turned) if operation else self

    def packed(self) -> bytes:
        """`Matrix` of `matrix.cuh`."""
        lines = {CSR: self.rows, BSR: self.rows, CSC: self.columns}.get(self.format, 0)
        leading = self.leading or self.block
        steps = (leading, 1) if self.order == _BY_ROWS else (1, leading)
        numbers = lines, self.count, self.base, self.block, *steps
        strides = self.stride if self.format == COO else self.line_stride, self.stride
        return struct.pack("<3Q8q", self.offsets, self.indices, self.values, *numbers, *strides)


class SparseCall(_Named):
    """What a call is given, and what a kernel is: matrices a, b, c sparse, x, y dense; extents m, n, k; addresses room
    and more; turned, whether lines are columns of what is taken of a matrix."""

    a = b = c = x = y = SparseDescriptor()
    op = op_x = op_y = alpha = beta = room = more = turned = order = base = kind = columns = 0
    extents = 0, 0, 0
    compute = -1

    def start(self, run: str, items: int, across: tuple[int, int] = (1, 1), **macros: int) -> None:
        """Start a kernel by the name of its function. items: threads, in blocks of 256, or blocks where THREADS says of
        how many. across: blocks in y and z."""
        first = self.a if self.a.role else self.c
        last = self.c if self.c.role else self.y if self.y.role else first
        kinds = [first.kind, (self.x if self.x.role else first).kind, last.kind]
        kinds.append(WHOLE.get(last.kind, F32) if self.compute < 0 else self.compute)
        indices = [INDICES.get(each, ("",))[0] for each in (first.offset_kind or first.index_kind, first.index_kind)]
        unknown = kinds[3] not in _COMPUTED or not {*kinds} <= KINDS.keys() or "" in indices
        unknown = unknown or (first.format == BSR and not macros.get("BLOCKED"))
        fail_if(unknown, ResultCode.NOT_SUPPORTED, "the stand-in for cuSPARSE does not have this with these types")
        blocks = items if "THREADS" in macros else ceil(items / _THREADS)
        threads, names = macros.pop("THREADS", _THREADS), [KINDS[each][0] for each in kinds]
        if not blocks:
            return
        values = b"".join(each.packed() for each in (self.a, self.b, self.c, self.x, self.y))
        values += Scalars(kinds[3], self.alpha, self.beta, bool(self.handle.pointer_mode)).packed()
        conjugated = sum((op == _CONJUGATED) << bit for bit, op in enumerate((self.op, self.op_x, self.op_y)))
        values += struct.pack("<3q2Q2q", *self.extents, self.room, self.more, self.turned, conjugated)
        given = dict(zip(("TA", "TB", "TC", "TS", "IO", "II"), (*names, *indices), strict=True))
        file = "../sparse/order.cu" if run in _OF_ORDER else "../sparse/sparse.cu"
        where = self.handle.stream, file, f"gpusim_sparse_{run}_{names[0]}"
        kernels.run(self.driver, *where, (blocks, *across), threads, values, 0, RUN=run, **given, **macros)
