"""Times NCCL's collectives on the GPUs of this machine: `python measure_collectives.py OUT.json`.

Runs alone, with torch (a process per GPU) and CuPy (its thin binding of NCCL, so that little of a call's time is
Python's). NVLink multicast stays off. What it writes is what `collectives.py` reads, without NCCL's choices: those are
the lines "Algo" of a run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING,COLL.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
SIZES = [4 << 10 << k for k in range(19)]
CALLS, BEFORE = 40, 5


def call_of(comm: Any, name: str, rank: int, world: int, x: Any, y: Any, count: int, stream: int) -> Any:
    """The collective of `count` floats, the larger buffer of a rank, as a function without arguments."""
    from cupy.cuda import nccl

    real, total, part = nccl.NCCL_FLOAT32, nccl.NCCL_SUM, count // world
    send, receive = x.data.ptr, y.data.ptr

    def pairs(peers: list[tuple[int, int, int]], each: int) -> None:
        nccl.groupStart()
        for to, by, at in peers:
            comm.send(send + at, each, real, to, stream)
            comm.recv(receive + at, each, real, by, stream)
        nccl.groupEnd()

    return {
        "all_reduce": lambda: comm.allReduce(send, receive, count, real, total, stream),
        "all_gather": lambda: comm.allGather(send, receive, part, real, stream),
        "reduce_scatter": lambda: comm.reduceScatter(send, receive, part, real, total, stream),
        "broadcast": lambda: comm.broadcast(send, receive, count, real, 0, stream),
        "reduce": lambda: comm.reduce(send, receive, count, real, total, 0, stream),
        "all_to_all": lambda: pairs([(peer, peer, peer * part * 4) for peer in range(world)], part),
        "send_recv": lambda: pairs([((rank + 1) % world, (rank - 1) % world, 0)], count),
    }[name]


def measure(rank: int, world: int, port: int, turns: Any, queue: Any) -> None:
    """One rank: puts (rank, [[microseconds of each call, amortised microseconds] of each collective and size])."""
    import cupy
    import torch
    import torch.distributed as dist
    from cupy.cuda import nccl

    torch.cuda.set_device(rank)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    identity = [nccl.get_unique_id() if rank == 0 else None]
    dist.broadcast_object_list(identity, 0)
    view, turn, rows = turns.numpy(), 0, []

    def meet() -> None:
        # All hosts leave within a microsecond of each other.
        nonlocal turn
        turn += 1
        view[rank] = turn
        while view.min() < turn:
            pass

    with cupy.cuda.Device(rank):
        comm = nccl.NcclCommunicator(world, identity[0], rank)
        stream = cupy.cuda.Stream(non_blocking=True)
        x, y = cupy.ones(max(SIZES) // 4, cupy.float32), cupy.empty(max(SIZES) // 4, cupy.float32)
        first, last = cupy.cuda.Event(), cupy.cuda.Event()

        def timed(call: Any, times: int) -> float:
            stream.synchronize()
            meet()
            first.record(stream)
            for _ in range(times):
                call()
            last.record(stream)
            stream.synchronize()
            return cupy.cuda.get_elapsed_time(first, last) * 1e3

        for name in NAMES:
            for nbytes in SIZES:
                call = call_of(comm, name, rank, world, x, y, nbytes // 4, stream.ptr)
                for _ in range(BEFORE):
                    call()
                each = [timed(call, 1) for _ in range(CALLS)]
                many = 50 if nbytes <= 1 << 20 else 20
                rows.append([each, statistics.median(timed(call, many) / many for _ in range(3))])
    queue.put((rank, rows))
    dist.barrier()
    dist.destroy_process_group()


def main(out: str) -> None:
    """Measures on all GPUs, and on the first two and three of four."""
    import torch
    import torch.multiprocessing as mp

    gpus, calls = torch.cuda.device_count(), []
    for world in sorted({2, 3, gpus} if gpus > 2 else {gpus}):
        context = mp.get_context("spawn")
        turns, queue = torch.zeros(world, dtype=torch.int64).share_memory_(), context.Queue()
        workers = [
            context.Process(target=measure, args=(rank, world, 29600 + world, turns, queue)) for rank in range(world)
        ]
        for worker in workers:
            worker.start()
        by_rank = dict(queue.get(timeout=300) for _ in range(world))
        for worker in workers:
            worker.join()
        points = [(name, nbytes) for name in NAMES for nbytes in SIZES]
        for number, (name, nbytes) in enumerate(points):
            ranks = [by_rank[rank][number] for rank in range(world)]
            together = list(zip(*(each for each, _ in ranks), strict=True))
            calls.append([
                world, name, nbytes, round(statistics.median(map(max, together)), 1),
                round(statistics.median(map(min, together)), 1), round(statistics.mean(many for _, many in ranks), 1),
            ])  # fmt: skip
    about = {
        "gpus": gpus, "gpu": torch.cuda.get_device_name(0), "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())), "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    columns = ["ranks", "name", "nbytes", "last_us", "first_us", "amortised_us"]
    found = {"about": about, "columns": columns, "calls": calls, "choices": []}
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
