"""A program of processes with a GPU each, by functions of the driver's and NCCL's: `ranks_program.py WAY RANKS`."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from ctypes import byref, c_float, c_int, c_uint64, c_void_p

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 p, .param .u32 n) {
  .reg .b64 %p, %i; .reg .b32 %t, %n, %k, %b; .reg .f32 %v; .reg .pred %q;
  ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %k, %ntid.x;
  mad.lo.u32 %t, %b, %k, %t; mul.wide.u32 %i, %t, 4; add.u64 %p, %p, %i; ld.global.f32 %v, [%p]; mov.u32 %k, 0;
again:
  fma.rn.f32 %v, %v, 0f3f800000, 0f3f800000; add.u32 %k, %k, 1; setp.lt.u32 %q, %k, %n; @%q bra again;
  st.global.f32 [%p], %v; ret;
}
.visible .entry wild(.param .u64 p, .param .u32 n) {
  .reg .b64 %p; .reg .f32 %v;
  mov.u64 %p, 16; ld.global.f32 %v, [%p]; st.global.f32 [%p], %v; ret;
}
"""
COUNT, FLOAT, SUM, NOT_READY, UNIQUE_BYTES = 1024, 7, 0, 600, 128


class UniqueId(ctypes.Structure):
    _fields_ = (("words", ctypes.c_char * UNIQUE_BYTES),)


class Rank:
    """A process with a stream and an array of ones, of which a kernel makes n more. key: of the communicator."""

    def __init__(self, rank, size, key=None, ordinal=None):
        self.rank, self.comm = rank, c_void_p()
        self._cuda, self._nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
        self.do("cuInit", 0)
        self.context = self.made("cuDevicePrimaryCtxRetain", rank if ordinal is None else ordinal)
        self.do("cuCtxSetCurrent", self.context)
        module = self.made("cuModuleLoadData", PTX)
        self.stream, self.data = self.made("cuStreamCreate", 1), self.made("cuMemAlloc_v2", c_uint64(4 * COUNT))
        self.kernels = {name: self.made("cuModuleGetFunction", module, name) for name in (b"work", b"wild")}
        self.do("cuMemsetD32_v2", self.data, 0x3F800000, c_uint64(COUNT))
        if key is not None:
            self.do("ncclCommInitRank", byref(self.comm), size, UniqueId.from_buffer_copy(key), rank)

    def do(self, name, *arguments):
        code = getattr(self._nccl if name.startswith("nccl") else self._cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def made(self, name, *arguments):
        place = c_void_p()
        self.do(name, byref(place), *arguments)
        return place

    def launch(self, n=10, blocks=8, name=b"work"):
        values = self.data, c_int(n)
        places = (c_void_p * 2)(*map(ctypes.addressof, values))
        self.do("cuLaunchKernel", self.kernels[name], blocks, 1, 1, 128, 1, 1, 0, self.stream, places, None)

    def reduce(self, count=COUNT):
        self.do("ncclAllReduce", self.data, self.data, c_uint64(count), FLOAT, SUM, self.comm, self.stream)

    def wait(self):
        self.do("cuStreamSynchronize", self.stream)

    def values(self):
        found = (c_float * COUNT)()
        self.wait()
        self.do("cuMemcpyDtoH_v2", found, self.data, c_uint64(4 * COUNT))
        return sorted(set(found))

    def event(self):
        made = self.made("cuEventCreate", 0)
        self.do("cuEventRecord", made, self.stream)
        return made

    def is_pending(self, event):
        return self._cuda.cuEventQuery(event) == NOT_READY

    def nanoseconds(self, first, last):
        found = c_float()
        self.do("cuEventElapsedTime_v2", byref(found), first, last)
        return round(found.value * 1e6)


# --- what a rank does -------------------------------------------------------------------------------------------------


def sums(rank, size, key):
    own = Rank(rank, size, key)
    own.launch(rank + 1)
    own.reduce()
    print(own.values())


def times(rank, size, key):
    """Kernels, copies and collectives, while a thread looks on and the processes are held up now and then."""
    own, watched, ends = Rank(rank, size, key), [], threading.Event()
    host, taken = own.made("cuMemAllocHost_v2", c_uint64(4 * COUNT)), []

    def look_on():
        own.do("cuCtxSetCurrent", own.context)
        while not ends.wait(0.003):
            for each in list(watched):
                own.is_pending(each)

    thread = threading.Thread(target=look_on)
    thread.start()
    for number in range(3):
        events = [own.event()]
        own.launch(20 + 30 * rank)
        events.append(own.event())
        own.do("cuMemcpyDtoHAsync_v2", host, own.data, c_uint64(4 * COUNT), own.stream)
        events.append(own.event())
        own.reduce()
        watched.append(own.event())
        time.sleep(int.from_bytes(os.urandom(1), "little") / 2000)
        looks = 0
        while own.is_pending(events[2]):
            looks += 1
        own.launch(50, 2 + rank)
        events += [watched[-1], own.event()]
        if number == 1:
            own.wait()
        taken.append((events, looks))
    own.wait()
    ends.set()
    thread.join()
    print([(looks, *map(own.nanoseconds, events, events[1:])) for events, looks in taken])


def turns(rank, size, key):
    """Ranks that wait for each other by messages."""
    own, taken = Rank(rank, size), []
    for _ in range(3):
        if rank:
            PEERS[0].recv(1)
        first = own.event()
        own.launch(20 + 30 * rank)
        last = own.event()
        own.wait()
        taken.append(own.nanoseconds(first, last))
        if not rank:
            for each in PEERS[1:]:
                each.send(b"x")
        own.launch(100)
        own.wait()
    print(taken)


def computes(rank, size, key):
    """The first computes for 0.3 s between two events, and the others wait for it."""
    own = Rank(rank, size, key)
    first, until = own.event(), time.process_time() + 0.3 * (not rank)
    while time.process_time() < until:
        pass
    own.reduce()
    last = own.event()
    own.wait()
    print(own.nanoseconds(first, last))


def killed(rank, size, key):
    own = Rank(rank, size, key)
    if rank:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    own.reduce()
    own.wait()


def raises(rank, size, key):
    own = Rank(rank, size, key)
    if rank:
        raise ValueError("a mistake")
    own.reduce()
    own.wait()


def absent(rank, size, key):
    own = Rank(rank, size, key)
    if rank:
        return PEERS[0].recv(1)
    try:
        own.reduce()
        own.wait()
    finally:
        for each in PEERS[1:]:
            each.send(b"x")


def differs(rank, size, key):
    own = Rank(rank, size, key)
    own.reduce(COUNT - rank)
    own.wait()


def wild(rank, size, key):
    own = Rank(rank, size, key)
    if rank:
        time.sleep(0.3)
        own.launch(name=b"wild")
    own.reduce()
    own.wait()


def waits(rank, size, key):
    own = Rank(rank, size, key)
    if rank:
        print("waits")
        return PEERS[0].recv(1)
    own.reduce()
    own.wait()


def shares(rank, size, key):
    """Two processes on a GPU."""
    own = Rank(rank, size, ordinal=rank // 2)
    own.launch(rank + 1)
    print(own.values())


def hidden(rank, size, key):
    """Each sees one GPU, which is its first."""
    os.environ["CUDA_VISIBLE_DEVICES"] = str(size - 1 - rank)
    own = Rank(rank, size, key, ordinal=0)
    own.launch(rank + 1)
    own.reduce()
    print(own.values())


def late(rank, size, key):
    """The others come to CUDA when the first has had it for a while; one works for itself before that."""
    if rank:
        PEERS[0].recv(1)
    else:
        alone = Rank(0, 1)
        alone.launch(5)
        print(alone.values())
        for each in PEERS[1:]:
            each.send(b"x")
    sums(rank, size, key)


# --- the program ------------------------------------------------------------------------------------------------------

PEERS: list[socket.socket] = []
"""How a rank reaches the others; of all but the first only that is there."""


def body(way, rank, size, key):
    """Do what a rank does, and end as a program does whose exception is told."""
    try:
        globals()[way](rank, size, key)
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}")
        code = 3
    sys.stdout.flush()
    return code


def main(way, size):
    """Fork the ranks, or start them as programs, whose standard input is their message."""
    unique = UniqueId()
    if way != "turns":
        ctypes.CDLL("libnccl.so.2").ncclGetUniqueId(byref(unique))
    key, pairs, children = bytes(unique), [socket.socketpair() for _ in range(size)], []
    for rank in range(size):
        words = [sys.executable, __file__, way, str(size), str(rank), key.hex()]
        files = [pairs[each][rank == each].fileno() for each in (range(size) if not rank else [rank])]
        children.append(subprocess.Popen([*words, ",".join(map(str, files))], pass_fds=files, stdout=subprocess.PIPE))
    for end in (end for pair in pairs for end in pair):
        end.close()
    for rank, child in enumerate(children):
        text, _ = child.communicate()
        for line in text.decode().splitlines():
            print(rank, line)
        print(rank, "ended with", child.returncode, flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], int(sys.argv[2]))
    else:
        way, size, rank, key, files = sys.argv[1:]
        PEERS += [socket.socket(fileno=int(each)) for each in files.split(",")]
        sys.exit(body(way, int(rank), int(size), bytes.fromhex(key)))
