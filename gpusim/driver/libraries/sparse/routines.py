"""What cuSPARSE's functions do with matrices, each by its name in `functions.txt`."""

from __future__ import annotations

from typing import Any

from gpusim.driver.caller import get_pointer, put_int, put_pointer
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.libraries.blas.product import F32, KINDS
from gpusim.driver.libraries.sparse.state import BSR, COO, CSC, CSR, INDICES, WHOLE, SparseCall, SparseDescriptor

_MOST_BLOCKS = 528
"""Blocks that merge rows."""
_TILE, _ITEM = 512, 16
"""Items that a block sorts, and bytes of each."""


def room_of_items(call: SparseCall) -> int:
    """Bytes for so many items of so many bytes."""
    return call.bytes_each * call.count or 8


def _power(number: float, most: int) -> int:
    """The first power of two that is not less, but for the most."""
    return min(most, 1 << max(int(number) - 1, 0).bit_length())


def _by_lines(call: SparseCall) -> bool:
    """Whether the rows of op(A) are lines."""
    return call.a.format != COO and (call.a.format == CSC) == bool(call.op)


def room_of_product(call: SparseCall) -> int:
    """Bytes for sums, if they do not come line by line."""
    sums = call.y.rows * call.y.columns * call.y.batches
    return 0 if _by_lines(call) else sums * KINDS[WHOLE.get(call.compute, F32)][1]


def product(call: SparseCall) -> None:
    """Y = alpha op(A) op(X) + beta Y."""
    a, y, x, n = call.a, call.y, call.x.taken(call.op_x), call.y.columns
    m, k = a.extents[:: -1 if call.op else 1]
    fail_if((y.rows, x.rows, x.columns) != (m, k, n), ResultCode.INVALID_VALUE)
    if not (m and n):
        return
    call = call.but(x=x, extents=(m, n, k), turned=(a.format == CSC) != bool(call.op))
    across, each = _power(n, 32), 4 if n >= 128 else 2 if n >= 64 else 1
    if _by_lines(call):
        along = _power(a.count * a.block / max(m // a.block, 1) / 2, 32 // across)
        macros = {"ALONG": along, "ACROSS": across, "EACH": each, "BLOCKED": int(a.format == BSR)}
        call.start("rows", m * along * across, (-(-n // (across * each)), y.batches), **macros)
    else:
        fail_if(not call.room, ResultCode.INVALID_VALUE)
        call.but(extents=(m * n * y.batches, 0, 0)).start("zeros", m * n * y.batches)
        call.start("scatter", a.count * across, (1, y.batches), ACROSS=across)
        call.start("finish", m * n, (1, y.batches))


def _own(call: SparseCall, prefix: str = "", **changed: Any) -> SparseDescriptor:
    """A matrix of the older interface, of the call's own arguments or of those with a prefix."""
    given = {name: getattr(call, prefix + name, 0) for name in ("count", "offsets", "indices", "values")}
    base = getattr(call, f"of_{prefix[:1]}", call).base
    given |= {"rows": call.rows, "columns": call.columns, "base": base, "kind": max(call.compute, 0)}
    return SparseDescriptor(role="S", format=CSR, **given).but(**changed)


def product_of_blocks(call: SparseCall) -> None:
    """The same with blocks, of the older interface."""
    rows, inner, columns = call.rows * call.block, call.block_columns * call.block, call.columns
    a = _own(call, "a_", format=BSR, columns=call.block_columns, block=call.block, order=2 - call.order)
    x = SparseDescriptor(role="D", rows=inner, columns=columns, values=call.x_values, kind=call.compute)
    x = x.but(leading=call.x_leading, **({"rows": columns, "columns": inner} if call.op_x else {}))
    product(call.but(a=a, x=x, y=x.but(rows=rows, columns=columns, leading=call.y_leading, values=call.y_values)))


def sampled_product(call: SparseCall) -> None:
    """C = alpha op(X) op(Y) + beta C, where C has elements."""
    x, y, c = call.x.taken(call.op_x), call.y.taken(call.op_y), call.c
    fail_if((x.rows, y.columns) != c.extents or x.columns != y.rows or x.kind != y.kind, ResultCode.INVALID_VALUE)
    along = _power(x.columns / 2, 32)
    call = call.but(x=x, y=y, extents=(*c.extents, x.columns), turned=c.format == CSC)
    call.start("sampled", c.count * along, (1, c.batches), ALONG=along)


def solve(call: SparseCall) -> None:
    """op(A) Y = alpha op(X), where A is triangular."""
    a, x, y, turned = call.a, call.x.taken(call.op_x), call.y, call.a.format == CSC
    fail_if((x.rows, x.columns) != (y.rows, y.columns) or a.extents != (y.rows, y.rows), ResultCode.INVALID_VALUE)
    call = call.but(x=x, extents=(a.rows, int((a.fill == 0) != turned), a.diagonal), turned=turned != bool(call.op))
    call.start("solve", y.columns, ALONG=32, THREADS=32)


def room_of_merging(call: SparseCall | SparseDescriptor) -> int:
    """Bytes for where rows begin."""
    return 8 * (call.rows + 1)


def _number(call: SparseCall, address: int) -> int:
    """Return a number that the stream's kernels leave in memory."""
    call.driver.wait_for(call.driver.stream_of(call.handle.stream).not_capturing())
    return get_pointer(address)


def _merge(call: SparseCall, filling: int, summed: int = 0) -> None:
    """Write where the rows of C begin, or fill in their elements."""
    rows = call.c.rows
    call = call.but(extents=(rows, call.c.columns, 0))
    call.start("merge", min(rows, _MOST_BLOCKS), SUMMED=summed, FILLING=filling, THREADS=64)
    if not filling:
        call.start("offsets", 1, THREADS=1024)


def multiply_sparse(call: SparseCall) -> None:
    """C = alpha A B + beta C. Count elements in the first buffer, which is for `merge` and the offsets; compute them in
    the second, sums and then indices; copy them to the memory that C has been given."""
    a, b, c, state = call.a, call.b, call.c, call.state
    fail_if((a.rows, a.columns, b.columns) != (c.rows, b.rows, c.columns), ResultCode.INVALID_VALUE)
    alike = {(each.format, each.kind, each.offset_kind, each.index_kind) for each in (a, b, c)}
    fail_if(call.op or call.op_x or len(alike) > 1 or a.format != CSR, ResultCode.NOT_SUPPORTED)
    fail_if(call.phase and state.result is None, ResultCode.INVALID_VALUE)
    result, count = (state.result, state.result.count) if call.phase else (c, 0)
    if call.phase == 2:
        call.but(a=result, extents=(c.rows, 0, 0)).start("finish_elements", max(count, c.rows + 1))
        return
    sums, merging = -(-count * KINDS[WHOLE.get(call.compute, F32)][1] // 16) * 16, room_of_merging(c)
    sizes = merging + 8 * (c.rows + 1), sums + count * INDICES[c.index_kind][1] or 8
    put_pointer(call.size, sizes[call.phase])
    if call.room and call.phase:
        c.count, result.values, result.indices = count, call.room, call.room + sums
        _merge(call.but(c=result, room=state.room), 1)
    elif call.room:
        state.result, state.room = c.but(offsets=call.room + merging, count=0), call.room
        _merge(call.but(c=state.result), 0)
        state.result.count = _number(call, call.room + 8 * c.rows)


def add_matrices(call: SparseCall) -> None:
    """Count the elements of C = alpha A + beta B, or compute them."""
    _merge(call.but(**{name: _own(call, f"{name}_") for name in "abc"}), call.filling, 1)
    if not call.filling:
        put_int(call.total, _number(call, call.room + 8 * call.rows))


def move_vector(call: SparseCall) -> None:
    """Take the elements of a sparse vector A from Y, put them there, or Y = alpha A + beta Y."""
    fail_if(call.a.kind != call.y.kind, ResultCode.INVALID_VALUE)
    if call.run == "add_elements":
        call.but(extents=(call.y.rows, 1, 0)).start("finish", call.y.rows)
    call.start(call.run, call.a.count)


def to_dense(call: SparseCall) -> None:
    """Y = A."""
    fail_if((*call.a.extents, call.a.kind) != (call.y.rows, call.y.columns, call.y.kind), ResultCode.INVALID_VALUE)
    of = call.but(extents=(call.y.rows, call.y.columns, 0), turned=call.a.format == CSC)
    of.start("finish", call.y.rows * call.y.columns)
    of.start("to_dense", call.a.count)


def room_from_dense(call: SparseCall) -> int:
    """Bytes for where lines begin."""
    return 8 * (1 + max(call.x.rows, call.x.columns))


def from_dense(call: SparseCall) -> None:
    """Count what is not 0 in X, and write where C's lines begin, or fill C in."""
    fail_if((*call.c.extents, call.c.kind) != (call.x.rows, call.x.columns, call.x.kind), ResultCode.INVALID_VALUE)
    x = call.x.taken(call.c.format == CSC)
    call = call.but(x=x, extents=(x.rows, x.columns, 0))
    call.start("from_dense", 32 * x.rows, FILLING=call.filling)
    if not call.filling:
        call.start("offsets", 1, THREADS=1024)
        call.c.count = _number(call, call.room + 8 * x.rows)


def rewrite(call: SparseCall) -> None:
    """Write offsets or rows, from rows or offsets."""
    a = _own(call, format=call.format)
    call = call.but(a=a, c=a.but(offsets=call.to), extents=(call.rows, 0, 0))
    call.start(call.run, max(call.rows + 1, call.count))


def sort(call: SparseCall) -> None:
    """Put elements in order by rows or (turned) by columns, with the numbers that go with them, or in a copy, which
    makes CSC of CSR; a row's elements stay in order."""
    call, copy = call.but(a=_own(call, format=call.format, kind=call.kind), more=call.order), "to_offsets" in vars(call)
    count, here, there, width = call.count, call.room, call.room + _ITEM * call.count, _TILE
    fail_if(count and not here, ResultCode.INVALID_VALUE)
    lines, indices, values = call.offsets * (call.format == COO), call.indices, 0
    lines, indices = (indices, lines) if call.turned else (lines, indices)
    if copy:
        lines, indices, values = call.room + 2 * _ITEM * count, call.to_indices, call.to_values * call.with_values
    call.start("sort_tiles", -(-count // _TILE), THREADS=_TILE // 2)
    while width < count:
        call.but(extents=(count, width, 0), room=here, more=there).start("merge_runs", count)
        here, there, width = there, here, 2 * width
    to = call.a.but(offsets=lines, indices=indices, values=values)
    call.but(c=to, extents=(count, 0, 0), room=here).start("unpack", count)
    if copy:
        rewrite(call.but(run="compress", format=COO, rows=call.columns, offsets=lines, to=call.to_offsets))
