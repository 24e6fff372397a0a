"""From rows of the engine's log to lines of an Accel-Sim trace, in compiled code: text goes into a buffer of bytes, at
`n`, and every function returns where the next byte goes."""

import numpy as np

from gpusim.engine.sm.log_operands import BULK_BARRIER, BULK_BLOCKS, BULK_BYTES, BULK_RANGES, RANGES
from gpusim.engine.state import layout as L
from gpusim.engine.state.jit import compiled
from gpusim.tracing.accel_lines import BULK, LANES, NO_VALUE, PLAIN, ZERO_VALUE

LONGEST = 6 * 32 * 20
"""Bytes of a line but for its ranges: values of five registers and 32 addresses."""
PIECE_WARP, PIECE_LINES, PIECE_END, PIECE_FIELDS = range(4)
#: How the reader takes addresses (enum address_format): the first and a stride, the first and differences, and the
#: same for bulk copies.
_STRIDE, _DELTA, _BULK_DELTA = 1, 2, 4
_SPACE, _MINUS, _ZERO, _X, _A, _LINE_END = 32, 45, 48, 120, 97, 10
_NO_STRIDE = 1 << 40
_UNIT = 16  # bytes at an address of a bulk copy, at most: what the reader can take as one access


@compiled
def put_text(out: np.ndarray, n: int, text: np.ndarray, first: int, end: int) -> int:
    for k in range(first, end):
        out[n] = text[k]
        n += 1
    return n


@compiled
def put_number(out: np.ndarray, n: int, value: int) -> int:
    """A decimal number and a space."""
    if value < 0:
        out[n] = _MINUS
        n += 1
        value = -value
    digits = 1
    limit = 10
    while digits < 19 and value >= limit:
        digits += 1
        limit *= 10
    for k in range(n + digits - 1, n - 1, -1):
        out[k] = _ZERO + value % 10
        value //= 10
    out[n + digits] = _SPACE
    return n + digits + 1


@compiled
def put_hex(out: np.ndarray, n: int, value: int, digits: int) -> int:
    """A hexadecimal number of at least so many digits, and a space."""
    while digits < 16 and value >> (4 * digits) != 0:
        digits += 1
    for k in range(n + digits - 1, n - 1, -1):
        digit = value & 15
        out[k] = _ZERO + digit if digit < 10 else _A + digit - 10
        value >>= 4
    out[n + digits] = _SPACE
    return n + digits + 1


@compiled
def put_address(out: np.ndarray, n: int, value: int) -> int:
    out[n] = _ZERO
    out[n + 1] = _X
    return put_hex(out, n + 2, value, 1)


@compiled
def stride_of(addresses: np.ndarray, mask: int) -> int:
    """The distance of neighbours if the lanes in `mask` lie side by side, two at least, and their addresses equally far
    apart, as a number of 32 bits; else _NO_STRIDE."""
    first = 0
    while (mask >> first) & 1 == 0:
        first += 1
    stride = addresses[min(first + 1, 31)] - addresses[first]
    lanes = mask >> first
    if lanes & 2 == 0 or lanes & (lanes + 1) != 0 or stride != ((stride + 0x80000000) & 0xFFFFFFFF) - 0x80000000:
        return _NO_STRIDE
    for lane in range(first + 2, 32):
        if (mask >> lane) & 1 and addresses[lane] - addresses[lane - 1] != stride:
            return _NO_STRIDE
    return stride


@compiled
def put_lanes(out: np.ndarray, n: int, addresses: np.ndarray, mask: int) -> int:
    """The addresses of the lanes in `mask`, as the reader wants them: none as one that is zero."""
    if mask == 0:
        return put_number(out, put_address(out, put_number(out, n, _STRIDE), 0), 0)
    stride = stride_of(addresses, mask)
    regular = stride != _NO_STRIDE
    n = put_number(out, n, _STRIDE if regular else _DELTA)
    before = -1
    for lane in range(32):
        if (mask >> lane) & 1:
            if before < 0:
                n = put_address(out, n, addresses[lane])
                if regular:
                    return put_number(out, n, stride)
            else:
                n = put_number(out, n, addresses[lane] - addresses[before])
            before = lane
    return n


@compiled
def bulk_unit(lanes: np.ndarray, k: int) -> int:
    """Bytes at each address of a bulk copy: so many that all its ranges begin and end between two of them."""
    bits = _UNIT
    for r in range(lanes[k, BULK_RANGES]):
        row = lanes[k + 1 + r // RANGES]
        bits |= row[2 * (r % RANGES)] | row[2 * (r % RANGES) + 1]
    return bits & -bits


@compiled
def put_bulk(out: np.ndarray, n: int, lanes: np.ndarray, k: int, mask: int) -> int:
    """Width, mbarrier, whether it goes to several blocks and to which, bytes, those of them that lie outside of the
    tensor, and the addresses in global memory, each of so many bytes as the width says."""
    if mask == 0 or k < 0:
        n = put_hex(out, put_number(out, n, _UNIT), 0, 1)
        for _ in range(3):
            n = put_number(out, n, 0)
        n = put_number(out, n, _BULK_DELTA)
        return put_number(out, put_address(out, n, 0), 0)
    head = lanes[k]
    unit = bulk_unit(lanes, k)
    inside = 0
    for r in range(head[BULK_RANGES]):
        inside += lanes[k + 1 + r // RANGES, 2 * (r % RANGES) + 1]
    n = put_hex(out, put_number(out, n, unit), head[BULK_BARRIER], 1)
    n = put_number(out, n, int(head[BULK_BLOCKS] != 0))
    if head[BULK_BLOCKS] != 0:
        n = put_hex(out, n, head[BULK_BLOCKS], 1)
    n = put_number(out, n, head[BULK_BYTES])
    n = put_number(out, n, head[BULK_BYTES] - inside if head[BULK_RANGES] > 0 else 0)
    n = put_number(out, n, _BULK_DELTA)
    n = put_address(out, n, lanes[k + 1, 0] if head[BULK_RANGES] > 0 else 0)
    n = put_number(out, n, inside // unit)
    before = -1
    for r in range(head[BULK_RANGES]):
        row = lanes[k + 1 + r // RANGES]
        for address in range(row[2 * (r % RANGES)], row[2 * (r % RANGES)] + row[2 * (r % RANGES) + 1], unit):
            if before >= 0:
                n = put_number(out, n, address - before)
            before = address
    return n


@compiled
def put_values(out: np.ndarray, n: int, lanes: np.ndarray, k: int, what: int) -> int:
    """Values of a register: how many are told, one if all lanes have the same, and each in hexadecimal."""
    if what == ZERO_VALUE:
        return put_hex(out, put_number(out, n, 1), 0, 8)
    row = lanes[k + what - ZERO_VALUE - 1]
    count = 1
    for lane in range(1, 32):
        if row[lane] != row[0]:
            count = 32
    n = put_number(out, n, count)
    for lane in range(count):
        n = put_hex(out, n, row[lane], 8)
    return n


# many parameters: the log of an SM, the lines of the program, and where the text goes.
@compiled
def put_lines(
    rows: np.ndarray,
    order: np.ndarray,
    start: int,
    lanes: np.ndarray,
    text: np.ndarray,
    at: np.ndarray,
    kind: np.ndarray,
    width: np.ndarray,
    values: np.ndarray,
    out: np.ndarray,
    pieces: np.ndarray,
) -> tuple[int, int]:
    """Writes the issues rows[order[start:]], which go by warp, as lines. Those of a warp are a piece: its number, their
    number, and where they end.

    Returns (place in `order` of the first row for which there was no room, number of pieces).
    """
    n = 0
    count = -1
    for k in range(start, order.size):
        row = rows[order[k]]
        i = row[L.V_PC]
        access = row[L.V_ACCESS]
        bulk = kind[i] == BULK and access >= 0
        room = LONGEST + at[i, 3] - at[i, 0]
        if bulk:
            room += lanes[access, BULK_BYTES] * 4 + max(lanes[access, BULK_RANGES], 0) * 20
        if n + room > out.size:
            return k, count + 1
        if count < 0 or pieces[count, PIECE_WARP] != row[L.V_WARP]:
            if count + 1 == pieces.shape[0]:
                return k, count + 1
            count += 1
            pieces[count, PIECE_WARP] = row[L.V_WARP]
            pieces[count, PIECE_LINES] = 0
        mask = row[L.V_GUARDED] & 0xFFFFFFFF
        n = put_text(out, n, text, at[i, 0], at[i, 1])
        n = put_hex(out, n, mask, 8)
        n = put_text(out, n, text, at[i, 1], at[i, 2])
        if kind[i] == BULK:
            n = put_bulk(out, n, lanes, access, mask)
        elif kind[i] == LANES and (mask == 0 or access >= 0):
            n = put_lanes(out, put_number(out, n, width[i]), lanes[max(access, 0)], mask)
        else:
            n = put_number(out, n, PLAIN)
        n = put_text(out, n, text, at[i, 2], at[i, 3])
        for register in range(values.shape[1]):
            if values[i, register] != NO_VALUE:
                n = put_values(out, n, lanes, row[L.V_VALUES], values[i, register])
        out[n] = _LINE_END
        n += 1
        pieces[count, PIECE_LINES] += 1
        pieces[count, PIECE_END] = n
    return order.size, count + 1
