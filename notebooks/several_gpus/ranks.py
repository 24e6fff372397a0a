"""A process for each GPU, and NCCL between them: its C interface (nccl.h) for Numba's arrays.

`run(main)` starts as many processes as there are GPUs, and calls `main(comm)` in each.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from contextlib import contextmanager

from numba import cuda

FLOAT, SUM = 7, 0  # ncclDataType_t, ncclRedOp_t
_nccl = ctypes.CDLL("libnccl.so.2")
_nccl.ncclGetErrorString.restype = ctypes.c_char_p


class UniqueId(ctypes.Structure):
    """ncclUniqueId, by which the ranks of a communicator find each other."""

    _fields_ = (("bytes", ctypes.c_byte * 128),)


def _call(name, *arguments):
    status = getattr(_nccl, name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: {_nccl.ncclGetErrorString(status).decode()}")


def _of(array):
    return ctypes.c_void_p(array.__cuda_array_interface__["data"][0])


class Communicator:
    """What a rank has of a communicator. Arrays are of float32; a stream is one of Numba's, None the default one."""

    def __init__(self, unique: UniqueId, rank: int, ranks: int):
        self.rank, self.ranks, self._handle = rank, ranks, ctypes.c_void_p()
        _call("ncclCommInitRank", ctypes.byref(self._handle), ranks, unique, rank)

    def _collective(self, name, stream, *arguments):
        _call(name, *arguments, self._handle, ctypes.c_void_p(int(stream.handle) if stream else 0))

    def broadcast(self, array, root=0, stream=None):
        at, count = _of(array), ctypes.c_size_t(array.size)
        self._collective("ncclBroadcast", stream, at, at, count, FLOAT, root)

    def reduce(self, send, receive, root=0, stream=None):
        what = _of(send), _of(receive), ctypes.c_size_t(send.size)
        self._collective("ncclReduce", stream, *what, FLOAT, SUM, root)

    def all_reduce(self, send, receive, stream=None):
        self._collective("ncclAllReduce", stream, _of(send), _of(receive), ctypes.c_size_t(send.size), FLOAT, SUM)

    def reduce_scatter(self, send, receive, stream=None):
        what = _of(send), _of(receive), ctypes.c_size_t(receive.size)
        self._collective("ncclReduceScatter", stream, *what, FLOAT, SUM)

    def all_gather(self, send, receive, stream=None):
        self._collective("ncclAllGather", stream, _of(send), _of(receive), ctypes.c_size_t(send.size), FLOAT)

    def send(self, array, peer, stream=None):
        self._collective("ncclSend", stream, _of(array), ctypes.c_size_t(array.size), FLOAT, peer)

    def receive(self, array, peer, stream=None):
        self._collective("ncclRecv", stream, _of(array), ctypes.c_size_t(array.size), FLOAT, peer)

    @contextmanager
    def group(self):
        """Messages that are under way at once."""
        _call("ncclGroupStart")
        yield
        _call("ncclGroupEnd")


def _rank(main, unique, rank, ranks):
    cuda.select_device(rank)
    main(Communicator(UniqueId.from_buffer_copy(unique), rank, ranks))
    cuda.synchronize()


def run(main):
    """Call `main(comm)` in a process for each GPU that is visible. Ends this process as the worst of them ended."""
    context, unique, ranks = multiprocessing.get_context("spawn"), UniqueId(), len(cuda.gpus)
    _call("ncclGetUniqueId", ctypes.byref(unique))
    processes = [context.Process(target=_rank, args=(main, bytes(unique), rank, ranks)) for rank in range(ranks)]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    sys.exit(max(abs(each.exitcode) for each in processes))
