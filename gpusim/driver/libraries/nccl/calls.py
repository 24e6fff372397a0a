"""What the ranks of a communicator do together: who meets whom, how long it takes, and what it does to memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from gpusim.collectives import CollectiveResult, collective
from gpusim.driver.codes import ResultCode, fail_if
from gpusim.driver.work.launches import JointCall
from gpusim.driver.work.streams import KERNEL, DriverStream, SimpleWork, new_handle
from gpusim.launch.memory import DeviceMemory, round_up
from gpusim.node.work import Meeting

if TYPE_CHECKING:
    from gpusim.driver.objects import DriverGpu
    from gpusim.driver.state import Driver
    from gpusim.driver.work.queues import WorkQueues

HALF, FLOAT, DOUBLE, BFLOAT16 = 6, 7, 8, 9
TYPES = ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "u2", "u1", "u1")
"""NumPy's by ncclDataType_t; bfloat16 and the floats of 8 bits as their bits."""
SUM, MEAN = 0, 4  # ncclRedOp_t
_FOLDS: dict[int, Callable[..., Any]] = {SUM: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum, MEAN: np.add}
SEND, RECEIVE = "send", "receive"
_PIECES = ("all_gather", "reduce_scatter", "all_to_all")
"""Collectives that count what a rank has for each of the others."""


@dataclass(frozen=True)
class RankCall:
    """A call of one rank. count: elements, as the function counts; kind: ncclDataType_t; operation: ncclRedOp_t. root:
    or the other rank, of a message. scale: what a rank's elements are multiplied by first, if that is asked for."""

    name: str
    send: int
    receive: int
    count: int
    kind: int
    operation: int = SUM
    root: int = 0
    scale: float | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are counted."""
        return self.count * np.dtype(TYPES[self.kind]).itemsize

    def fits(self, other: RankCall) -> bool:
        """Return whether two ranks call for the same."""
        if SEND in (self.name, other.name):
            return self.nbytes == other.nbytes
        same = ("name", "count", "kind", "operation", "root")
        return all(getattr(self, each) == getattr(other, each) for each in same)

    def __str__(self) -> str:
        return f"{self.name} of {self.count:,} elements of type {self.kind}"


@dataclass(eq=False)
class Clique:
    """GPUs that communicate. whole: all ranks have come. meetings: that have not ended, and the calls of those who have
    come, by what names them. times: of collectives, by name, bytes, root and ranks. met: the latest host clock of a
    rank when it came. lost: ranks whose process has ended. splits: its ranks on their way to others."""

    size: int
    met: float = 0.0
    whole: bool = False
    lost: set[int] = field(default_factory=set)
    splits: dict[int, Clique] = field(default_factory=dict)
    ranks: dict[int, GroupRank] = field(default_factory=dict)
    meetings: dict[Any, tuple[Meeting, dict[int, RankCall]]] = field(default_factory=dict)
    times: dict[Any, CollectiveResult] = field(default_factory=dict)

    def absent(self) -> str:
        """Say who has not come."""
        ranks = ", ".join(str(k) for k in range(self.size) if k not in self.ranks)
        return f"a communicator of {self.size} ranks waits for rank {ranks}"

    def missed(self, ends: Sequence[int], made: Mapping[int, RankCall]) -> str:
        """Say whose process has ended without a call for a meeting; nothing if that is nobody."""
        ranks = enumerate(ends or range(self.size))
        gone = [str(rank) for place, rank in ranks if rank in self.lost and place not in made]
        return f"the process of rank {', '.join(gone)} has ended" if gone else ""


@dataclass(eq=False)
class GroupRank:
    """A GPU in a clique: what its user has is the handle of a communicator. split: color and key of a rank on its way.
    made: calls so far, by kind. scales: of its own operations, by number. given_up: fires when it does not wait for
    others any more. ended: its user has given it back."""

    clique: Clique
    rank: int
    gpu: DriverGpu
    split: tuple[int, int] = (0, 0)
    handle: int = field(default_factory=new_handle)
    given_up: Any = None
    ended: bool = False
    made: dict[Any, int] = field(default_factory=dict)
    scales: dict[int, float] = field(default_factory=dict)

    def lose(self) -> None:
        """The process has ended: it does not come to what it has not called for."""
        if not self.ended:
            self.clique.lost.add(self.rank)
            for (ends, *_), (meeting, made) in self.clique.meetings.items():
                meeting.lost = self.clique.missed(ends, made)

    def abort(self) -> None:
        """Wait for nobody any more, and let others not wait for it."""
        if self.given_up is not None:
            self.given_up.succeed()
        for (ends, *_), (meeting, _) in self.clique.meetings.items():
            if not meeting.begins.triggered and self.rank in (ends or range(self.clique.size)):
                meeting.lost = f"rank {self.rank} has aborted its communicator"

    def order_of(self, kind: Any) -> int:
        """The number of the next call of a kind."""
        self.made[kind] = self.made.get(kind, 0) + 1
        return self.made[kind]


def post(driver: Driver, rank: GroupRank, calls: Sequence[RankCall], stream: DriverStream) -> None:
    """Put a rank's part into its stream: one collective, or messages that are under way at once. A graph that captures
    it meets others each time that it is launched."""
    driver.simulated(rank.gpu)
    assert driver.queues is not None
    given_up = rank.given_up = rank.given_up or driver.queues.env.event()
    found, captured = _time(driver, rank, calls), stream.capture is not None
    keys = [_key(rank, call, captured) for call in calls]
    meetings = [] if captured else [_meeting(driver, rank, *each) for each in zip(calls, keys, strict=True)]

    what = calls[0].name, 1, calls[0].nbytes, "", ""
    if found is not None:
        how = f"{found.algorithm} {found.protocol}"
        what = found.name, found.ranks, found.nbytes, how, found.bottleneck.name

    def into(stream: DriverStream, queues: WorkQueues) -> None:
        again = [(*key, rank.order_of(key)) for key in keys if captured]
        now = meetings or [_meeting(driver, rank, *each) for each in zip(calls, again, strict=True)]
        call = JointCall(*what, rank.gpu.number, stream.shown_handle, stream.correlation)
        queues.join(stream, now, given_up, call, found)

    driver.enqueue(stream, SimpleWork(into, KERNEL))


def _key(rank: GroupRank, call: RankCall, captured: bool) -> tuple[Any, ...]:
    """What names a meeting: its ends, none of a collective, and its number among the same of a rank."""
    ends: tuple[int, ...] = ()
    if call.name in (SEND, RECEIVE):
        ends = (rank.rank, call.root) if call.name == SEND else (call.root, rank.rank)
    return ends, captured, rank.order_of((call.name if ends else "", ends, captured))


def _meeting(driver: Driver, rank: GroupRank, call: RankCall, key: tuple[Any, ...]) -> Meeting:
    """Where a call meets those of other ranks. Raises NOT_PERMITTED for one that does not fit theirs."""
    clique, ends = rank.clique, key[0]
    who = int(call.name == RECEIVE) if ends else rank.rank
    if key not in clique.meetings:
        made: dict[int, RankCall] = {}
        parts = len(ends) or clique.size
        told, queues = partial(_absent, ends, parts, made), driver.queues
        assert queues is not None
        clique.meetings[key] = Meeting(queues.env, parts, partial(_finish, driver, clique, key), told), made
    meeting, made = clique.meetings[key]
    gone = clique.missed(ends, made)
    fail_if(gone, ResultCode.ILLEGAL_STATE, gone)
    for other, theirs in made.items():
        fail_if(not call.fits(theirs), ResultCode.NOT_PERMITTED, f"rank {who} calls {call}, rank {other} {theirs}")
    made[who] = call
    return meeting


def _absent(ends: tuple[int, ...], parts: int, made: Mapping[int, RankCall]) -> str:
    """Say who has not called."""
    name = next(iter(made.values())).name
    if ends:
        return f"a message from rank {ends[0]} to rank {ends[1]} waits for rank {ends[name != RECEIVE]}"
    absent = ", ".join(str(k) for k in range(parts) if k not in made)
    return f"{name} of {parts} ranks waits for rank {absent}" if absent else f"{name} waits for a rank's stream"


def _time(driver: Driver, rank: GroupRank, calls: Sequence[RankCall]) -> CollectiveResult | None:
    """How long calls of a rank take on the node's links, None for one rank alone. Messages with several others take as
    long as if all sent to all."""
    clique, who = rank.clique, list(range(rank.clique.size))
    name, nbytes, root = calls[0].name, calls[0].nbytes, calls[0].root
    if name in (SEND, RECEIVE):
        who = sorted({rank.rank, *(each.root for each in calls)})
        nbytes = max(sum(each.nbytes for each in calls if each.name == way) for way in (SEND, RECEIVE))
        name, root = "send_recv" if len(calls) <= 2 else "all_to_all", 0
        nbytes = nbytes if len(calls) <= 2 else nbytes * len(who) // max(len(who) - 1, 1)
    elif name in ("gather", "scatter"):
        name, nbytes, root = "send_recv", (len(who) - 1) * nbytes, 0
    elif name in _PIECES:
        nbytes *= len(who)
    key = name, nbytes, root, *who
    if len(who) > 1 and nbytes and key not in clique.times:
        node = driver.node.among(clique.ranks[each].gpu.number for each in who)
        clique.times[key] = collective(name, round_up(nbytes, 4 * len(who)), None, node, root=root)
    return clique.times.get(key)


def _finish(driver: Driver, clique: Clique, key: Any) -> None:
    """Move the data of a meeting."""
    _, made = clique.meetings.pop(key)
    move(driver.device.memory, [made[rank] for rank in range(len(made))])


def move(memory: DeviceMemory, calls: Sequence[RankCall]) -> None:
    """Do to memory what the ranks have called for. calls: by rank; of a message the sender's and the receiver's."""
    name, nbytes, root, count = calls[0].name, calls[0].nbytes, calls[0].root, len(calls)

    def sent(place: int = 0, pieces: int = 1) -> list[np.ndarray]:
        return [_bytes(memory, each.send + place, nbytes * pieces) for each in calls]

    gets: list[tuple[int, np.ndarray]] = []
    if name == SEND:
        gets = [(1, _bytes(memory, calls[0].send, nbytes))]
    elif name in ("all_reduce", "reduce"):
        total = _total(calls, sent())
        gets = [(k, total) for k in range(count) if name == "all_reduce" or k == root]
    elif name == "reduce_scatter":
        gets = list(enumerate(np.split(_total(calls, sent(0, count)), count)))
    elif name in ("all_gather", "gather"):
        joined = np.concatenate(sent())
        gets = [(k, joined) for k in range(count) if name == "all_gather" or k == root]
    elif name == "all_to_all":
        gets = [(k, np.concatenate(sent(k * nbytes))) for k in range(count)]
    else:  # broadcast, scatter
        whole = _bytes(memory, calls[root].send, nbytes * (count if name == "scatter" else 1))
        pieces = np.split(whole, count) if name == "scatter" else [whole] * count
        gets = list(enumerate(pieces))
    for k, data in gets:
        if data.size:
            memory.view(calls[k].receive, data.size)[...] = data


def _bytes(memory: DeviceMemory, address: int, nbytes: int) -> np.ndarray:
    """A copy of bytes, which another rank may get where they are."""
    return memory.view(address, nbytes).copy() if nbytes else np.empty(0, "u1")


def _total(calls: Sequence[RankCall], sent: Sequence[np.ndarray]) -> np.ndarray:
    """The bytes of what all ranks have sent, combined in the order of ranks and rounded after each."""
    kind, operation, ranks = calls[0].kind, calls[0].operation, len(calls)
    values = [values_of(each, kind) for each in sent]
    is_float = kind in (HALF, FLOAT, DOUBLE, BFLOAT16)
    scales = [1 / ranks if operation == MEAN and is_float else call.scale for call in calls]
    fold = _FOLDS[operation]
    with np.errstate(all="ignore"):
        scaled = (
            v if scale is None else _rounded(v * v.dtype.type(scale), kind)
            for v, scale in zip(values, scales, strict=True)
        )
        total = reduce(lambda a, b: _rounded(fold(a, b), kind), scaled)
    if operation == MEAN and not is_float:
        total = np.trunc(total / ranks).astype(total.dtype)
    if kind == BFLOAT16:
        total = (total.view("u4") >> 16).astype("u2")
    return total.view("u1")


def values_of(data: np.ndarray, kind: int) -> np.ndarray:
    """Bytes as numbers of a ncclDataType_t."""
    found = data.view(TYPES[kind])
    return (found.astype("u4") << 16).view("f4") if kind == BFLOAT16 else found


def _rounded(values: np.ndarray, kind: int) -> np.ndarray:
    """Floats that hold bfloat16, rounded to it, to the nearest even; others as they are."""
    if kind != BFLOAT16:
        return values
    bits = values.view("u4")
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.where(np.isnan(values), bits | 0x400000, nearest).astype("u4").view("f4")
