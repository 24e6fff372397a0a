"""NCCL's stand-in: what collectives and messages do, for every type, and what is told of calls that do not fit."""

from __future__ import annotations

import struct
import sys
from ctypes import c_float, c_int, c_uint64, create_string_buffer

import numpy as np
import pytest

from gpusim.driver.libraries.nccl.calls import BFLOAT16, RankCall, move
from gpusim.launch.memory import DeviceMemory
from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
INT32, FLOAT, SUM, PRODUCT, GREATEST, LEAST, MEAN = 2, 7, 0, 1, 2, 3, 4
INVALID_ARGUMENT, INVALID_USAGE, IN_PROGRESS, NOT_READY = 4, 5, 7, 600
COUNT = 64


class Ranks(Calls):
    """Calls of GPUs that communicate, each with arrays of its own."""

    def __init__(self, size=2, mode="functional"):
        super().__init__("tiny", "libcuda.so.1", mode, gpus=size)
        from gpusim.driver.exports import LIBRARIES

        self._library = LIBRARIES["libnccl.so.2"]
        self.comms = (c_uint64 * size)()
        self.do("ncclCommInitAll", self.comms, size, None)
        self.sent, self.got, self.values = [], [], []
        for rank in range(size):
            self.do("cudaSetDevice", rank)
            self.sent.append(self.allocated())
            self.got.append(self.allocated())
            self.values.append(np.arange(COUNT, dtype=np.float32) * (rank + 1) + rank)
            self.view(self.sent[-1]).view(np.float32)[...] = self.values[-1]

    def allocated(self):
        return self.handle("cudaMalloc", 4 * COUNT)

    def view(self, address):
        return self.driver.device.memory.view(address, 4 * COUNT)

    def result(self, rank):
        return self.view(self.got[rank]).view(np.float32).copy()

    def together(self, name, *arguments):
        """Every rank's call in one group. arguments: functions of the rank, or what is the same for all."""
        self.do("ncclGroupStart")
        for rank, comm in enumerate(self.comms):
            given = [each(rank) if callable(each) else each for each in arguments]
            self.do(name, self.sent[rank], self.got[rank], *given, comm, 0)
        self.do("ncclGroupEnd")
        for rank in range(len(self.comms)):
            self.do("cudaSetDevice", rank)
            self.do("cudaDeviceSynchronize")


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_every_collective(size, mode):
    ranks = Ranks(size, mode)
    values, piece = ranks.values, COUNT // size
    ranks.together("ncclAllReduce", COUNT, FLOAT, SUM)
    assert all((ranks.result(rank) == sum(values)).all() for rank in range(size))
    ranks.together("ncclReduce", COUNT, FLOAT, GREATEST, 1)
    assert (ranks.result(1) == np.max(values, axis=0)).all()
    ranks.together("ncclBroadcast", COUNT, FLOAT, 1)
    assert all((ranks.result(rank) == values[1]).all() for rank in range(size))
    ranks.together("ncclReduceScatter", piece, FLOAT, SUM)
    assert all((ranks.result(k)[:piece] == sum(values)[k * piece : (k + 1) * piece]).all() for k in range(size))
    ranks.together("ncclAllGather", piece, FLOAT)
    assert all((ranks.result(k) == np.concatenate([each[:piece] for each in values])).all() for k in range(size))
    ranks.together("ncclAlltoAll", piece, FLOAT)
    for k in range(size):
        assert (ranks.result(k) == np.concatenate([each[k * piece : (k + 1) * piece] for each in values])).all()
    ranks.together("ncclScatter", piece, FLOAT, 0)
    assert all((ranks.result(k)[:piece] == values[0][k * piece : (k + 1) * piece]).all() for k in range(size))
    ranks.together("ncclGather", piece, FLOAT, 0)
    assert (ranks.result(0) == np.concatenate([each[:piece] for each in values])).all()
    assert ranks.driver.log.gpus.collectives and (mode == "detailed") == (ranks.driver.now_cycles > 0)


def test_messages_of_a_group_are_under_way_at_once():
    ranks = Ranks(2)
    ranks.do("ncclGroupStart")
    for rank, comm in enumerate(ranks.comms):
        ranks.do("ncclSend", ranks.sent[rank], COUNT, FLOAT, 1 - rank, comm, 0)
        ranks.do("ncclRecv", ranks.got[rank], COUNT, FLOAT, 1 - rank, comm, 0)
    ranks.do("ncclGroupEnd")
    ranks.do("cudaDeviceSynchronize")
    assert all((ranks.result(rank) == ranks.values[1 - rank]).all() for rank in range(2))


def test_a_sum_of_scaled_elements():
    ranks = Ranks(2)
    scales = [(c_float(rank + 0.5), FLOAT, 1, comm) for rank, comm in enumerate(ranks.comms)]
    numbers = [ranks.number("ncclRedOpCreatePreMulSum", *each) for each in scales]
    ranks.together("ncclAllReduce", COUNT, FLOAT, lambda rank: numbers[rank])
    assert (ranks.result(0) == ranks.values[0] * np.float32(0.5) + ranks.values[1] * np.float32(1.5)).all()
    ranks.do("ncclRedOpDestroy", numbers[0], ranks.comms[0])
    assert ranks("ncclRedOpDestroy", numbers[0], ranks.comms[0]) == INVALID_ARGUMENT


def test_calls_that_do_not_fit_are_told_by_rank(capfd):
    ranks = Ranks(2)
    ranks.do("ncclAllReduce", ranks.sent[0], ranks.got[0], COUNT, FLOAT, SUM, ranks.comms[0], 0)
    code = ranks("ncclAllReduce", ranks.sent[1], ranks.got[1], COUNT // 2, FLOAT, SUM, ranks.comms[1], 0)
    assert code == INVALID_USAGE
    assert "rank 1 calls all_reduce of 32 elements of type 7, rank 0 all_reduce of 64" in capfd.readouterr().err


def test_a_rank_that_does_not_call_is_named(capfd, monkeypatch):
    monkeypatch.setattr("gpusim.driver.work.passing.ABSENT_SECONDS", 1)
    ranks = Ranks(2)
    ranks.do("ncclAllReduce", ranks.sent[0], ranks.got[0], COUNT, FLOAT, SUM, ranks.comms[0], 0)
    ranks.do("cudaSetDevice", 0)
    assert ranks("cudaDeviceSynchronize") != 0
    assert "all_reduce of 2 ranks waits for rank 1" in capfd.readouterr().err


@pytest.mark.parametrize("wrong", [(COUNT, 12, SUM), (COUNT, FLOAT, 9), (COUNT, 10, SUM)])
def test_what_is_not_a_type_or_an_operation(wrong):
    ranks = Ranks(2)
    code = ranks("ncclAllReduce", ranks.sent[0], ranks.got[0], *wrong, ranks.comms[0], 0)
    assert code == (INVALID_USAGE if wrong[1] == 10 else INVALID_ARGUMENT)


def communicators(ranks, name, *arguments):
    """Every rank's new communicator, of calls in one group. arguments: as for `Ranks.together`; None: the place."""
    made = (c_uint64 * len(ranks.comms))()
    ranks.do("ncclGroupStart")
    for rank, comm in enumerate(ranks.comms):
        place = c_uint64.from_buffer(made, 8 * rank)
        given = [each(rank) if callable(each) else place if each is PLACE else each for each in arguments]
        ranks.do("cudaSetDevice", rank)
        ranks.do(name, *given) if given[0] is place else ranks.do(name, comm, *given)
    ranks.do("ncclGroupEnd")
    return list(made)


PLACE = object()


def test_ranks_are_divided_by_color_and_ordered_by_key():
    ranks = Ranks(4)
    parts = communicators(
        ranks, "ncclCommSplit", lambda rank: rank % 2 if rank else -1, lambda rank: -rank, PLACE, None
    )
    assert parts[0] == 0
    found = [[number_behind(ranks, name, each) for name in ("ncclCommCount", "ncclCommUserRank")] for each in parts[1:]]
    assert found == [[2, 1], [1, 0], [2, 0]]
    ranks.comms = [parts[1], parts[3]]
    ranks.sent, ranks.got, ranks.values = ([each[1], each[3]] for each in (ranks.sent, ranks.got, ranks.values))
    ranks.together("ncclAllReduce", COUNT, FLOAT, SUM)
    assert (ranks.result(0) == ranks.values[0] + ranks.values[1]).all()


def number_behind(ranks, name, *arguments):
    """What a function writes to its last place."""
    place = c_int(-1)
    ranks.do(name, *arguments, place)
    return place.value


@pytest.mark.parametrize("name", ["ncclCommInitRankConfig", "ncclCommInitRankScalable"])
def test_who_does_not_wait_asks_whether_all_have_come(name):
    ranks, identity = Ranks(2), create_string_buffer(128)
    ranks.do("ncclGetUniqueId", identity)
    config = create_string_buffer(struct.pack("<QIIi", 20, 0xCAFEBEEF, 22809, 0))
    words = struct.unpack("<16Q", identity.raw)
    comms, states = [], []
    for rank in range(2):
        ranks.do("cudaSetDevice", rank)
        given = (2, words, rank, config) if name.endswith("Config") else (2, rank, 1, identity, config)
        comms.append(ranks.handle(name, *given))
        states.append([number_behind(ranks, "ncclCommGetAsyncError", each) for each in comms])
    assert states == [[IN_PROGRESS], [0, 0]]
    assert ranks("ncclCommInitRankConfig", c_uint64(), 1, words, 0, bytes(20)) == INVALID_ARGUMENT


def test_some_ranks_go_on_without_the_others():
    ranks, excluded = Ranks(4), c_int(1)
    ranks.comms = [ranks.comms[k] for k in (0, 2, 3)]
    left = communicators(ranks, "ncclCommShrink", excluded, 1, PLACE, None, 0)
    assert [number_behind(ranks, "ncclCommUserRank", each) for each in left] == [0, 1, 2]
    assert number_behind(ranks, "ncclCommCount", left[0]) == 3


def test_a_stream_goes_on_when_its_rank_aborts():
    ranks = Ranks(2)
    before = ranks.result(0)
    ranks.do("ncclAllReduce", ranks.sent[0], ranks.got[0], COUNT, FLOAT, SUM, ranks.comms[0], 0)
    ranks.do("cudaSetDevice", 0)
    assert ranks("cudaStreamQuery", 0) == NOT_READY
    ranks.do("ncclCommAbort", ranks.comms[0])
    ranks.do("cudaStreamSynchronize", 0)
    assert (ranks.result(0) == before).all()
    assert ranks("ncclCommCount", ranks.comms[0], c_int()) == INVALID_ARGUMENT
    ranks.do("ncclCommAbort", ranks.comms[1])


def test_nothing_is_a_count_too():
    ranks = Ranks(2)
    before = [ranks.result(rank) for rank in range(2)]
    for name, *what in (
        ("ncclAllReduce", SUM), ("ncclReduce", SUM, 0), ("ncclReduceScatter", SUM), ("ncclAllGather",),
        ("ncclAlltoAll",), ("ncclBroadcast", 0), ("ncclScatter", 0), ("ncclGather", 0),
    ):  # fmt: skip
        ranks.together(name, 0, FLOAT, *what)
    assert all((ranks.result(rank) == before[rank]).all() for rank in range(2))


def test_a_graph_of_collectives_meets_the_others_at_each_launch():
    ranks, graphs, streams = Ranks(2, "detailed"), [], []
    for rank, comm in enumerate(ranks.comms):
        ranks.do("cudaSetDevice", rank)
        streams.append(ranks.handle("cudaStreamCreate"))
        ranks.do("cudaStreamBeginCapture", streams[-1], 1)
        ranks.do("ncclAllReduce", ranks.sent[rank], ranks.sent[rank], COUNT, FLOAT, SUM, comm, streams[-1])
        ranks.do("ncclGroupStart")
        ranks.do("ncclSend", ranks.sent[rank], COUNT, FLOAT, 1 - rank, comm, streams[-1])
        ranks.do("ncclRecv", ranks.got[rank], COUNT, FLOAT, 1 - rank, comm, streams[-1])
        ranks.do("ncclGroupEnd")
        graph = c_uint64()
        ranks.do("cudaStreamEndCapture", streams[-1], graph)
        graphs.append(ranks.handle("cudaGraphInstantiate", graph.value, 0))
    for _ in range(3):
        for graph, stream in zip(graphs, streams, strict=True):
            ranks.do("cudaGraphLaunch", graph, stream)
    for stream in streams:
        ranks.do("cudaStreamSynchronize", stream)
    assert all((ranks.result(rank) == sum(ranks.values) * 4).all() for rank in range(2))
    assert ranks.driver.now_cycles > 0


def test_windows_are_addresses():
    ranks = Ranks(2)
    window = c_uint64()
    ranks.do("ncclCommWindowRegister", ranks.comms[0], ranks.sent[0], 4 * COUNT, window, 1)
    place = c_uint64()
    ranks.do("ncclWinGetUserPtr", ranks.comms[0], window.value, place)
    assert place.value == ranks.sent[0]
    ranks.do("ncclCommWindowDeregister", ranks.comms[0], window.value)


DTYPES = {0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8"}


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("operation", [SUM, PRODUCT, GREATEST, LEAST, MEAN])
def test_every_type_and_operation(kind, operation):
    rng, dtype = np.random.default_rng(kind), np.dtype(DTYPES[kind])
    rows = [rng.integers(0, 11, COUNT).astype(dtype) for _ in range(3)]
    folded = {SUM: sum(rows), PRODUCT: rows[0] * rows[1] * rows[2], GREATEST: np.max(rows, axis=0)}
    folded |= {LEAST: np.min(rows, axis=0)}
    if dtype.kind == "f":
        third = dtype.type(1 / 3)
        folded[MEAN] = rows[0] * third + rows[1] * third + rows[2] * third
    else:
        folded[MEAN] = sum(rows) // 3
    assert (reduced(rows, kind, operation).view(dtype) == folded[operation]).all()


def test_bfloat16_is_rounded_to_the_nearest_even():
    first = np.array([1.0, 1.0, 256.0, np.inf, -3.0], np.float32)
    second = np.array([2**-8, 3 * 2**-8, 1.0, -np.inf, 3.0], np.float32)
    bits = [(each.view(np.uint32) >> 16).astype(np.uint16) for each in (first, second)]
    found = reduced(bits, BFLOAT16, SUM).view(np.uint16).astype(np.uint32) << 16
    values = found.astype(np.uint32).view(np.float32)
    assert values[:3].tolist() == [1.0, 1.015625, 256.0] and np.isnan(values[3]) and values[4] == 0


def reduced(rows, kind, operation):
    """The bytes that an all-reduce leaves with every rank."""
    memory = DeviceMemory(1 << 20)
    calls = []
    for row in rows:
        sent, got = memory.alloc(row.nbytes), memory.alloc(row.nbytes)
        memory.view(sent, row.nbytes)[...] = row.view(np.uint8)
        calls.append(RankCall("all_reduce", sent, got, row.size, kind, operation))
    move(memory, calls)
    results = [memory.view(each.receive, rows[0].nbytes).copy() for each in calls]
    assert all((each == results[0]).all() for each in results)
    return results[0]
