"""Managed memory: what moves when host and GPU touch it, by faults and by prefetching. Never over 256 MiB at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np

from validate.streams.copying import view
from validate.streams.driver import ACCESSED_BY, HOST, PREFERRED, READ_MOSTLY, CallFailed
from validate.streams.lab import Lab, brief

KB, MB, PAGE = 1 << 10, 1 << 20, 4096
SIZES = (64 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB)
LOG_LIMIT = 16 * MB
GPU = 0
ODD = 7919
"""Multiplied with a page's number, modulo a power of two of pages, it gives every page once, far apart."""

Outcome = dict[str, Any]


class Managed:
    """An array of managed memory and what is done to it; every step gives a few numbers in us (of stamps: ns)."""

    def __init__(self, lab: Lab, nbytes: int) -> None:
        self.lab, self.driver, self.nbytes = lab, lab.driver, nbytes
        self.pages = nbytes // PAGE
        self.address = self.driver.managed(nbytes)
        self.steps: list[Outcome] = []

    def close(self) -> None:
        """Free it."""
        self.driver.synchronize()
        self.driver.free(self.address)

    def note(self, name: str, outcome: Outcome) -> None:
        """Keep what a step took."""
        self.steps.append({"step": name} | outcome)

    def host(self, name: str, *, write: bool = False, log: bool = False, pages: int | None = None) -> None:
        """The host touches one word of every page in order. log: time every page (through Python, so 0.3 us more)."""
        words = view(self.address, self.nbytes)[:: PAGE // 4][:pages]
        if log and len(words) <= 4096:
            times = np.zeros(len(words) + 1, np.int64)
            clock = time.perf_counter_ns
            start = times[0] = clock()
            for k in range(len(words)):
                if write:
                    words[k] = 2.0
                else:
                    words[k]
                times[k + 1] = clock()
            self.note(name, {"host_us": (times[-1] - start) / 1e3, "each_ns": np.diff(times).tolist()})
            return
        start = time.perf_counter_ns()
        if write:
            words[:] = 2.0
        else:
            words.sum()
        self.note(name, {"host_us": (time.perf_counter_ns() - start) / 1e3})

    def host_all(self, name: str, *, write: bool = False) -> None:
        """The host reads or writes every word."""
        words = view(self.address, self.nbytes)
        start = time.perf_counter_ns()
        if write:
            words[:] = 3.0
        else:
            words.sum()
        self.note(name, {"host_us": (time.perf_counter_ns() - start) / 1e3})

    def gpu(self, name: str, kernel: str, grid: int, threads: int, *arguments: Any) -> None:
        """A kernel; event_us between two events around it, its blocks, and the host's time."""
        lab, driver = self.lab, self.driver
        lab.begin()
        stream = lab.stream(0)
        lab.open()
        driver.call("cuStreamSynchronize", stream)
        first, last = driver.event(), driver.event()
        start = time.perf_counter_ns()
        driver.record(first, stream)
        lab.launch("kernel", stream, kernel, grid, threads, 0, *arguments)
        driver.record(last, stream)
        driver.call("cuStreamSynchronize", stream)
        took = (time.perf_counter_ns() - start) / 1e3
        blocks = lab.finish()["kernel"]
        it = brief(blocks)
        spans = [int(np.percentile(blocks[:, 2] - blocks[:, 1], part)) for part in (0, 50, 100)]
        self.note(name, {"event_us": driver.elapsed_us(first, last), "host_us": took,
                         "kernel_ns": it["last_end"] - it["first_start"], "block_ns": spans})  # fmt: skip

    def touch(self, name: str, grid: int = 1, threads: int = 1, *, write: int = 0, multiplier: int = 1,
              stride: int = PAGE, log: bool = False) -> None:  # fmt: skip
        """One word every stride bytes, by so many threads. log: when each came, in ns from the first thread's start."""
        places = self.nbytes // stride
        log = log and places <= LOG_LIMIT // PAGE
        times = self.driver.device_memory(places * 8) if log else 0
        self.gpu(name, "touch", grid, threads, c_uint64(self.address), c_int64(places), c_int64(stride // 4),
                 c_int64(multiplier), c_int(write), c_uint64(times))  # fmt: skip
        if log:
            values = np.zeros(places, np.int64)
            self.driver.call(
                "cuMemcpyDtoH_v2", c_void_p(values.ctypes.data), c_uint64(times), c_size_t(values.nbytes)
            )
            self.driver.free(times)
            self.steps[-1]["came_ns"] = (values - values.min()).tolist()

    def read(self, name: str) -> None:
        """All of it by the whole GPU."""
        self.gpu(name, "read_all", 264, 256, c_uint64(self.address), c_int64(self.nbytes // 16),
                 c_uint64(self.lab.scratch))  # fmt: skip

    def write(self, name: str) -> None:
        """All of it by the whole GPU."""
        self.gpu(name, "write_all", 264, 256, c_uint64(self.address), c_int64(self.nbytes // 16))

    def prefetch(self, name: str, place: int) -> None:
        """To the GPU or the host: event_us, and the host's time for the call and until it is done."""
        driver, stream = self.driver, self.lab.gate_stream
        driver.synchronize()
        first, last = driver.event(), driver.event()
        start = time.perf_counter_ns()
        driver.record(first, stream)
        driver.prefetch(self.address, self.nbytes, place, stream)
        called = time.perf_counter_ns()
        driver.record(last, stream)
        driver.call("cuStreamSynchronize", stream)
        done = time.perf_counter_ns()
        self.note(name, {"event_us": driver.elapsed_us(first, last), "call_us": (called - start) / 1e3,
                         "host_us": (done - start) / 1e3})  # fmt: skip

    def advise(self, advice: int, place: int) -> None:
        """Advise on all of it."""
        self.driver.advise(self.address, self.nbytes, advice, place)


def faults(it: Managed) -> None:
    """Host memory that the whole GPU reads; then again; then the host reads it back."""
    it.host("host writes", write=True)
    it.read("gpu reads")
    it.read("gpu reads again")
    it.host("host reads back")
    it.host("host reads again")
    it.read("gpu reads, host had read")
    it.host_all("host writes all", write=True)
    it.write("gpu writes")
    it.host_all("host reads all")


def in_order(it: Managed, multiplier: int = 1, threads: int = 1, blocks: int = 1, write: int = 0) -> None:
    """Host memory that one thread (or so many) of the GPU touches page by page, each after the one before."""
    it.host("host writes", write=True)
    it.touch("touch", blocks, threads, multiplier=multiplier, write=write, log=True)
    it.touch("touch again", blocks, threads, multiplier=multiplier, write=write, log=it.nbytes <= MB)
    it.host("host reads back", log=True)


def populate(it: Managed) -> None:
    """Memory that nothing has touched: one thread, page by page."""
    it.touch("touch untouched", write=2, log=True)
    it.host("host reads back", log=True)


def populate_wide(it: Managed) -> None:
    """Memory that nothing has touched, written by the whole GPU."""
    it.write("gpu writes untouched")
    it.write("gpu writes again")
    it.host("host reads back")


def populate_host(it: Managed) -> None:
    """Memory that nothing has touched, page by page on the host."""
    it.host("host writes untouched", write=True, log=True)
    it.host("host writes again", write=True, log=True)


def prefetched(it: Managed) -> None:
    """Prefetching there and back, with what kernel and host then take."""
    it.host("host writes", write=True)
    it.prefetch("prefetch to gpu", GPU)
    it.prefetch("prefetch to gpu again", GPU)
    it.read("gpu reads")
    it.prefetch("prefetch to host", HOST)
    it.host("host reads")
    it.read("gpu reads after")


def prefetched_untouched(it: Managed) -> None:
    """Prefetching memory that nothing has touched."""
    it.prefetch("prefetch to gpu", GPU)
    it.write("gpu writes")


def sparse(it: Managed, stride: int = 2 * MB) -> None:
    """One page of every stride; then which pages have come with it: those that come fast."""
    it.host("host writes", write=True)
    it.touch("touch sparsely", stride=stride, log=True)
    it.touch("touch every page", log=True)


def apart(stride: int) -> Callable[[Managed], None]:
    """sparse of this stride."""
    return lambda it: sparse(it, stride)


def half_block(it: Managed) -> None:
    """One warp: every lane a page of its own; then a block of 1,024 threads."""
    it.host("host writes", write=True)
    it.touch("touch by a warp", 1, 32, log=True)
    it.host("host writes back", write=True)
    it.touch("touch by a block", 1, 1024, log=True)
    it.host("host writes back", write=True)
    it.touch("touch by all", 264, 256, log=True)
    it.host("host writes back", write=True)
    it.touch("touch by all, pages far apart", 264, 256, multiplier=ODD, log=True)


def read_mostly(it: Managed) -> None:
    """Advised as read mostly: both read copies of their own until one writes."""
    it.host("host writes", write=True)
    it.advise(READ_MOSTLY, GPU)
    it.read("gpu reads")
    it.read("gpu reads again")
    it.host("host reads")
    it.read("gpu reads after host read")
    it.write("gpu writes")
    it.host("host reads after write")
    it.read("gpu reads after that")
    it.host("host writes again", write=True)
    it.read("gpu reads after host wrote")


def stays_on_host(it: Managed) -> None:
    """Preferred on the host and mapped for the GPU: kernels reach it over the bus."""
    it.advise(PREFERRED, HOST)
    it.advise(ACCESSED_BY, GPU)
    it.host("host writes", write=True)
    it.read("gpu reads")
    it.read("gpu reads again")
    it.touch("touch in order", log=True)
    it.write("gpu writes")
    it.host("host reads")


def accessed_by_host(it: Managed) -> None:
    """Preferred on the GPU: the host fetches it all the same, where it cannot map the GPU's memory."""
    it.advise(PREFERRED, GPU)
    it.host("host writes", write=True)
    it.read("gpu reads")
    it.host("host reads", log=True)
    it.read("gpu reads after")


def pingpong(it: Managed) -> None:
    """Host and GPU touch the same pages in turn."""
    for turn in range(8):
        it.host(f"host writes {turn}", write=True)
        it.touch(f"gpu touches {turn}", 1, 1, write=1)


def one_page(it: Managed) -> None:
    """The same for a single page: the latency of one fault."""
    view(it.address, it.nbytes)[:] = 1.0
    for turn in range(8):
        it.touch(f"gpu touches {turn}", stride=it.nbytes, write=1)
        it.host(f"host writes {turn}", write=True, pages=1)


def pinned(lab: Lab, nbytes: int) -> list[Outcome]:
    """For comparison: page-locked host memory that kernels read and write over the bus."""
    it = Managed(lab, PAGE)
    it.close()
    it.address, it.nbytes = lab.driver.pinned(nbytes), nbytes
    view(it.address, nbytes)[:] = 1.0
    it.read("gpu reads")
    it.read("gpu reads again")
    it.touch("touch in order")
    it.write("gpu writes")
    lab.driver.call("cuMemFreeHost", c_uint64(it.address))
    return it.steps


CASES: dict[str, tuple[Callable[[Managed], None], tuple[int, ...]]] = {
    "one page": (one_page, (64 * KB, 2 * MB)),
    "faults": (faults, SIZES),
    "in order": (in_order, SIZES),
    "far apart": (lambda it: in_order(it, ODD), (MB, 4 * MB, 16 * MB, 64 * MB)),
    "in order, written": (lambda it: in_order(it, write=1), (MB, 16 * MB)),
    "widths": (half_block, (MB, 16 * MB, 64 * MB)),
    "untouched": (populate, (MB, 4 * MB, 16 * MB)),
    "untouched, whole gpu": (populate_wide, SIZES),
    "untouched, host": (populate_host, (MB, 16 * MB)),
    "prefetch": (prefetched, SIZES),
    "prefetch untouched": (prefetched_untouched, SIZES),
    **{f"sparse {stride >> 10}KB": (apart(stride), (16 * MB,))
       for stride in (64 * KB, 128 * KB, 256 * KB, 512 * KB, MB, 2 * MB, 4 * MB)},
    "read mostly": (read_mostly, (MB, 64 * MB)),
    "stays on host": (stays_on_host, (MB, 64 * MB)),
    "preferred on gpu": (accessed_by_host, (MB, 64 * MB)),
    "pingpong": (pingpong, (64 * KB, 4 * MB)),
}  # fmt: skip


def managed(lab: Lab) -> dict[str, Any]:
    """Every case at its sizes, three times on fresh memory; page by page times of the first only."""
    warm = Managed(lab, MB)
    faults(warm)
    warm.close()
    found: dict[str, Any] = {}
    for name, (case, sizes) in CASES.items():
        for nbytes in sizes:
            rows = []
            for turn in range(3):
                it = Managed(lab, nbytes)
                failure = None
                try:
                    case(it)
                except CallFailed as error:
                    failure = str(error)
                with suppress(CallFailed):
                    it.close()
                if turn:
                    for step in it.steps:
                        step.pop("came_ns", None)
                        step.pop("each_ns", None)
                rows.append(it.steps if failure is None else [*it.steps, {"failed": failure}])
            found[f"{name}, {nbytes}"] = rows
    for nbytes in (MB, 64 * MB):
        found[f"pinned, {nbytes}"] = [pinned(lab, nbytes) for _ in range(3)]
    return found
