"""NCCL's functions: communicators, groups, collectives and messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from gpusim.driver.caller import caller, constant_text, get_pointers, get_uint, put_pointer, read
from gpusim.driver.codes import ResultCode, fail_if, known
from gpusim.driver.libraries.nccl import calls as C
from gpusim.driver.libraries.nccl.calls import Clique, GroupRank, RankCall, post, values_of
from gpusim.driver.objects import DEVICE, DriverGpu
from gpusim.driver.registry import ENTRY_POINTS, entries, entry, same
from gpusim.driver.state import Driver
from gpusim.driver.work.streams import new_handle

VERSION = 22809
"""NCCL 2.28.9, whose choices `gpusim.collectives` makes."""
_BEGINS_SECONDS = 60.0
"""Host time for which a new communicator waits for ranks that show no sign: they may not have come to CUDA yet."""
_REMOTE_ERROR, _IN_PROGRESS = 6, 7  # ncclResult_t
_MAGIC, _ID_WORDS = 0xCAFEBEEF, 16
_OWN_OPERATIONS = 5  # from this ncclRedOp_t on
_TEXTS = (
    *("no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument"),
    *("invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"),
)


@dataclass
class CallGroup:
    """Calls of a thread between ncclGroupStart and ncclGroupEnd."""

    depth: int = 0
    begun: list[GroupRank] = field(default_factory=list)
    calls: list[tuple[GroupRank, RankCall, int]] = field(default_factory=list)


def _group(driver: Driver) -> CallGroup:
    found: CallGroup = driver.kept.setdefault((__name__, id(driver.thread)), CallGroup())
    return found


def _ranks(driver: Driver) -> dict[int, GroupRank]:
    found: dict[int, GroupRank] = driver.kept.setdefault(__name__, {})
    return found


def _rank(driver: Driver, handle: int) -> GroupRank:
    """The communicator of a handle. Raises INVALID_VALUE."""
    return known(_ranks(driver).get(handle), ResultCode.INVALID_VALUE)


def _join(driver: Driver, clique: Clique, rank: int, gpu: DriverGpu) -> GroupRank:
    """A GPU's new communicator. Raises INVALID_VALUE, NOT_PERMITTED for a rank or GPU that is there."""
    fail_if(not 0 <= rank < clique.size, ResultCode.INVALID_VALUE, f"rank {rank} of {clique.size} ranks")
    taken = rank in clique.ranks or any(each.gpu.number == gpu.number for each in clique.ranks.values())
    fail_if(taken, ResultCode.NOT_PERMITTED, f"rank {rank} or GPU {gpu.number} is in the communicator already")
    driver.simulated(gpu)
    made = clique.ranks[rank] = GroupRank(clique, rank, gpu)
    clique.met = max(clique.met, driver.time.host.time)
    clique.whole = len(clique.ranks) == clique.size
    _ranks(driver)[made.handle] = made
    driver.at_end.append(made.lose)
    return made


def _meet(driver: Driver, begun: Sequence[GroupRank]) -> None:
    """Wait until all ranks of new communicators have come. Raises UNKNOWN for ranks that do not."""
    for clique in {each.clique: None for each in begun}:  # of a split, where its ranks meet
        assert driver.queues is not None
        driver.queues.run_while(lambda clique=clique: not clique.whole, clique.absent, _BEGINS_SECONDS)
        driver.time.host.time = max(driver.time.host.time, driver.time.host.meet(clique.met))


def _begin(driver: Driver, made: GroupRank, config: int = 0) -> int:
    """The handle of a new communicator, all of whose ranks are there, at the latest at the end of the group, unless its
    ncclConfig_t says that nobody waits for that. Raises INVALID_VALUE for one that is not initialized."""
    group, waits = _group(driver), True
    if config:
        magic, waits = struct.unpack("<8xI4xi", read(config, 20))
        fail_if(magic != _MAGIC, ResultCode.INVALID_VALUE, "a ncclConfig_t begins as NCCL_CONFIG_INITIALIZER")
    if group.depth and waits:
        group.begun.append(made)
    elif waits:
        _meet(driver, [made])
    return made.handle


@entry("ncclGetUniqueId", "p", anytime=True)
def unique_id(driver: Driver, place: int) -> None:
    caller().write(place, new_handle().to_bytes(128, "little"))


@entry("ncclCommInitRank", "*p i U i", anytime=True)
@entry("ncclCommInitRankConfig", "*p i U i p", anytime=True)
def init_rank(driver: Driver, size: int, words: tuple[int, ...], rank: int, config: int = 0) -> int:
    fail_if(size < 1, ResultCode.INVALID_VALUE)
    clique = driver.joint.setdefault((__name__, words), Clique(size))
    fail_if(clique.size != size, ResultCode.INVALID_VALUE, f"{size} ranks, of which another named {clique.size}")
    return _begin(driver, _join(driver, clique, rank, driver.gpu), config)


@entry("ncclCommInitRankScalable", "*p i i i p p", anytime=True)
def init_scalable(driver: Driver, size: int, rank: int, ids: int, place: int, config: int) -> int:
    """Of several identities all ranks have the same."""
    fail_if(ids < 1, ResultCode.INVALID_VALUE)
    return init_rank(driver, size, get_pointers(place, _ID_WORDS), rank, config)


@entry("ncclCommInitAll", "p i p", anytime=True)
def init_all(driver: Driver, place: int, size: int, ordinals: int) -> None:
    fail_if(size < 1, ResultCode.INVALID_VALUE)
    clique = Clique(size)
    for rank in range(size):
        gpu = driver.gpu_of(get_uint(ordinals + 4 * rank) if ordinals else rank)
        put_pointer(place + 8 * rank, _join(driver, clique, rank, gpu).handle)


@entry("ncclCommSplit", "p i i *p p", anytime=True)
def split(driver: Driver, handle: int, color: int, key: int, config: int) -> int:
    """A communicator of the ranks that name the same color, in the order of their keys; none for a negative color. The
    rank that calls last divides all."""
    rank = _rank(driver, handle)
    clique = rank.clique.splits.setdefault(rank.order_of("split"), Clique(rank.clique.size))
    made = _join(driver, clique, rank.rank, rank.gpu)
    made.split = color, key
    if clique.whole:
        ordered = sorted(clique.ranks.values(), key=lambda each: (each.split, each.rank))
        for _, members in groupby(ordered, lambda each: each.split[0]):
            ranks = dict(enumerate(members))
            part = Clique(len(ranks), clique.met, True, ranks=ranks)
            for number, each in ranks.items():
                each.clique, each.rank = part, number
    _begin(driver, made, config)
    return made.handle if color >= 0 else 0


@entry("ncclCommShrink", "p p i *p p (i)", anytime=True)
def shrink(driver: Driver, handle: int, excluded: int, count: int, config: int) -> int:
    """A communicator of all ranks but some, which do not call."""
    rank = _rank(driver, handle)
    without = {get_uint(excluded + 4 * k) for k in range(count)}
    left = [k for k in range(rank.clique.size) if k not in without]
    fail_if(rank.rank in without, ResultCode.INVALID_VALUE, f"rank {rank.rank} is excluded, and calls")
    key = __name__, rank.clique, tuple(left), rank.order_of("shrink")
    clique = driver.joint.setdefault(key, Clique(len(left)))
    return _begin(driver, _join(driver, clique, left.index(rank.rank), rank.gpu), config)


def _end(driver: Driver, handle: int) -> None:
    rank = _rank(driver, handle)
    if not rank.clique.lost:
        driver.wait_for_all(rank.gpu)
    _ranks(driver).pop(handle).ended = True


def _abort(driver: Driver, handle: int) -> None:
    _rank(driver, handle).abort()
    _ranks(driver).pop(handle).ended = True


def _state(driver: Driver, handle: int) -> int:
    """A ncclResult_t: whether a communicator is in order."""
    clique = _rank(driver, handle).clique
    return _REMOTE_ERROR if clique.lost else 0 if clique.whole else _IN_PROGRESS


entries(
    ("ncclGetVersion", "*i", lambda driver: VERSION),
    ("ncclGetErrorString", "&i", lambda driver, code: constant_text(_TEXTS[code] if 0 <= code < len(_TEXTS) else "?")),
    ("ncclGetLastError", "&(p)", lambda driver: constant_text("")),
    ("ncclCommCount", "p *i", lambda driver, handle: _rank(driver, handle).clique.size),
    ("ncclCommCuDevice", "p *i", lambda driver, handle: _rank(driver, handle).gpu.ordinal),
    ("ncclCommUserRank", "p *i", lambda driver, handle: _rank(driver, handle).rank),
    ("ncclCommGetAsyncError", "p *i", _state),
    ("ncclCommFinalize", "p", lambda driver, handle: _rank(driver, handle) and None),
    ("ncclCommDestroy", "p", _end),
    ("ncclCommAbort", "p", _abort),
    # Nothing is made faster by that: any address can be named as it is.
    ("ncclCommRegister", "p p (q) *p", lambda driver, handle, address: _rank(driver, handle) and address),
    ("ncclCommWindowRegister", "p p (q) *p (i)", lambda driver, handle, address: _rank(driver, handle) and address),
    ("ncclWinGetUserPtr", "p p *p", lambda driver, handle, address: _rank(driver, handle) and address),
    ("ncclCommDeregister ncclCommWindowDeregister", "p (p)", lambda driver, handle: _rank(driver, handle) and None),
    ("ncclMemAlloc", "*p q", lambda driver, nbytes: driver.allocate(nbytes, DEVICE)),
    ("ncclMemFree", "p", lambda driver, address: driver.free(known(driver.buffer_at(address)))),
    anytime=True,
)


# --- groups -----------------------------------------------------------------------------------------------------------


@entry("ncclGroupStart", "", anytime=True)
def group_start(driver: Driver) -> None:
    _group(driver).depth += 1


@entry("ncclGroupEnd", "", anytime=True)
def group_end(driver: Driver) -> None:
    """Make the calls of the group: collectives in their order, the messages of a rank in a stream all at once."""
    group = _group(driver)
    fail_if(not group.depth, ResultCode.NOT_PERMITTED, "ncclGroupEnd without ncclGroupStart")
    group.depth -= 1
    if group.depth:
        return
    calls, group.calls = group.calls, []
    begun, group.begun = group.begun, []
    _meet(driver, [*begun, *(rank for rank, *_ in calls)])
    messages: dict[tuple[GroupRank, int], list[RankCall]] = {}
    for rank, call, stream in calls:
        if call.name in (C.SEND, C.RECEIVE):
            messages.setdefault((rank, stream), []).append(call)
        else:
            post(driver, rank, [call], driver.stream_of(stream, rank.gpu.primary))
    for (rank, stream), together in messages.items():
        post(driver, rank, together, driver.stream_of(stream, rank.gpu.primary))


def _call(driver: Driver, handle: int, stream: int, call: RankCall) -> None:
    """Make a call of a rank, or note it for the end of the group. Raises INVALID_VALUE."""
    rank = _rank(driver, handle)
    fail_if(not 0 <= call.kind < len(C.TYPES), ResultCode.INVALID_VALUE, f"there is no type {call.kind}")
    adds = call.name in ("all_reduce", "reduce", "reduce_scatter")
    fail_if(adds and call.kind > C.BFLOAT16, ResultCode.NOT_SUPPORTED, "floats of 8 bits are moved, not added")
    fail_if(not 0 <= call.root < rank.clique.size, ResultCode.INVALID_VALUE, f"there is no rank {call.root}")
    if call.operation >= _OWN_OPERATIONS:
        scale = known(rank.scales.get(call.operation), ResultCode.INVALID_VALUE)
        call = replace(call, operation=0, scale=scale)
    group = _group(driver)
    group.calls.append((rank, call, stream))
    if not group.depth:
        group.depth = 1
        group_end(driver)


# --- calls ------------------------------------------------------------------------------------------------------------


def _declare(name: str, signature: str, make: Callable[..., RankCall]) -> None:
    """Declare a function whose last arguments are a communicator and a stream."""

    def run(driver: Driver, *arguments: Any) -> None:
        *what, handle, stream = arguments
        _call(driver, handle, stream, make(*what))

    entry(name, f"{signature} p p", anytime=True)(run)


def _rooted(name: str) -> Callable[..., RankCall]:
    return lambda send, receive, count, kind, root: RankCall(name, send, receive, count, kind, root=root)


_declare("ncclAllReduce", "p p q i i", partial(RankCall, "all_reduce"))
_declare("ncclReduceScatter", "p p q i i", partial(RankCall, "reduce_scatter"))
_declare("ncclReduce", "p p q i i i", partial(RankCall, "reduce"))
_declare("ncclAllGather", "p p q i", partial(RankCall, "all_gather"))
_declare("ncclAlltoAll", "p p q i", partial(RankCall, "all_to_all"))
_declare("ncclBroadcast", "p p q i i", _rooted("broadcast"))
_declare("ncclBcast", "p q i i", lambda at, count, kind, root: RankCall("broadcast", at, at, count, kind, root=root))
_declare("ncclGather", "p p q i i", _rooted("gather"))
_declare("ncclScatter", "p p q i i", _rooted("scatter"))
_declare("ncclSend", "p q i i", lambda at, count, kind, peer: RankCall(C.SEND, at, 0, count, kind, root=peer))
_declare("ncclRecv", "p q i i", lambda at, count, kind, peer: RankCall(C.RECEIVE, 0, at, count, kind, root=peer))


@entry("ncclRedOpCreatePreMulSum", "*i p i i p", anytime=True)
def create_scaled(driver: Driver, scalar: int, kind: int, on_host: int, handle: int) -> int:
    """A sum of elements that are multiplied by a number first, which lies on the host (1) or on the device (0)."""
    rank = _rank(driver, handle)
    fail_if(not 0 <= kind <= C.BFLOAT16, ResultCode.INVALID_VALUE)
    nbytes = np.dtype(C.TYPES[kind]).itemsize
    data = read(scalar, nbytes) if on_host else driver.device.memory.view(scalar, nbytes).tobytes()
    number = _OWN_OPERATIONS + rank.order_of("operation")
    rank.scales[number] = float(values_of(np.frombuffer(data, "u1"), kind)[0])
    return number


@entry("ncclRedOpDestroy", "i p", anytime=True)
def destroy_scaled(driver: Driver, number: int, handle: int) -> None:
    known(_rank(driver, handle).scales.pop(number, None), ResultCode.INVALID_VALUE)


for _symbol in [each for each in ENTRY_POINTS if each.startswith("nccl")]:
    same(f"p{_symbol}", _symbol)  # by which a profiler's own functions of these names call them
