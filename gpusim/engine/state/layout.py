"""Columns of the state's arrays (`arrays`), one row per warp slot, block slot, sub-partition, SM and so on.

Every `*_FIELDS` constant is the width of one row. Times are SM clock cycles (int64); NEVER marks an event whose time is
not known yet (a reply that is still on its way).
"""

import numpy as np

NEVER = np.int64(1) << 60
CONSTANT_NOWHERE = -1  # of a line in State.constant or State.loaded: no cache of the SM has it


def _row(names: list[str], name: str) -> int:
    """Number of a new row of a list of names."""
    names.append(name)
    return len(names) - 1


#: Modes of a run. FUNCTIONAL: every reply comes at once. BOOKS: the time of an instruction is booked. KEEPS: as without
#: time, but its requests are kept for L2 and memory.
FUNCTIONAL, BOOKS, KEEPS = 0, 1, 2

# --- warp: one row per warp slot ---------------------------------------------------------------------------
WARP_STATE, WARP_PC, WARP_ACTIVE, WARP_ALIVE = range(4)
(
    WARP_BLOCK,  # block slot of the SM
    WARP_SEAT,  # P.SEAT of its launch
    WARP_AGE,  # launch order: larger is younger
    WARP_SINCE,  # cycle up to which the warp's time is attributed to a stall reason
    WARP_REASON,  # why it is blocked, while its wake-up time is unknown
    WARP_FETCHED,  # instruction line held in the warp's buffer
    WARP_STORES,  # stores and reductions not yet acknowledged
    WARP_BARRIER,  # named barrier that it waits at
) = range(4, 12)
WARP_PENDING = 12  # six: replies that scoreboard still waits for
WARP_RELEASE = 18  # six: cycle at which the known part of the scoreboard is released
WARP_KIND = 24  # six: stall reason of a wait for the scoreboard
WARP_START = 30  # cycle at which it became resident
WARP_CLUSTER_ARRIVALS = 31  # how often it has arrived at the barrier of its cluster
WARP_CALL = 32  # cycle at which it asked the host for something
WARP_COPIES = 33  # token number + 1 of the asynchronous copies that no LDGDEPBAR has closed yet
WARP_GROUP_DONE = 34  # cycle at which the products of four warps that it has issued are done
WARP_EPOCH = 35  # how often it has synchronised, see engine.sm.shadow_clocks
WARP_DRAINED = 36  # cycle at which its last store has left the SM's queues
WARP_TOOK_OLD = 37  # 1 if a group of lanes goes on that is not the last one left behind
WARP_QUEUED = 38  # memory instructions that it has issued and that wait
WARP_READY_AT = 39  # cycle at which it was last known when it would be ready
WARP_DISPATCH = 40  # SMSP_DISPATCH of its sub-partition at that time
WARP_BUSY = 41  # SMSP_BUSY of its next instruction's unit
WARP_LOGGED = 42  # its number in the launch + 1 if what it does is logged
WARP_LOOKED_AT = 43  # 1: its values are looked at, see engine.sm.run_warp
WARP_CLOSED = 44  # token number + 1 of the group of asynchronous copies that it has closed last, if that is not over
WARP_GROUPS = 45  # groups of such products that it has committed
WARP_GROUP = 46  # GROUPS: cycles at which the last of them are done, group n at n % GROUPS
WARP_OPENS = 54  # cycle from which instructions that wait for the barrier it has passed may issue; NEVER: not yet
WARP_DEFERRED = 55  # 1 + number of that barrier, 0 once it is open
WARP_BULK = 56  # token number + 1 of the bulk copies out of shared memory that no OP_BULK_COMMIT has closed yet
WARP_REGISTERS = 57  # registers of a thread that it has more than at the launch
WARP_FENCE = 58  # how far the fence is that it waits for, see engine.sm.fence
WARP_GROUP_BEGINS = 59  # cycle at which a tensor core takes the last product of four warps that it has issued
WARP_TURN = 60  # SMSP_TURNS when it began to wait for room in the memory queue, 0 if it does not
WARP_DATA = 61  # cycle from which the data stage works at its next memory instruction
WARP_INDEX = 62  # warp number within the block
GROUPS = 8  # as many as WARPGROUP.DEPBAR can name
WARP_FIELDS = 64

FREE, RUNNING, WAIT_SCOREBOARD, WAIT_BARRIER, WAIT_MEMBAR, WAIT_THROTTLE, WAIT_CLUSTER, WAIT_HOST = range(8)
WAIT_DRAIN = 8  # it has ended, but not all that it has issued is on its way
WAIT_GROUP = 9  # for the other warps of its four
WAIT_GRID = 10  # for the end of the grid before
STOPPED = 11  # the run has stopped before its instruction (`engine.stop`)

# --- split: the lanes of a warp that do not run, see engine.sm.lane_states -----------------------------------
LANES_OF_WARP = 32
BARRIERS_OF_BLOCK = 16
CONVERGENCE_BARRIERS = 20  # B0..B15, and four that stand for WARPSYNC with different lane masks
SPLIT_AGAIN = 0  # lanes that execute their instruction again: WARPSYNC lets them pass, a branch is not counted
SPLIT_SPIN = 1  # backward branches since another group of lanes last ran
SPLIT_FULL = 2  # 1: there was no room on the stack
SPLIT_DEPTH = 3  # entries of the stack
SPLIT_PARKED = 4  # lanes that can run and that the stack remembers
SPLIT_LAST, SPLIT_LAST_PC = 5, 6  # the lanes parked last and where they are, 0 if they are no group any more
SPLIT_CANDIDATE = 7  # lane that goes on when the stack is empty, -1 if none has been chosen
SPLIT_FIRST_COME = 8  # 1: it was chosen because it stopped first, not by a search
SPLIT_FOUND = 9  # the last lane that went on in this way
SPLIT_YIELDED = 10  # lanes that have given way
SPLIT_COLLECTIVE = 11  # lanes that wait at WARPSYNC.COLLECTIVE
SPLIT_INSIDE = 12  # lanes that run in another's copy of what it begins
SPLIT_SHARED = 13  # bits: convergence barriers to which lanes have come by more than one BSSY
SPLIT_PC = 14  # 32: where each lane is that does not run
SPLIT_STACK = SPLIT_PC + LANES_OF_WARP  # 32
SPLIT_HELD = SPLIT_STACK + LANES_OF_WARP  # 16: lanes at each of the block's barriers
SPLIT_MEMBERS = SPLIT_HELD + BARRIERS_OF_BLOCK  # convergence barriers: who must meet
SPLIT_WAITING = SPLIT_MEMBERS + CONVERGENCE_BARRIERS  # who has arrived
SPLIT_KEPT = SPLIT_WAITING + CONVERGENCE_BARRIERS  # NOT_KEPT, KEPT or REPEATS of engine.sm.spinning
SPLIT_TURNS = SPLIT_KEPT + 1  # backward branches since it was last NOT_KEPT
SPLIT_FIELDS = SPLIT_TURNS + 1

# --- block -------------------------------------------------------------------------------------------------
BLOCK_STATE, BLOCK_X, BLOCK_Y, BLOCK_Z, BLOCK_WARPS_LEFT, BLOCK_ALIVE, BLOCK_START, BLOCK_NUMBER = range(8)
BLOCK_ARRIVED = 8  # 16: threads at each named barrier
BLOCK_EXPECTED = 24  # 16: threads it waits for (0: all of the block)
BLOCK_REDUCED = 40  # 16: running result of a reducing barrier
BLOCK_RESULT = 56  # 16: its value when it completed
(
    BLOCK_RANK,  # rank in its cluster
    BLOCK_CLUSTER,  # number of the cluster
    BLOCK_CLUSTER_ARRIVED,  # threads that have arrived at the barrier of the cluster
    BLOCK_CLUSTER_PHASE,  # how often that barrier has opened
    BLOCK_CLUSTER_TIME,  # cycle of the last arrival
    BLOCK_DRAINED,  # cycle at which the stores of its warps that have ended have left
) = range(72, 78)
BLOCK_PEER = 78  # 16: SM << 8 | block slot of each block of the cluster, by rank
BLOCK_HANDED = 94  # row of State.handed
BLOCK_REGISTERS = 95  # registers of a thread that its warps have given back, all together
BLOCK_GROUP = 96  # 8: warps of each four that are at WARPGROUP.ARRIVE
BLOCK_SEAT = 104  # P.SEAT of its launch
BLOCK_TMEM_UNITS = 106  # set of units of tensor memory that it has allocated
BLOCK_TRIGGERED = 105  # cycle from which the next grid of the stream may begin, 0: not yet
BLOCK_FIELDS = 112

# --- smsp: one row per sub-partition ------------------------------------------------------------------
SMSP_NEXT, SMSP_LAST, SMSP_LSU_FREE, SMSP_WARPS = range(4)
SMSP_EVEN_FREE, SMSP_ODD_FREE = 4, 5  # register banks: cycle from which one reads again
SMSP_ENTERED = 6  # memory instructions that have entered its queue
SMSP_UNIT_FREE = 8
SMSP_GOES_ON = 24  # cycle at which the next warp is chosen: the one that issued last, if it is ready
SMSP_ADDRESS_FREE = 25  # cycle from which its address unit goes on
SMSP_ADDRESS = 26  # cycles at which the last instructions for that are taken up, the oldest first
ADDRESSES_WAITING = 3  # of them that wait in front of it
SMSP_BEYOND = SMSP_ADDRESS + ADDRESSES_WAITING + 1  # 1 if the last one in the queue goes beyond shared memory
SMSP_LEAVES = SMSP_BEYOND + 1  # cycle at which each of the last QUEUE_MOST of them leaves the queue
QUEUE_MOST = 32
SMSP_STORES = SMSP_LEAVES + QUEUE_MOST  # stores that have entered it
SMSP_STORE = SMSP_STORES + 1  # number, among all that have entered, of each of the last QUEUE_MOST of them
SMSP_PLACE = SMSP_STORE + QUEUE_MOST  # place in SMSP_LEAVES of the instruction that was handed over last
SMSP_PLACE_KEPT = SMSP_PLACE + 1  # 1 + place of an instruction that goes on, 0 if the next one to be handed over is new
SMSP_DISPATCH = SMSP_PLACE_KEPT + 1  # cycles in which its dispatcher held an instruction back
SMSP_BUSY = SMSP_DISPATCH + 1  # of each unit: cycles in which it could take no instruction
SMSP_GROUP_FREE = SMSP_BUSY + 16  # cycle from which its tensor core takes part in another product of four warps
SMSP_TURNS = SMSP_GROUP_FREE + 1  # how often a warp has begun to wait for room in the memory queue
SMSP_WAITING = SMSP_TURNS + 1  # warps that do
SMSP_KEPT = SMSP_WAITING + 1  # instructions that wait for the way beyond the SM, see engine.sm.queued
SMSP_IN_TURN = SMSP_KEPT + 1  # issues for which warps take turns: 1 behind a yield or a busy pipe, 2 a full queue
SMSP_ENDED = SMSP_IN_TURN + 1  # cycle at which its last warp ended
SMSP_DISPATCHED = SMSP_ENDED + 1  # cycle of the last dispatch, the second one of a wide product
SMSP_RESULTS = SMSP_DISPATCHED + 1  # bit k: the way to the registers is taken for what is dispatched k cycles later
SMSP_FIELDS = SMSP_RESULTS + 1

# --- sm ----------------------------------------------------------------------------------------------------
SM_NOW, SM_EVENTS, SM_TAG_FREE = range(3)  # cycle of its error; how many are queued
SM_DATA_FREE = 3  # cycle from which the data stage has a turn left
SM_ADU_FREE, SM_IL1_FREE, SM_IL15_FREE, SM_OUTSTANDING = range(4, 8)
SM_TOKEN_FREE = 8  # 1 + the last one given back, 0 if there is none; what was never used comes after these
SM_MSHR_FREE, SM_CLOCK, SM_ALLOCATION, SM_DEFERRED, SM_DEFERRED_LINES, SM_BLOCKS, SM_WARPS = range(9, 16)
SM_DONE = 16  # blocks finished in this window
SM_CHUNK, SM_LAUNCHED, SM_ACTIVE_SINCE, SM_ACTIVE_CYCLES, SM_WARP_CYCLES, SM_LAST_REPLY, SM_THROTTLED = range(17, 24)
SM_ERROR, SM_ERROR_PC, SM_ERROR_WARP, SM_ERROR_LANE, SM_ERROR_ADDRESS, SM_ERROR_SIZE = range(24, 30)
SM_ISSUED, SM_IN_FLIGHT, SM_LAST_EXIT, SM_DONE_SEEN = range(30, 34)
(
    SM_ERROR_OTHER,  # of a race: record of the other access, see engine.sm.shadow_clocks
    SM_STORE_FREE,  # cycle from which the way to L2 takes another store
    SM_BLOCK_FREE,  # cycle from which another block may start
    SM_FLITS,  # of stores and atomics that L2 has not acknowledged
    SM_IL15_AHEAD,  # the same for L1.5 and what lies beyond
    SM_IL1_AHEAD,  # instruction lines asked for ahead: cycle from which L1 takes another one
    SM_CONSTANT_FREE,  # cycle from which a constant load is taken up, or a special register alike in all lanes
    SM_SPECIAL_FREE,  # the same of a special register that differs by lane
    SM_QUEUED,  # memory instructions that wait for the way beyond the SM
    SM_QUEUED_FIRST,  # the oldest of them
    SM_QUEUED_LINES,  # a set of the lines of those that others can see, see `lines.line_filter`
    SM_CONST_FIRST,  # lines that the first level of the constant caches has taken in so far; then the second
    SM_CONST_SECOND,
    SM_TOKENS_NEW,  # the first that was never used
    SM_MSHRS_NEW,
    SM_TOKENS,  # in use
    SM_GROUP_SHARED,  # quarter cycle from which shared memory is read for another product of four warps
    SM_COPY_FREE,  # 1 + the last place of State.copy_lanes given back, 0 if there is none
    SM_COPIES_NEW,  # the first that was never used
    SM_WAITING,  # 1 + the first of the tokens that wait for an mbarrier's phase, 0 if there is none
    SM_WAIT_ENDS,  # cycle at which the first of them gives up
    SM_BULK_FREE,  # bulk copies: as SM_TOKEN_FREE
    SM_BULKS_NEW,  # as SM_TOKENS_NEW
    SM_ASKED,  # cycle of its last request to L2
    SM_FENCED,  # when the last fence began that is over
    SM_STORED,  # lines of stores that wait in State.stored
    SM_STORED_FIRST,  # the oldest of them
    SM_WAIT_FREE,  # 1 + the last row of State.waiting given back, 0 if there is none
    SM_WAITS_NEW,  # the first that was never used
) = range(34, 63)
SM_LOG = 64  # which of its warps are logged, see engine.state.log
SM_LOGGED, SM_LOG_LANES = 65, 66  # rows of its log; of the addresses in it
SM_LOG_ROW = 67  # 1 + row of the instruction that is being executed, 0 if it is not logged
SM_TURN = 68  # sub-partition that gets the first warp of the next block
SM_CONST_THERE, SM_CONST_WAITS = 69, 70  # cycle from which the line is there that constant loads wait for; how many do
SM_CONST_ASKED = 71  # cycle from which the constants that its GPC shares take requests for another line
SM_CODE_SEEN = 72  # lines of code before this one have been asked for
SM_ASKED_FAR = 73  # as SM_ASKED, of lines of another partition of L2
SM_FENCE_BEGAN = 74  # when the fence began that is under way, 0 if none is
SM_FENCE_SYSTEM, SM_FENCE_NEXT = 75, 77  # 1 if it is of the scope of the system; the same of the next one
SM_SCHEDULER_CYCLES = 76  # in which a sub-partition held a warp
SM_STORE_LEFT = 78  # when the last line of a store left for it
SM_AGE, SM_BLOCK_NUMBER = 79, 80  # warps that it has got so far; blocks
SM_L1_SETS, SM_CARVEOUT = 81, 82  # sets of its L1; bytes of its shared memory
SM_CHANGED = 83  # atomics that changed what was there, counted only with P.WATCHED
SM_PARTITION, SM_CODE_WAIT, SM_CONST_WAIT, SM_CONST_TURN, SM_WAY = range(84, 89)  # see `memory.place.sm_places`
SM_TMEM_UNITS, SM_TMEM_BUSY = 90, 91  # set of units of tensor memory that are taken; until when its tensor core is busy
SM_TMEM_OWNER, SM_TMEM_DONE = 92, 93  # 1 + slot of the block that alone may take some, 0: nobody; when all is done
SM_WRITTEN = 89  # cycle until which a barrier that completes waits for stores to shared memory
CONSTANTS_WAITING = 28  # most that do
SM_FIELDS = 96

ERROR_BOUNDS, ERROR_MISALIGNED, ERROR_SHARED_BOUNDS, ERROR_LOCAL_BOUNDS, ERROR_BAD_TARGET = range(1, 6)
ERROR_BARRIER_EXITED, ERROR_DEADLOCK, ERROR_TRAP, ERROR_UNSUPPORTED, ERROR_CONSTANT_BOUNDS = range(6, 11)
ERROR_CLUSTER = 11  # shared memory of a block that is not in the cluster or has ended
ERROR_CODE_END, ERROR_UNINITIALIZED, ERROR_RACE, ERROR_BARRIER_DIVERGENT, ERROR_BARRIER_COUNT = range(12, 17)
ERROR_NOT_IN_MASK, ERROR_EXITED_IN_MASK = 17, 18
ERROR_POOL = 19  # one of POOLS is used up
ERROR_UNWAITED = 20  # an asynchronous copy that nobody has waited for
ERROR_STOPPED = 21  # no error: the run was to stop here
ERROR_TMEM_BOUNDS, ERROR_TMEM_LANES, ERROR_TMEM_DESCRIPTOR, ERROR_TMEM_KEPT, ERROR_TMEM_EARLY = range(22, 27)
TMEM_LANES, TMEM_COLUMNS = 128, 512  # of tensor memory
TMEM_NOTES, TMEM_TOLD, TMEM_SEEN, TMEM_WORDS = 1 << 16, (1 << 16) + 513, (1 << 16) + 577, (1 << 16) + 592  # `races`

#: Resources of which an SM has a fixed number, as an error names them.
POOLS: list[str] = []
POOL_TOKENS = _row(POOLS, "memory instructions in flight")
POOL_MSHRS = _row(POOLS, "L1 misses in flight")
POOL_EVENTS = _row(POOLS, "events of an SM")
POOL_DEFERRED = _row(POOLS, "accesses that take effect at L2")
POOL_REQUESTS = _row(POOLS, "requests of an SM in a window")
POOL_QUEUED = _row(POOLS, "memory instructions that wait for L2")
POOL_DONE = _row(POOLS, "blocks that end in a window")
POOL_SPLITS = _row(POOLS, "groups of lanes of a warp")
POOL_COPIES = _row(POOLS, "asynchronous copies in flight")
POOL_BULK = _row(POOLS, "bulk copies in flight")
POOL_MBARRIERS = _row(POOLS, "mbarriers of a block that are checked")

# --- token: one per memory instruction in flight -----------------------------------------------------------
TOKEN_WARP, TOKEN_SCOREBOARD, TOKEN_LEFT, TOKEN_KIND, TOKEN_NEXT = range(5)
(
    TOKEN_SECTORS,  # of stores and atomics: lines under way
    TOKEN_AGE,
    TOKEN_TIME,  # of a look at an mbarrier: cycle up to which it waits; of a load: turns of the data stage at the end
    TOKEN_BLOCK,  # number of the block whose mbarrier hears of the end
    TOKEN_ADDRESS,  # of the mbarrier in shared memory
    TOKEN_AMOUNT,  # bytes or arrivals that it is told of; of a copy: its group's token; of stores and atomics: flits
    TOKEN_AFTER,  # 1 + the token that hears when it is over, or the next one that waits for a phase; 0 if there is none
    TOKEN_BULK,  # 1 + row of State.bulk of what goes to shared memory then, 0: nothing
    TOKEN_SEAT,  # P.SEAT of its launch
) = range(5, 14)
TOKEN_FIELDS = 14
LOAD_TOKEN, STORE_TOKEN, ATOMIC_TOKEN = range(3)
COPY_TOKEN = 3  # asynchronous copies: releases a scoreboard
COPY_ARRIVE_TOKEN = 4  # asynchronous copies: arrivals at an mbarrier
COPY_BYTES_TOKEN = 5  # asynchronous copies: transactions of an mbarrier
BULK_WRITE_TOKEN = 6  # bulk copies out of shared memory: releases a scoreboard
COPY_DATA_TOKEN = 7  # one asynchronous copy of a group; TOKEN_ADDRESS is its place in State.copy_lanes
PHASE_TOKEN = 8  # a look at an mbarrier that waits for its phase: TOKEN_ADDRESS is its word, TOKEN_AMOUNT the lanes
FENCE_TOKEN = 10  # TOKEN_TIME is when it began, TOKEN_SECTORS 1 once it is in its second half
REMOTE_TOKEN = 9  # another block's arrival: TOKEN_AMOUNT transactions less, TOKEN_SECTORS arrivals | dropped << 32

# --- copy: one per asynchronous copy in flight -------------------------------------------------------------
COPY_NEXT, COPY_PC, COPY_MASK, COPY_READING = range(4)
COPY_TARGET = 4  # 32: where it goes in its block's shared memory
COPY_SOURCE = COPY_TARGET + 32  # 32: addresses in global memory
COPY_FIELDS = COPY_SOURCE + 32

# --- bulk: one per bulk copy whose bytes have not moved yet ------------------------------------------------
BULK_NEXT, BULK_PC, BULK_WARP = range(3)
(
    BULK_BLOCK,  # as TOKEN_BLOCK
    BULK_SHARED,  # address in shared memory, without a rank
    BULK_BARRIER,
    BULK_MEMORY,  # address in global memory, or of the source in shared memory
    BULK_BYTES,
    BULK_BLOCKS,  # set of ranks in the cluster that it goes to
    BULK_OFFSETS,  # distances of pixels from those of the box
) = range(3, 10)
BULK_GROUP = BULK_BARRIER  # of what leaves shared memory: token of its group
BULK_CORNER = 10  # five coordinates
BULK_MAP = 15  # 16 words of the tensor map
BULK_SENT = 31  # of what leaves shared memory: cycle at which its last byte has left
BULK_SEAT = 32  # P.SEAT of its launch
BULK_ROWS4 = 33  # 1: four rows, each with a coordinate
BULK_TOLD = 34  # 1 + rank, of a pair, of whose mbarrier hears of it; 0: that of the block that it goes to
BULK_FIELDS = 35
BULK_LINES = 2000  # requests of one copy at most; a box of more rows than this takes less time than it should

# --- mshr: one per line request of L1 in flight ------------------------------------------------------------
MSHR_LINE, MSHR_SECTORS, MSHR_COUNT, MSHR_NEXT, MSHR_WAY = range(5)
MSHR_MORE = 5  # 1 + row of State.waiting of the last token that found no room here, 0 if there is none
MSHR_TOKEN = 6
TOKENS_OF_MSHR = 10
MSHR_FIELDS = MSHR_TOKEN + TOKENS_OF_MSHR

# --- l1 tags -----------------------------------------------------------------------------------------------
TAG_TAG, TAG_VALID, TAG_PENDING, TAG_USED, TAG_MSHR = range(5)
TAG_WORDS = 5  # words that stores have left there, of sectors that are there or not
TAG_FIELDS = 6
BITS_OF_WAY = 12
BITS_OF_MSHR = 15  # four MSHR numbers share the word TAG_MSHR
MASK_OF_MSHR = (1 << BITS_OF_MSHR) - 1

# --- waiting: tokens that wait for a line request, behind those in its MSHR -------------------------------
WAITING_TOKEN, WAITING_NEXT, WAITING_FIELDS = range(3)
WAITS_MOST = 4096  # of an SM; a load that finds no room asks for its sectors itself

# --- stored: lines of plain stores that have not left for L2, a ring ---------------------------------------
STORED_LINE, STORED_SECTORS, STORED_WORDS, STORED_BYTES = range(4)  # words that are written whole
STORED_READY, STORED_TOKEN = 4, 5  # cycle from which it may leave
STORED_POLICY, STORED_SMSP, STORED_FIELDS = 6, 7, 8  # policy of the first store to it
STORED_MOST = 64

# --- deferred: what must take effect at L2 in time order ---------------------------------------------------
DEFERRED_PC, DEFERRED_WARP, DEFERRED_MASK, DEFERRED_DONE = range(4)
DEFERRED_REMOTE = 4  # on another block's memory
DEFERRED_BULK = 5  # 1 + row of State.bulk of a bulk copy, 0 for other accesses
DEFERRED_LEFT = 6  # requests of it that have not been served; then the last reply to those that have
DEFERRED_TIME = 7
DEFERRED_LINES = 8  # the lines of an access to device memory, see `lines.line_filter`; else 0
DEFERRED_FIELDS = 9

# --- queued: memory instructions that wait for the way beyond the SM, a ring ---------------------------------
QUEUED_WARP, QUEUED_PC, QUEUED_SMSP, QUEUED_MASK, QUEUED_SIZE, QUEUED_COUNT, QUEUED_PATH, QUEUED_PLACE = range(8)
QUEUED_POLICY, QUEUED_FIELDS = 8, 9
QUEUED_LINES = 64  # lines of one instruction

# --- log: what chosen warps do, one row per event, see engine.state.log ------------------------------------------
LOG_START, LOG_END, LOG_ISSUE, LOG_STALL, LOG_VALUE = range(5)
EVENT_KIND, EVENT_WARP, EVENT_START, EVENT_END, EVENT_PC, EVENT_REASON = range(6)  # warp: its number in the launch
EVENT_SMSP, EVENT_SLOT = 6, 7  # sub-partition of the SM, and slot there
EVENT_ACTIVE, EVENT_EXECUTED, EVENT_WAVEFRONTS, EVENT_IDEAL, EVENT_SECTORS, EVENT_LINES = range(8, 14)
EVENT_LOCAL, EVENT_ACCESS = 14, 15  # 1: an access to local memory; row of its addresses
EVENT_DIVERGENT, EVENT_FIELDS = 16, 17  # by how many targets its lanes part
EVENT_GUARDED = EVENT_END  # of an issue: lanes for which its guard holds
EVENT_REGISTER = EVENT_PC  # of values: row of the register in its warp, or the row behind all: predicates

# --- stall reasons, in Nsight Compute's words --------------------------------------------------------------
STALLS: list[str] = []
STALL_SELECTED = _row(STALLS, "selected")
STALL_NOT_SELECTED = _row(STALLS, "not_selected")
STALL_WAIT = _row(STALLS, "wait")
STALL_LONG = _row(STALLS, "long_scoreboard")
STALL_SHORT = _row(STALLS, "short_scoreboard")
STALL_BARRIER = _row(STALLS, "barrier")
STALL_BRANCH = _row(STALLS, "branch_resolving")
STALL_NO_INSTRUCTION = _row(STALLS, "no_instruction")
STALL_IMC = _row(STALLS, "imc_miss")
STALL_MATH = _row(STALLS, "math_pipe_throttle")
STALL_MIO = _row(STALLS, "mio_throttle")
STALL_LG = _row(STALLS, "lg_throttle")
STALL_MEMBAR = _row(STALLS, "membar")
STALL_SLEEPING = _row(STALLS, "sleeping")
STALL_DRAIN = _row(STALLS, "drain")
STALL_DISPATCH = _row(STALLS, "dispatch_stall")
STALL_TEX = _row(STALLS, "tex_throttle")
STALL_MISC = _row(STALLS, "misc")

RUN_ADDRESS, RUN_WITHIN, RUN_FIELDS = range(3)  # of what is compiled from here on, 0: nothing; 1: not the first row

# --- counters: one row per instruction ------------------------------------------------------------------------
COUNT_EXECUTED, COUNT_THREADS, COUNT_PRED_ON, COUNT_DIVERGENT, COUNT_BRANCHES = range(5)
COUNT_SHARED_WAVEFRONTS, COUNT_SHARED_IDEAL, COUNT_REQUESTS, COUNT_SECTORS, COUNT_SECTORS_IDEAL = range(5, 10)
COUNT_TAGS, COUNT_HITS, COUNT_SHARED_REQUESTS, COUNT_MISSES = range(10, 14)
(
    COUNT_SHARED_DATA,  # wavefronts of shared-memory instructions as the hardware counts them, see engine.sm.coalescer
    COUNT_SHARED_CONFLICTS,  # of those, bank conflicts
    COUNT_HEAVY,  # single-precision instructions that went to the heavy half of the FMA pipe
    COUNT_TURNS,  # further turns of the ADU: other addresses or values of one instruction, constants that are not there
    COUNT_PAST_L1,  # pairs of sectors of asynchronous copies past L1, see engine.sm.copy_cost
    COUNT_L1_DATA,  # turns of the data stage of loads and stores of global and local memory, see `l1.data_turns`
    COUNT_LOOKED,  # values that were looked at, see engine.sm.run_warp
    COUNT_TOGGLED,  # bits of them that differ from what their register held before
    COUNT_SPREAD,  # and from that of another lane
    COUNT_LOCAL_REQUESTS,  # of local memory: one for each word that a lane accesses
    COUNT_LOCAL_SECTORS,
    COUNT_ZEROS,  # wavefronts that write the zeros of asynchronous copies, see engine.sm.copy_cost
) = range(14, 26)
COUNT_STALL = 26
COUNT_RUNS = COUNT_STALL  # without time: how often the straight run from here on has gone by machine code
# Of products in tensor memory, which ask L1 for nothing: multiply-adds, those of TF32 among them, cycles of a core.
TMEM_MULTIPLY_ADDS, TMEM_SINGLE, TMEM_CYCLES = COUNT_HITS, COUNT_MISSES, COUNT_LOCAL_REQUESTS
COUNT_FIELDS = COUNT_STALL + 21

# --- pattern: of the last access of an instruction to shared memory, or copy to it ------------------------------
PATTERN_FIRST, PATTERN_MASK = 0, 1  # 1 + where in a bank, or line, its first lane is; 0 if there was none
PATTERN_COST = 2  # 4: see `coalescer.shared_wavefronts`
PATTERN_LOWEST, PATTERN_HIGHEST = 6, 7  # how far those with the lowest and the highest address are from the first one
PATTERN_TARGET, PATTERN_READING = 8, 9  # of a copy: where in a line its first target is, and the lanes that read
PATTERN_APART = 16  # 32: how far each lane is from the first one
PATTERN_TARGETS = PATTERN_APART + 32  # 32: the same of a copy's targets
PATTERN_COUNTS = PATTERN_TARGETS + 32  # COUNT_STALL: by how much a copy has changed each of its counters
PATTERN_FIELDS = PATTERN_COUNTS + (COUNT_STALL + 15) // 16 * 16
