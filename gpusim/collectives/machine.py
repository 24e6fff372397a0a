"""The compiled machine: actors, connections and links in order of time.

An actor takes its next operation when the slices it receives have come and its destinations have room; it then works
for the operation's cost and hands packets to the links of each destination's path, which serve packets one at a time in
the order in which they are handed over. A packet occupies the links of its path one behind the other, each from when
the one before has begun to pass it on. A flag, and a credit back, waits for the packets that are on its links.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.state.jit import compiled_with_arrays

#: Columns of an actor's state.
A_TABLE, A_AT, A_STATE, A_WAITS, A_SLOT = range(5)
WAITING, WORKING, FENCED = 0, 1, 2


@compiled_with_arrays
def _push(heap_time, heap_who, n, time, who):
    i = n
    while i > 0:
        p = (i - 1) >> 1
        if heap_time[p] < time or (heap_time[p] == time and heap_who[p] <= who):
            break
        heap_time[i] = heap_time[p]
        heap_who[i] = heap_who[p]
        i = p
    heap_time[i] = time
    heap_who[i] = who
    return n + 1


@compiled_with_arrays
def _pop(heap_time, heap_who, n):
    n -= 1
    time, who = heap_time[n], heap_who[n]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= n:
            break
        d = c + 1
        if d < n and (heap_time[d] < heap_time[c] or (heap_time[d] == heap_time[c] and heap_who[d] < heap_who[c])):
            c = d
        if time < heap_time[c] or (time == heap_time[c] and who <= heap_who[c]):
            break
        heap_time[i] = heap_time[c]
        heap_who[i] = heap_who[c]
        i = c
    heap_time[i] = time
    heap_who[i] = who
    return n


@compiled_with_arrays
def run(
    operations,  # float64[n, 5], all tables behind each other
    table_start,  # int64[tables + 1]
    actor_table,  # int64[actors]
    actor_sm,  # int64[actors]: actors of one SM share its data path
    sources,  # int64[actors, 3]
    destinations,  # int64[actors, 3]
    sender,  # int64[connections]
    receiver,  # int64[connections]
    path_start,  # int64[connections + 1]
    path,  # int64[...]: links of each connection
    back_start,  # int64[connections + 1]
    back,  # int64[...]: links that credits take
    latency,  # float64[connections], microseconds of a flag, and of a credit, on links without other traffic
    rate,  # float64[links], bytes a microsecond
    depth,
    wire,
    step_us,
    fence_us,
    packet,
    window,
    acknowledged,  # share of the bytes that goes back as acknowledgements
    log,  # float64[rows, 4]: actor, operation, start, end; no rows: not recorded
    bins,  # float64[links, bins]: bytes handed over by time
    bin_us,
):
    """Returns (microseconds until the last actor ends, float64[links] bytes, float64[links] busy microseconds,
    microseconds at which each actor ends, events, actors that have not ended)."""
    actors, links = len(actor_table), len(rate)
    at = np.zeros(actors, np.int64)
    state = np.zeros(actors, np.int64)
    left = np.zeros(actors)
    began = np.zeros(actors)
    asleep = np.zeros(actors, np.bool_)
    ended = np.full(actors, -1.0)
    connections = len(sender)
    sent = np.zeros(connections, np.int64)
    received = np.zeros(connections, np.int64)
    seen_at = np.zeros((connections, depth))
    free_at = np.zeros((connections, depth))
    through = np.zeros((actors, window))
    turn = np.zeros(actors, np.int64)
    link_free = np.zeros(links)
    sm_free = np.zeros(actor_sm.max() + 1)
    moved = np.zeros(links)
    heap_time = np.zeros(2 * actors + 4)
    heap_who = np.zeros(2 * actors + 4, np.int64)
    waiting = 0
    for a in range(actors):
        at[a] = table_start[actor_table[a]]
        waiting = _push(heap_time, heap_who, waiting, 0.0, a)
    end, events, rows = 0.0, 0, 0
    while waiting:
        time, a = heap_time[0], heap_who[0]
        waiting = _pop(heap_time, heap_who, waiting)
        events += 1
        k = at[a]
        if k >= table_start[actor_table[a] + 1]:
            ended[a] = time
            end = max(end, time)
            continue
        takes, gives = int(operations[k, 0]), int(operations[k, 1])
        if state[a] == WAITING:
            ready, blocked = time, False
            for i in range(3):
                if takes >> i & 1:
                    c = sources[a, i]
                    if received[c] >= sent[c]:
                        blocked = True
                    else:
                        ready = max(ready, seen_at[c, received[c] % depth])
                if gives >> i & 1:
                    c = destinations[a, i]
                    if sent[c] - received[c] >= depth:
                        blocked = True
                    elif sent[c] >= depth:
                        ready = max(ready, free_at[c, sent[c] % depth])
            if blocked:
                asleep[a] = True
                continue
            state[a] = WORKING
            left[a] = operations[k, 2]
            began[a] = ready
            waiting = _push(heap_time, heap_who, waiting, ready + step_us, a)
            continue
        if state[a] == WORKING:
            alone = operations[k, 4] == 0.0
            if not gives and alone:
                state[a] = FENCED
                waiting = _push(heap_time, heap_who, waiting, time + left[a] * operations[k, 3], a)
                continue
            part = min(left[a], packet)
            made = time + part * operations[k, 3]
            if not alone:
                sm_free[actor_sm[a]] = max(sm_free[actor_sm[a]], time) + part * operations[k, 4]
                made = max(made, sm_free[actor_sm[a]])
            if gives:
                made = max(made, through[a, turn[a]])
            last = made
            for i in range(3):
                if gives >> i & 1:
                    c = destinations[a, i]
                    start = made
                    done = made
                    for p in range(path_start[c], path_start[c + 1]):
                        link = path[p]
                        start = max(start, link_free[link])
                        done = max(done, start + part * wire / rate[link])
                        if bins.shape[1]:
                            bins[link, min(int(start / bin_us), bins.shape[1] - 1)] += part * wire
                        link_free[link] = start + part * wire / rate[link]
                        moved[link] += part * wire
                    for p in range(back_start[c], back_start[c + 1]):
                        link_free[back[p]] = max(link_free[back[p]], made) + part * acknowledged / rate[back[p]]
                    last = max(last, done)
            if gives:
                through[a, turn[a]] = last
                turn[a] = (turn[a] + 1) % window
                last += fence_us
            left[a] -= part
            if left[a] <= 0.0:
                state[a] = FENCED
                waiting = _push(heap_time, heap_who, waiting, last, a)
            else:
                waiting = _push(heap_time, heap_who, waiting, made, a)
            continue
        for i in range(3):
            if gives >> i & 1:
                c = destinations[a, i]
                arrival = time
                for p in range(path_start[c], path_start[c + 1]):
                    arrival = max(arrival, link_free[path[p]])
                seen_at[c, sent[c] % depth] = arrival + latency[c]
                sent[c] += 1
                other = receiver[c]
                if asleep[other]:
                    asleep[other] = False
                    waiting = _push(heap_time, heap_who, waiting, time, other)
            if takes >> i & 1:
                c = sources[a, i]
                arrival = time
                for p in range(back_start[c], back_start[c + 1]):
                    arrival = max(arrival, link_free[back[p]])
                free_at[c, received[c] % depth] = arrival + latency[c]
                received[c] += 1
                other = sender[c]
                if asleep[other]:
                    asleep[other] = False
                    waiting = _push(heap_time, heap_who, waiting, time, other)
        if rows < len(log):
            log[rows, 0] = a
            log[rows, 1] = k
            log[rows, 2] = began[a]
            log[rows, 3] = time
            rows += 1
        state[a] = WAITING
        at[a] += 1
        waiting = _push(heap_time, heap_who, waiting, time, a)
    stuck = 0
    for a in range(actors):
        if ended[a] < 0.0:
            stuck += 1
    return end, moved, moved / rate, ended, events, stuck, rows
