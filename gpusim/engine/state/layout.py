"""Where everything lives: fields of the flat state arrays that the compiled core works on.

Every `*_FIELDS` constant is the width of one row. Times are SM clock cycles (int64); NEVER marks an event whose time is
not known yet (a reply that is still on its way). One row per warp slot, block slot, sub-partition or SM.
More than 500 lines, because it is one table.
"""

import numpy as np

NEVER = np.int64(1) << 60
CONSTANT_NOWHERE = -1  # of a line in State.constant or State.loaded: no cache of the SM has it

#: Steps of an instruction: its values are computed, else a recording says what its time depends on (`sm.recording`);
#: its time is booked, else every reply comes at once; what its time depends on is recorded; its requests are kept.
COMPUTES, BOOKS, RECORDS, KEEPS = 1, 2, 4, 8
#: Modes of a run, by the steps of which it consists.
TIMED, REPLAYS = COMPUTES | BOOKS, BOOKS
FUNCTIONAL, KEEPS_REQUESTS, RECORDING = COMPUTES, COMPUTES | KEEPS, COMPUTES | RECORDS

# --- warp: one row per warp slot ---------------------------------------------------------------------------
(
    W_STATE, W_PC, W_ACTIVE, W_ALIVE,
    W_BLOCK,  # block slot of the SM
    W_SEAT,  # P_SEAT of its launch
    W_AGE,  # launch order: larger is younger
    W_SINCE,  # cycle up to which the warp's time is attributed to a stall reason
    W_REASON,  # why it is blocked, while its wake-up time is unknown
    W_FETCHED,  # instruction line held in the warp's buffer
    W_STORES,  # stores and reductions not yet acknowledged
    W_BARRIER,  # named barrier that it waits at
) = range(12)
W_PENDING = 12  # six: replies that scoreboard still waits for
W_RELEASE = 18  # six: cycle at which the known part of the scoreboard is released
W_KIND = 24  # six: stall reason of a wait for the scoreboard
W_START = 30  # cycle at which it became resident
W_CLUSTER_ARRIVALS = 31  # how often it has arrived at the barrier of its cluster
W_CALL = 32  # cycle at which it asked the host for something
W_COPIES = 33  # token number + 1 of the asynchronous copies that no LDGDEPBAR has closed yet
W_GROUP_DONE = 34  # cycle at which the products of four warps that it has issued are done
W_EPOCH = 35  # how often it has synchronised, see engine.sm.shadow_clocks
W_DRAINED = 36  # cycle at which its last store has left the SM's queues
W_TOOK_OLD = 37  # 1 if a group of lanes goes on that is not the last one left behind
W_QUEUED = 38  # memory instructions that it has issued and that wait
W_READY_AT = 39  # cycle at which it was last known when it would be ready
W_DISPATCH = 40  # Q_DISPATCH of its sub-partition at that time
W_BUSY = 41  # Q_BUSY of its next instruction's unit
W_LOGGED = 42  # its number in the launch + 1 if what it does is logged
W_RECORD = 43  # place in State.recorded of its next word
W_CLOSED = 44  # token number + 1 of the group of asynchronous copies that it has closed last, if that is not over
W_GROUPS = 45  # groups of such products that it has committed
W_GROUP = 46  # GROUPS: cycles at which the last of them are done, group n at n % GROUPS
W_OPENS = 54  # cycle from which instructions may issue that wait for the barrier it has passed; NEVER: it is not open
W_DEFERRED = 55  # 1 + number of that barrier, 0 once it is open
W_BULK = 56  # token number + 1 of the bulk copies out of shared memory that no OP_BULK_COMMIT has closed yet
W_REGISTERS = 57  # registers of a thread that it has more than at the launch
W_FENCE = 58  # how far the fence is that it waits for, see engine.sm.fence
W_GROUP_BEGINS = 59  # cycle at which a tensor core takes the last product of four warps that it has issued
W_TURN = 60  # Q_TURNS when it began to wait for room in the memory queue, 0 if it does not
W_DATA = 61  # cycle from which the data stage works at its next memory instruction
W_INDEX = 62  # warp number within the block
W_LOOKED_AT = 63  # 1: its values are looked at, see engine.sm.toggles
GROUPS = 8  # as many as WARPGROUP.DEPBAR can name
W_FIELDS = 64

FREE, RUNNING, WAIT_SCOREBOARD, WAIT_BARRIER, WAIT_MEMBAR, WAIT_THROTTLE, WAIT_CLUSTER, WAIT_HOST = range(8)
WAIT_DRAIN = 8  # it has ended, but not all that it has issued is on its way
WAIT_GROUP = 9  # for the other warps of its four
WAIT_GRID = 10  # for the end of the grid before
STOPPED = 11  # the run has stopped before its instruction (`engine.stop`)

# --- split: the lanes of a warp that do not run, see engine.sm.lane_states -----------------------------------
WARP_LANES = 32
BLOCK_BARRIERS = 16
CONVERGENCE_BARRIERS = 20  # B0..B15, and four that stand for WARPSYNC with different lane masks
D_AGAIN = 0  # lanes that execute their instruction again: WARPSYNC lets them pass, a branch is not counted
D_SPIN = 1  # backward branches since another group of lanes last ran
D_FULL = 2  # 1: there was no room on the stack
D_DEPTH = 3  # entries of the stack
D_PARKED = 4  # lanes that can run and that the stack remembers
D_LAST, D_LAST_PC = 5, 6  # the lanes parked last and where they are, 0 if they are no group any more
D_CANDIDATE = 7  # lane that goes on when the stack is empty, -1 if none has been chosen
D_FIRST_COME = 8  # 1: it was chosen because it stopped first, not by a search
D_FOUND = 9  # the last lane that went on in this way
D_YIELDED = 10  # lanes that have given way
D_COLLECTIVE, D_INSIDE = 11, 12  # lanes that wait at WARPSYNC.COLLECTIVE; that run in another's copy of what it begins
D_SHARED = 13  # bits: convergence barriers to which lanes have come by more than one BSSY
D_PC = 14  # 32: where each lane is that does not run
D_STACK = D_PC + WARP_LANES  # 32
D_HELD = D_STACK + WARP_LANES  # 16: lanes at each of the block's barriers
D_MEMBERS = D_HELD + BLOCK_BARRIERS  # convergence barriers: who must meet
D_WAITING = D_MEMBERS + CONVERGENCE_BARRIERS  # who has arrived
D_KEPT = D_WAITING + CONVERGENCE_BARRIERS  # NOT_KEPT, KEPT or REPEATS of engine.sm.spinning
D_TURNS = D_KEPT + 1  # backward branches since it was last NOT_KEPT
D_FIELDS = D_TURNS + 1

# --- block -------------------------------------------------------------------------------------------------
B_STATE, B_X, B_Y, B_Z, B_WARPS_LEFT, B_ALIVE, B_START, B_NUMBER = range(8)
B_ARRIVED = 8  # 16: threads at each named barrier
B_EXPECTED = 24  # 16: threads it waits for (0: all of the block)
B_REDUCED = 40  # 16: running result of a reducing barrier
B_RESULT = 56  # 16: its value when it completed
(
    B_RANK,  # rank in its cluster
    B_CLUSTER,  # number of the cluster
    B_CLUSTER_ARRIVED,  # threads that have arrived at the barrier of the cluster
    B_CLUSTER_PHASE,  # how often that barrier has opened
    B_CLUSTER_TIME,  # cycle of the last arrival
    B_DRAINED,  # cycle at which the stores of its warps that have ended have left
) = range(72, 78)
B_PEER = 78  # 16: SM << 8 | block slot of each block of the cluster, by rank
B_HANDED = 94  # row of State.handed
B_REGISTERS = 95  # registers of a thread that its warps have given back, all together
B_GROUP = 96  # 8: warps of each four that are at WARPGROUP.ARRIVE
B_SEAT = 104  # P_SEAT of its launch
B_TRIGGERED = 105  # cycle from which the next grid of the stream may begin, 0: not yet
B_FIELDS = 112

# --- partition: one row per sub-partition ------------------------------------------------------------------
Q_NEXT, Q_LAST, Q_LSU_FREE, Q_WARPS = range(4)
Q_EVEN_FREE, Q_ODD_FREE = 4, 5  # register banks: cycle from which one reads again
Q_ENTERED = 6  # memory instructions that have entered its queue
Q_UNIT_FREE = 8
Q_GOES_ON = 24  # cycle at which the warp that issued last may do so again, if it is ready
Q_ADDRESS_FREE = 25  # cycle from which its address unit goes on
Q_ADDRESS = 26  # cycles at which the last instructions for that are taken up, the oldest first
ADDRESSES_WAITING = 3  # of them that wait in front of it
Q_BEYOND = Q_ADDRESS + ADDRESSES_WAITING + 1  # 1 if the last one in the queue goes beyond shared memory
Q_LEAVES = Q_BEYOND + 1  # cycle at which each of the last QUEUE_MOST of them leaves the queue
QUEUE_MOST = 32
Q_STORES = Q_LEAVES + QUEUE_MOST  # stores that have entered it
Q_STORE = Q_STORES + 1  # number, among all that have entered, of each of the last QUEUE_MOST of them
Q_PLACE = Q_STORE + QUEUE_MOST  # place in Q_LEAVES of the instruction that was handed over last
Q_PLACE_KEPT = Q_PLACE + 1  # 1 + place of an instruction that goes on, 0 if the next one to be handed over is new
Q_DISPATCH = Q_PLACE_KEPT + 1  # cycles in which nothing could issue because of register banks
Q_BUSY = Q_DISPATCH + 1  # of each unit: cycles in which it could take no instruction
Q_GROUP_FREE = Q_BUSY + 16  # cycle from which its tensor core takes part in another product of four warps
Q_TURNS = Q_GROUP_FREE + 1  # how often a warp has begun to wait for room in the memory queue
Q_WAITING = Q_TURNS + 1  # warps that do
Q_KEPT = Q_WAITING + 1  # instructions that wait for the way beyond the SM, see engine.sm.queued
Q_IN_TURN = Q_KEPT + 1  # issues for which warps take turns: one behind a yield or a busy pipe, two behind a full queue
Q_FIELDS = Q_IN_TURN + 1

# --- sm ----------------------------------------------------------------------------------------------------
(
    S_NOW,  # cycle of its error
    S_EVENTS,  # queued
    S_TAG_FREE,
    S_DATA_FREE,  # cycle from which the data stage takes an instruction in one of its two places
    S_ADU_FREE, S_IL1_FREE, S_IL15_FREE, S_OUTSTANDING,
    S_TOKEN_FREE,  # 1 + the last one given back, 0 if there is none; what was never used comes after these
    S_MSHR_FREE, S_CLOCK, S_ALLOCATION, S_DEFERRED, S_DEFERRED_LINES, S_BLOCKS, S_WARPS,
    S_DONE,  # blocks finished in this window
    S_CHUNK, S_LAUNCHED, S_ACTIVE_SINCE, S_ACTIVE_CYCLES, S_WARP_CYCLES, S_LAST_REPLY, S_THROTTLED, S_ERROR,
    S_ERROR_PC, S_ERROR_WARP, S_ERROR_LANE, S_ERROR_ADDRESS, S_ERROR_SIZE, S_ISSUED, S_IN_FLIGHT, S_LAST_EXIT,
    S_DONE_SEEN,
    S_ERROR_OTHER,  # of a race: record of the other access, see engine.sm.shadow_clocks
    S_STORE_FREE,  # cycle from which the way to L2 takes another store
    S_BLOCK_FREE,  # cycle from which another block may start
    S_FLITS,  # of stores and atomics that L2 has not acknowledged
    S_IL15_AHEAD,  # the same for L1.5 and what lies beyond
    S_IL1_AHEAD,  # instruction lines asked for ahead: cycle from which L1 takes another one
    S_CONSTANT_FREE,  # cycle from which another constant load is taken up
    S_SPECIAL_FREE,  # the same of a read of a special register
    S_QUEUED,  # memory instructions that wait for the way beyond the SM
    S_QUEUED_FIRST,  # the oldest of them
    S_QUEUED_LINES,  # a set of the lines of those that others can see, see `lines.line_filter`
    S_CONST_FIRST,  # lines that the first level of the constant caches has taken in so far; then the second
    S_CONST_SECOND,
    S_TOKENS_NEW,  # the first that was never used
    S_MSHRS_NEW,
    S_TOKENS,  # in use
    S_PART,  # which of `parts.PARTS` the host is at, if that is profiled
    S_GROUP_SHARED,  # quarter cycle from which shared memory is read for another product of four warps
    S_COPY_FREE,  # 1 + the last place of State.copy_lanes given back, 0 if there is none
    S_COPIES_NEW,  # the first that was never used
    S_WAITING,  # 1 + the first of the tokens that wait for an mbarrier's phase, 0 if there is none
    S_WAIT_ENDS,  # cycle at which the first of them gives up
    S_BULK_FREE,  # bulk copies: as S_TOKEN_FREE
    S_BULKS_NEW,  # as S_TOKENS_NEW
    S_ASKED,  # cycle of its last request to L2
    S_FENCED,  # when the last fence began that is over
    S_STORED,  # lines of stores that wait in State.stored
    S_STORED_FIRST,  # the oldest of them
    S_WAIT_FREE,  # 1 + the last row of State.waiting given back, 0 if there is none
    S_WAITS_NEW,  # the first that was never used
) = range(64)
S_LOG = 64  # which of its warps are logged, see engine.state.log
S_LOGGED = 65  # rows of its log; then of the addresses in it
S_LOG_LANES = 66
S_LOG_ROW = 67  # 1 + row of the instruction that is being executed, 0 if it is not logged
S_TURN = 68  # sub-partition that gets the first warp of the next block
S_CONST_THERE = 69  # cycle from which the line is there that constant loads wait for
S_CONST_WAITS = 70  # how many do
S_CONST_ASKED = 71  # cycle from which the constants that its GPC shares take requests for another line
S_CODE_SEEN = 72  # lines of code before this one have been asked for
S_ASKED_FAR = 73  # as S_ASKED, of lines of another partition of L2
S_FENCE_BEGAN = 74  # when the fence began that is under way, 0 if none is
S_FENCE_SYSTEM = 75  # 1 if it is of the scope of the system; then of the next one
S_FENCE_NEXT = 77
S_PARTITION = 76  # of L2, that it asks
S_DATA_SECOND = 78  # as S_DATA_FREE, in the other place
S_AGE = 79  # warps that it has got so far; then blocks
S_BLOCK_NUMBER = 80
S_L1_SETS = 81  # of its L1
S_CARVEOUT = 82  # bytes of its shared memory
S_CHANGED = 83  # atomics that changed what was there, counted only with P_STACK
CONSTANTS_WAITING = 28  # most that do
S_FIELDS = 88

(
    E_NONE, E_BOUNDS, E_MISALIGNED, E_SHARED_BOUNDS, E_LOCAL_BOUNDS, E_BAD_TARGET, E_BARRIER_EXITED, E_DEADLOCK,
    E_TRAP, E_UNSUPPORTED, E_CONSTANT_BOUNDS,
    E_CLUSTER,  # shared memory of a block that is not in the cluster or has ended
    E_CODE_END, E_UNINITIALIZED, E_RACE, E_BARRIER_DIVERGENT, E_BARRIER_COUNT, E_NOT_IN_MASK, E_EXITED_IN_MASK,
    E_POOL,  # one of POOLS is used up
    E_UNWAITED,  # an asynchronous copy that nobody has waited for
    E_STOPPED,  # no error: the run was to stop here
) = range(22)

#: What an SM has a fixed number of, as an error names it.
POOLS = (
    "memory instructions in flight", "L1 misses in flight", "events of an SM",
    "accesses that take effect at L2", "requests of an SM in a window", "memory instructions that wait for L2",
    "blocks that end in a window", "groups of lanes of a warp", "words of a recording",
    "asynchronous copies in flight", "bulk copies in flight", "mbarriers of a block that are checked",
)
(
    POOL_TOKENS, POOL_MSHRS, POOL_EVENTS, POOL_DEFERRED, POOL_REQUESTS, POOL_QUEUED, POOL_DONE, POOL_SPLITS,
    POOL_RECORD, POOL_COPIES, POOL_BULK, POOL_MBARRIERS,
) = range(12)

# --- token: one per memory instruction in flight -----------------------------------------------------------
(
    T_WARP, T_SCOREBOARD, T_LEFT, T_KIND, T_NEXT,
    T_SECTORS,  # of stores and atomics: lines under way
    T_AGE,
    T_TIME,  # copies: cycle at which the part of known time is over
    T_BLOCK,  # number of the block whose mbarrier hears of the end
    T_ADDRESS,  # of the mbarrier in shared memory
    T_AMOUNT,  # bytes or arrivals that it is told of; of one copy: the token of its group; of stores and atomics: flits
    T_AFTER,  # 1 + the token that hears when it is over, or the next one that waits for a phase; 0 if there is none
    T_BULK,  # 1 + row of State.bulk of what goes to shared memory then, 0: nothing
    T_SEAT,  # P_SEAT of its launch
) = range(14)
T_FIELDS = 14
TOKEN_LOAD, TOKEN_STORE, TOKEN_ATOMIC = range(3)
TOKEN_COPY = 3  # asynchronous copies: releases a scoreboard
TOKEN_COPY_ARRIVE = 4  # asynchronous copies: arrivals at an mbarrier
TOKEN_COPY_BYTES = 5  # asynchronous copies: transactions of an mbarrier
TOKEN_BULK_WRITE = 6  # bulk copies out of shared memory: releases a scoreboard
TOKEN_COPY_DATA = 7  # one asynchronous copy of a group; T_ADDRESS is its place in State.copy_lanes
TOKEN_PHASE = 8  # a look at an mbarrier that waits for its phase; T_ADDRESS is the mbarrier's word, T_AMOUNT the lanes
TOKEN_FENCE = 10  # T_TIME is when it began, T_SECTORS 1 once it is in its second half
TOKEN_REMOTE = 9  # another block's arrival: T_AMOUNT transactions less, T_SECTORS arrivals | dropped << 32

# --- copy: one per asynchronous copy in flight -------------------------------------------------------------
COPY_NEXT, COPY_PC, COPY_MASK, COPY_READING = range(4)
COPY_TARGET = 4  # 32: where it goes in its block's shared memory
COPY_SOURCE = COPY_TARGET + 32  # 32: addresses in global memory
COPY_FIELDS = COPY_SOURCE + 32

# --- bulk: one per bulk copy whose bytes have not moved yet ------------------------------------------------
(
    K_NEXT, K_PC, K_WARP,
    K_BLOCK,  # as T_BLOCK
    K_SHARED,  # address in shared memory, without a rank
    K_BARRIER,
    K_MEMORY,  # address in global memory, or of the source in shared memory
    K_BYTES,
    K_BLOCKS,  # set of ranks in the cluster that it goes to
    K_OFFSETS,  # distances of pixels from those of the box
) = range(10)
K_GROUP = K_BARRIER  # of what leaves shared memory: token of its group
K_CORNER = 10  # five coordinates
K_MAP = 15  # 16 words of the tensor map
K_SENT = 31  # of what leaves shared memory: cycle at which its last byte has left
K_SEAT = 32  # P_SEAT of its launch
K_FIELDS = 33
BULK_LINES = 2000  # requests of one copy at most; a box of more rows than this takes less time than it should

# --- mshr: one per line request of L1 in flight ------------------------------------------------------------
MSHR_LINE, MSHR_SECTORS, MSHR_COUNT, MSHR_NEXT, MSHR_WAY = range(5)
MSHR_MORE = 5  # 1 + row of State.waiting of the last token that found no room here, 0 if there is none
MSHR_TOKEN = 6
TOKENS_OF_MSHR = 10
MSHR_FIELDS = MSHR_TOKEN + TOKENS_OF_MSHR

# --- l1 tags -----------------------------------------------------------------------------------------------
L_TAG, L_VALID, L_PENDING, L_USED, L_MSHR = range(5)
L_WORDS = 5  # words that stores have left there, of sectors that are there or not
L_FIELDS = 6
L_WAY_BITS = 12
L_MSHR_BITS = 15  # four MSHR numbers share the word L_MSHR
L_MSHR_MASK = (1 << L_MSHR_BITS) - 1

# --- waiting: tokens that wait for a line request, behind those in its MSHR -------------------------------
WAIT_TOKEN, WAIT_NEXT, WAIT_FIELDS = range(3)
WAITS_MOST = 4096  # of an SM; a load that finds no room asks for its sectors itself

# --- stored: lines of plain stores that have not left for L2, a ring ---------------------------------------
(
    STORED_LINE, STORED_SECTORS,
    STORED_WORDS,  # written whole
    STORED_BYTES,
    STORED_READY,  # cycle from which it may leave
    STORED_TOKEN,
    STORED_POLICY,  # of the first store to it
    STORED_SMSP,
) = range(8)
STORED_FIELDS = 8
STORED_MOST = 64

# --- deferred: what must take effect at L2 in time order ---------------------------------------------------
X_PC, X_WARP, X_MASK, X_DONE, X_REMOTE = range(5)  # X_REMOTE: on the shared memory of another block
X_BULK = 5  # 1 + row of State.bulk of a bulk copy, 0 for other accesses
X_LEFT = 6  # requests of it that have not been served; then the last reply to those that have
X_TIME = 7
X_LINES = 8  # the lines of an access to device memory, see `lines.line_filter`; else 0
X_FIELDS = 9

# --- held: memory instructions that wait for the way beyond the SM, a ring ---------------------------------
QUEUED_WARP, QUEUED_PC, QUEUED_SMSP, QUEUED_MASK, QUEUED_SIZE, QUEUED_COUNT, QUEUED_PATH, QUEUED_PLACE = range(8)
QUEUED_POLICY, QUEUED_FIELDS = 8, 9
QUEUED_LINES = 64  # lines of one instruction

# --- log: what chosen warps do, one row per event, see engine.state.log ------------------------------------------
LOG_START, LOG_END, LOG_ISSUE, LOG_STALL, LOG_VALUE = range(5)
(
    V_KIND,
    V_WARP,  # number in the launch
    V_START, V_END, V_PC, V_REASON,
    V_SMSP,  # sub-partition of the SM
    V_SLOT, V_ACTIVE, V_EXECUTED, V_WAVEFRONTS, V_IDEAL, V_SECTORS, V_LINES,
    V_LOCAL,  # 1: an access to local memory
    V_ACCESS,  # row of its addresses
    V_DIVERGENT,  # by how many targets its lanes part
) = range(17)
V_FIELDS = 17
V_GUARDED = V_END  # of an issue: lanes for which its guard holds
V_VALUES = V_REASON  # of an issue: row of the values that it tells a barrier, as a tracer wants them, -1 without
V_REGISTER = V_PC  # of values: row of the register in its warp, or the row behind all: predicates

# --- stall reasons, in Nsight Compute's words --------------------------------------------------------------
STALLS = (
    "selected", "not_selected", "wait", "long_scoreboard", "short_scoreboard", "barrier", "branch_resolving",
    "no_instruction", "imc_miss", "math_pipe_throttle", "mio_throttle", "lg_throttle", "membar", "sleeping",
    "drain", "dispatch_stall", "tex_throttle", "misc",
)
(
    R_SELECTED, R_NOT_SELECTED, R_WAIT, R_LONG, R_SHORT, R_BARRIER, R_BRANCH, R_NO_INSTRUCTION, R_IMC, R_MATH,
    R_MIO, R_LG, R_MEMBAR, R_SLEEPING, R_DRAIN, R_DISPATCH, R_TEX, R_MISC,
) = range(18)

# --- line: counters per instruction ------------------------------------------------------------------------
(
    N_EXECUTED, N_THREADS, N_PRED_ON, N_DIVERGENT, N_BRANCHES, N_SHARED_WAVEFRONTS, N_SHARED_IDEAL, N_REQUESTS,
    N_SECTORS, N_SECTORS_IDEAL, N_TAGS, N_HITS, N_SHARED_REQUESTS, N_MISSES,
    N_SHARED_DATA,  # wavefronts of shared-memory instructions as the hardware counts them, see engine.sm.coalescer
    N_SHARED_CONFLICTS,  # of those, bank conflicts
    N_HEAVY,  # single-precision instructions that went to the heavy half of the FMA pipe
    N_TURNS,  # further turns of the ADU: other addresses or values of one instruction, constants that are not there
    N_PAST_L1,  # pairs of sectors of asynchronous copies past L1, see engine.sm.copy_cost
    N_L1_DATA,  # turns of the data stage of loads and stores of global and local memory, see `l1.data_turns`
    N_LOOKED,  # values that were looked at, see engine.sm.toggles
    N_TOGGLED,  # bits of them that differ from what their register held before
    N_SPREAD,  # and from that of another lane
) = range(23)
N_STALL = 23
N_FIELDS = N_STALL + 21
