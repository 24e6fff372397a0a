"""Device memory: pseudo channels with their own data bus, banks with one open row each, and writes drained in batches.

Each bus and each bank is booked in the order in which requests are visited, but separately: a request that waits
for its bank leaves the bus to others, as a scheduler that reorders does. Banks are refreshed one after the other, each
at its own time: an H200 delays one load in eight by up to 540 cycles, evenly spread, however idle it is. Where others
are under way it delays two in eight, and no more under any load (`memory_load`, p90): the next read of a channel waits
with one that waits for its bank, those behind it pass. A read meets the refresh of its turn at the bus: of 2 to 4 MB
that all SMs of an H200 ask for at once the last SM has its data 425 cycles behind their mean.
"""

from gpusim.engine.state import compiled, ms
from gpusim.engine.state.address_map import memory_location, spread

_REFRESH_LINES = 3  # of a slice whose banks have one number, as a power of two: 96 KiB of all slices


@compiled
def refreshed(m, slice_, quotient, now):
    """Return when a line wanted at `now` is out of its refresh, which banks of one number of some channels share.

    H200, of two lines of which one is late: the other is too if they are of one slice, one time in three otherwise, up
    to 32 KiB apart, and from 64 KiB on as if they had nothing to do with each other.
    """
    interval = m[ms.P_REFRESH_INTERVAL]
    groups = m[ms.P_REFRESH_GROUPS]
    bank = (quotient >> _REFRESH_LINES) * groups + spread(slice_, groups)
    since = (now + spread(bank, interval)) % interval
    return now + max(m[ms.P_REFRESH] - since, 0)


@compiled
def bank_access(m, bank, row, asked, now, bus_time):
    """Book an access to `row`, asked for at one time and possible from `now` on; return the time of its column command.

    An open row costs nothing, an idle bank the activation, another open row the precharge too; two activations of a
    bank are a row cycle apart, two of a channel an activation interval. A bank that has been idle for
    `row_idle_cycles` has closed its row.
    """
    b = m[ms.P_BANK_STATES] + bank * ms.BANK_WORDS
    column = m[b + ms.BANK_COLUMN_AT]
    awake = now - column <= m[ms.P_ROW_IDLE]
    if awake and m[b + ms.BANK_ROW] == row + 1:
        m[ms.CNT_ROW_HITS] += 1
        column = max(column, now)
    else:
        start = now
        if awake and m[b + ms.BANK_ROW] != 0:
            m[ms.CNT_ROW_CONFLICTS] += 1
            start = max(column, now) + m[ms.P_PRECHARGE]
        else:
            m[ms.CNT_ROW_OPENS] += 1
        active = m[ms.P_CHANNEL_STATES] + bank // m[ms.P_BANKS] * ms.CHANNEL_WORDS + ms.CHANNEL_ACTIVATE
        turn = max(m[active], asked)  # not behind those that wait for their banks
        m[active] = turn + m[ms.P_ACTIVATE_INTERVAL]
        start = max(start, max(m[b + ms.BANK_ACTIVATE_AT], turn))
        m[b + ms.BANK_ACTIVATE_AT] = start + m[ms.P_ROW_CYCLE]
        m[b + ms.BANK_ROW] = row + 1
        column = start + m[ms.P_ACTIVATE]
    m[b + ms.BANK_COLUMN_AT] = column + bus_time
    return column


@compiled
def read_memory(m, slice_, quotient, sectors, now):
    """Read sectors of a line at `now`; return the ticks it takes longer than from an open row over an idle bus."""
    channel, bank, row = memory_location(m, slice_, quotient)
    bus_time = sectors * m[ms.P_BURST]
    c = m[ms.P_CHANNEL_STATES] + channel * ms.CHANNEL_WORDS
    free = max(m[c + ms.CHANNEL_FREE] + m[c + ms.CHANNEL_WRITING] * m[ms.P_WRITE_TO_READ], now)
    m[c + ms.CHANNEL_WRITING] = 0
    own = refreshed(m, slice_, quotient, free)  # when its turn at the bus comes
    begin = max(own if own > free else now, m[c + ms.CHANNEL_HELD])  # behind what the read before it waits for, too
    m[c + ms.CHANNEL_HELD] = own if own > free else 0
    column = bank_access(m, bank, row, now, begin, bus_time)
    m[c + ms.CHANNEL_SECTORS] += sectors
    m[c + ms.CHANNEL_FREE] = free + bus_time
    return max(free, column) - now


@compiled
def write_memory(m, slice_, quotient, sectors, now):
    """Queue `sectors` sectors of a line to be written; return how long the sender must wait for room.

    A full batch takes the bus at once, with the turn of the bus if reads came before it.
    """
    channel, bank, row = memory_location(m, slice_, quotient)
    bank_access(m, bank, row, now, refreshed(m, slice_, quotient, now), sectors * m[ms.P_BURST])
    m[ms.CNT_WRITEBACK_SECTORS] += sectors
    c = m[ms.P_CHANNEL_STATES] + channel * ms.CHANNEL_WORDS
    m[c + ms.CHANNEL_SECTORS] += sectors
    m[c + ms.CHANNEL_QUEUED] += sectors
    if m[c + ms.CHANNEL_QUEUED] >= m[ms.P_DRAIN_SECTORS]:
        free = m[c + ms.CHANNEL_FREE]
        if m[c + ms.CHANNEL_WRITING] == 0:
            m[c + ms.CHANNEL_WRITING] = 1
            free += m[ms.P_READ_TO_WRITE]
        m[c + ms.CHANNEL_FREE] = max(free, now) + m[c + ms.CHANNEL_QUEUED] * m[ms.P_BURST]
        m[c + ms.CHANNEL_QUEUED] = 0
        m[ms.CNT_DRAINS] += 1
    return max(m[c + ms.CHANNEL_FREE] - now - m[ms.P_WRITE_SLACK], 0)
