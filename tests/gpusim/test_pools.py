"""What an SM has a fixed number of: running out throttles, as the hardware would, or ends the run with an error.

Each pool is driven to its end, by a kernel that needs more than there is or by calls of what takes from it.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import gpusim
from gpusim.config import load_config
from gpusim.engine import launch_state
from gpusim.engine.launch_state import Capacity, build_state, constant_banks
from gpusim.engine.parameters import parameters
from gpusim.engine.sm.admission import ROOM
from gpusim.engine.sm.async_copy import keep_copy
from gpusim.engine.sm.bulk_effect import take_bulk
from gpusim.engine.sm.flight import FOR_MSHR, pop_event, push_event, send, take_token
from gpusim.engine.sm.lane_states import park
from gpusim.engine.sm.lines import defer, replace_line, take_mshr
from gpusim.engine.sm.queued import PATH_READ, keep
from gpusim.engine.sm.run_warp import finish_warp
from gpusim.engine.sm.sm import arrive
from gpusim.engine.sm.space import Access
from gpusim.engine.state import layout as L
from gpusim.errors import PoolExhausted
from gpusim.host import fault
from gpusim.launch import Launch
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.occupancy import occupancy
from isa.compile import compile_cuda
from isa.listing import programs_from_cubin
from isa.lower import lower
from tests.gpusim import sass

SOURCE = r"""
__device__ void copy_word(int *to, const int *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}

// Each thread copies eight words that lie in eight lines of its own.
extern "C" __global__ void copies(const int *from, int *to) {
    __shared__ int kept[2048];
    for (int k = 0; k < 8; ++k)
        copy_word(kept + 8 * threadIdx.x + k, from + 32 * (8 * threadIdx.x + k));
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;");
    __syncthreads();
    for (int k = 0; k < 8; ++k)
        to[256 * k + threadIdx.x] = kept[256 * k + threadIdx.x];
}

// A group of copies for every word, closed one by one and waited for only at the end.
extern "C" __global__ void groups(const int *from, int *to) {
    __shared__ int kept[2048];
    for (int k = 0; k < 8; ++k) {
        copy_word(kept + 256 * k + threadIdx.x, from + 256 * k + threadIdx.x);
        asm volatile("cp.async.commit_group;");
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    for (int k = 0; k < 8; ++k)
        to[256 * k + threadIdx.x] = kept[256 * k + threadIdx.x];
}

// Loads, stores, atomics in order of time, and lanes of one access in shared and in global memory.
extern "C" __global__ void everything(const int *from, int *to) {
    __shared__ int kept[256];
    kept[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < 8; ++k) {
        int at = 256 * k + threadIdx.x, value = from[32 * at];
        int *where = threadIdx.x % 2 ? kept + threadIdx.x : to + at;
        atomicAdd(where, value);
        if (threadIdx.x % 2) atomicExch(to + at, atomicExch(kept + threadIdx.x, 0));
    }
}
"""
KERNELS = {"copies": 32, "groups": 1, "everything": 32}


@pytest.fixture(scope="module")
def programs():
    return programs_from_cubin(compile_cuda(SOURCE, "sm_90"))  # with one listing: each takes half a second


def run(programs, kernel, **overrides):
    """Runs one kernel with a block of 256 threads; returns the cycles if what it moved is right."""
    step = KERNELS[kernel]
    data = np.arange(1, 2048 * step + 1, dtype=np.int32)
    out = np.zeros(2048, np.int32)
    result = gpusim.simulate(programs[kernel], 1, 256, (data, out), "tiny", overrides=overrides, max_cycles=2_000_000)
    np.testing.assert_array_equal(out, data[::step])
    return result.cycles


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sectors", [1, 16, 1024])
def test_outstanding_sectors_throttle_every_kind_of_load(programs, kernel, sectors):
    run(programs, kernel, **{"l1.max_outstanding_sectors": sectors})


SMALL = {
    "tokens": Capacity(tokens=12),
    "requests": Capacity(requests=ROOM + 1),
    "events": Capacity(events=ROOM + 1),
    "deferred": Capacity(deferred=3),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("pool", SMALL)
def test_a_small_pool_throttles(programs, kernel, pool, monkeypatch):
    """Little room is slow and right: what a window or a reply frees goes to the next."""
    before = run(programs, kernel)
    monkeypatch.setattr(launch_state, "Capacity", lambda: SMALL[pool])
    after = run(programs, kernel)
    assert after > before or pool == "deferred"


def idle_state(seat=None, **small):
    """The state of a launch of one warp on a tiny GPU, before its start; its pools have these capacities."""
    config, program = load_config("tiny"), sass.assemble("EXIT")
    launch, lowered = Launch(program, 1, 32), lower(program)
    fits = occupancy(config, 32, 16, 0, 0)
    memory = DeviceMemory(1 << 20)
    par = parameters(config, program, launch, lowered, fits, memory.base, 0, -1, True, 0)
    banks = constant_banks(program, launch, b"", 0, config.sm.count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_state, "Capacity", lambda: Capacity(**small))
        return build_state(par, lowered, banks, memory, 1, seat=seat), program, launch, memory


ACCESS = Access(0, 0, 0, 0, 1, 4, 0, 0)


def one_token(state):
    take_token(state, 0, 0, 7, L.LOAD_TOKEN)


def one_mshr(state):
    if state.sm[0, L.SM_TOKENS] == 0:
        one_token(state)  # whose number is 0
    take_mshr(state, 0, 1, 1, 0, -1)


def end_block(state):
    state.block[0, 0, L.BLOCK_WARPS_LEFT] = 1
    state.warp[0, L.WARP_BLOCK] = 0
    finish_warp(state, 0, 0, 0, 0, 0)


TAKERS = {
    L.POOL_TOKENS: one_token,
    L.POOL_MSHRS: one_mshr,
    L.POOL_EVENTS: lambda state: push_event(state, 0, 5, 2),
    L.POOL_DEFERRED: lambda state: defer(state, 0, ACCESS, -1),
    L.POOL_REQUESTS: lambda state: send(state, 0, 0, 0, 1, 0, 0, 0, 0),
    L.POOL_QUEUED: lambda state: keep(state, 0, ACCESS, 0, PATH_READ),
    L.POOL_DONE: end_block,
    L.POOL_COPIES: lambda state: keep_copy(state, 0, 0, 0, 1, 1),
    L.POOL_BULK: lambda state: take_bulk(state, 0, 0, 0),
}
SIZE = {
    L.POOL_TOKENS: "token",
    L.POOL_MSHRS: "mshr",
    L.POOL_EVENTS: "event",
    L.POOL_DEFERRED: "deferred",
    L.POOL_REQUESTS: "request",
    L.POOL_QUEUED: "queued",
    L.POOL_DONE: "done",
    L.POOL_COPIES: "copy_lanes",
    L.POOL_BULK: "bulk",
}


def test_every_pool_has_a_name_and_is_driven_to_its_end():
    # below and in test_check_copies.py
    elsewhere = {L.POOL_SPLITS, L.POOL_MBARRIERS}
    assert set(TAKERS) | elsewhere == set(range(len(L.POOLS)))


@pytest.mark.parametrize("pool", TAKERS, ids=lambda pool: L.POOLS[pool])
def test_the_last_place_can_be_taken_and_no_further_one(pool):
    state, program, launch, memory = idle_state(requests=6, events=6, tokens=6, deferred=6)
    size = getattr(state, SIZE[pool]).shape[1]
    for _ in range(size):
        TAKERS[pool](state)
        assert state.sm[0, L.SM_ERROR] == 0
    others = {name: getattr(state, name)[1:].copy() for name in SIZE.values()}
    TAKERS[pool](state)
    assert state.sm[0, L.SM_ERROR] == L.ERROR_POOL
    for name, before in others.items():  # nothing was written behind the SM's own places
        np.testing.assert_array_equal(getattr(state, name)[1:], before)
    error = fault.fault(SimpleNamespace(state=state, start=0), 0, program, launch, memory)
    assert isinstance(error, PoolExhausted) and error.pool == L.POOLS[pool] and error.size == size
    assert L.POOLS[pool] in str(error)


def test_a_warp_has_room_for_as_many_groups_as_lanes():
    state, *_ = idle_state()
    state.split[0] = 0
    for lane in range(L.LANES_OF_WARP):
        park(state.split, 0, 1 << lane, 7)
    assert state.split[0, L.SPLIT_FULL] == 0
    before = state.split[0].copy()
    park(state.split, 0, 1, 7)
    assert state.split[0, L.SPLIT_FULL] == 1
    before[L.SPLIT_FULL] = 1
    np.testing.assert_array_equal(state.split[0], before)


def test_events_of_one_cycle_come_in_the_order_of_their_numbers():
    """In whatever order they are queued."""
    orders = ([3, 8, 1, 5, 2], [5, 2, 1, 8, 3], [8, 5, 3, 2, 1])
    for order in orders:
        state, *_ = idle_state()
        for what in order:
            push_event(state, 0, 7, what)
        push_event(state, 0, 6, 9)
        assert [pop_event(state, 0) for _ in range(6)] == [9, 1, 2, 3, 5, 8]


def test_a_reply_leaves_a_way_alone_that_another_line_has():
    """A sector that was asked for twice is pending until the first reply; then its way may be another line's."""
    state, *_ = idle_state()
    tag = state.tags[0, :, 0]
    replace_line(state, 0, 0, 11)
    tag[L.TAG_PENDING] = 1
    misses = []
    for _ in range(2):
        token = take_token(state, 0, 0, 7, L.LOAD_TOKEN)
        state.token[0, token, L.TOKEN_LEFT] = 1
        misses.append(take_mshr(state, 0, 11, 1, token, 0))
    state.sm[0, L.SM_IN_FLIGHT] = 2
    arrive(state, 0, 2 * misses[0] + FOR_MSHR, 100)
    assert tag[L.TAG_TAG] == 11 and tag[L.TAG_VALID] == 1 and tag[L.TAG_PENDING] == 0
    replace_line(state, 0, 0, 12)
    arrive(state, 0, 2 * misses[1] + FOR_MSHR, 101)
    assert tag[L.TAG_TAG] == 12 and tag[L.TAG_VALID] == 0
