"""Small kernels that each lean on one part of the machine, for the tests that every parameter matters.

They are one source file, compiled once, so that a whole table of parameters costs one call of the compiler.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.result import Result
from isa import Program
from isa.instruction import Control
from tests.gpusim import sass
from tests.gpusim.kernels import Kernels

_CHAINS = {  # one instruction whose result the next one needs, and the kind of its register
    "fma": ("fma.rn.f32 %0, %0, %0, %0;", "f"),
    "imad": ("mad.lo.s32 %0, %0, %0, %0;", "r"),
    "alu": ("prmt.b32 %0, %0, %0, %0;", "r"),
    "half": ("fma.rn.f16x2 %0, %0, %0, %0;", "r"),
    "fp64": ("fma.rn.f64 %0, %0, %0, %0;", "d"),
    "xu": ("ex2.approx.ftz.f32 %0, %0;", "f"),
    "wide": ("mul.hi.u32 %0, %0, %0;", "r"),
    "shuffle": ("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;", "r"),
    "vote": ("{.reg .pred p; setp.ne.u32 p, %0, 7; vote.sync.ballot.b32 %0, p, -1;}", "r"),
    "match": ("match.any.sync.b32 %0, %0, -1;", "r"),
    "redux": ("redux.sync.add.s32 %0, %0, -1;", "r"),
    "block_fence": ("membar.cta;", "r"),
    "gpu_fence": ("membar.gl;", "r"),
    "system_fence": ("membar.sys;", "r"),
}
_TYPES = {"f": "float", "r": "unsigned", "d": "double"}


def _chain(name: str, instruction: str, kind: str) -> str:
    body = f'asm volatile("{instruction}" : "+{kind}"(a) :: "memory");' * 16
    return f"""
    extern "C" __global__ void k_{name}(unsigned *out, int rounds) {{
      {_TYPES[kind]} a = threadIdx.x;
      #pragma unroll 1
      for (int r = 0; r < rounds; r++) {{ {body} }}
      if (a == 12345) out[0] = 1;
    }}"""


_CHAIN_SOURCE = "".join(_chain(name, *how) for name, how in _CHAINS.items())


def _words(count: int, values: Any = 0) -> np.ndarray:
    return np.full(count, values, np.uint32)


def _stride(words: int, step: int) -> np.ndarray:
    """`next` of a chain that goes through `words` words in steps of `step` and comes back to where it began."""
    return ((np.arange(words) + step) % words).astype(np.uint32)


#: Machine code in which an instruction overwrites what the one before it reads, and waits for no more than that: before
#: it, what sets it up, then the two that are repeated.
_REUSE = {
    "reuse_global_load": ("", "LDG.E R4, desc[UR4][R2.64]", "IADD3 R2, R2, 0x0, RZ"),
    "reuse_global_store": ("", "STG.E desc[UR4][R2.64], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_global_vector": ("", "STG.E.128 desc[UR4][R2.64], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_shared_load": ("MOV R2, 0x400", "LDS R4, [R2]", "IADD3 R2, R2, 0x0, RZ"),
    "reuse_shared_store": ("MOV R2, 0x400", "STS [R2], R4", "IADD3 R4, R4, 0x1, RZ"),
    "reuse_constant_load": ("MOV R2, 0x210", "LDC R4, c[0x0][R2]", "IADD3 R2, R2, 0x0, RZ"),
}


#: What is launched, by name: kernel, blocks, threads of a block, its arguments behind `out`, words of `out`.
LAUNCHES: dict[str, tuple[str, int, int, Any, int]] = {
    **{name: (name, 1, 32, lambda: [4], 32) for name in _CHAINS},
    **{f"many_{name}": (name, 1, 1024, lambda: [4], 32) for name in _CHAINS},
    "tensor": ("tensor", 1, 32, lambda: [4], 32),
    "many_tensor": ("tensor", 1, 512, lambda: [4], 32),
    "many_short_sums": ("short_sums", 1, 512, lambda: [4], 32),
    "group": ("group", 1, 128, lambda: [8], 32),
    "loop": ("loop", 1, 32, lambda: [64], 32),
    "many_loop": ("loop", 1, 1024, lambda: [64], 32),
    "uniform": ("uniform", 1, 32, lambda: [8], 32),
    "call": ("call", 1, 32, lambda: [32], 32),
    "waiting": ("waiting", 1, 32, list, 32),
    "nested": ("nested", 1, 32, lambda: [16, 8], 32),
    "counted": ("counted", 1, 64, lambda: [32], 32),
    "barrier": ("barrier", 1, 256, lambda: [32], 32),
    "special": ("special", 1, 32, lambda: [16], 32),
    "many_special": ("special", 1, 512, lambda: [8], 32),
    "straight": ("straight", 1, 32, lambda: [2], 32),
    "many_straight": ("straight", 1, 512, lambda: [2], 32),
    "constants": ("constants", 1, 32, lambda: [64, 16, 256], 32),
    "far_constants": ("constants", 1, 32, lambda: [128, 16, 1024], 32),
    "shared_load": ("shared_load", 1, 32, lambda: [32, 1], 32),
    "shared_conflicts": ("shared_load", 1, 32, lambda: [32, 32], 32),
    "many_shared_conflicts": ("shared_load", 1, 512, lambda: [8, 8], 32),
    "shared_store": ("shared_store", 1, 1024, lambda: [4], 32),
    "shared_add": ("shared_add", 1, 32, lambda: [32, 1], 32),
    "many_shared_add": ("shared_add", 1, 512, lambda: [8, 8], 32),
    "copy": ("copy", 16, 256, lambda: [_words(1 << 16), 1 << 16], 1 << 16),
    "read": ("read", 8, 256, lambda: [_words(1 << 17), 1 << 15, 1], 32),
    "read_again": ("read", 8, 256, lambda: [_words(1 << 16), 1 << 14, 3], 32),
    "gather": ("gather", 1, 256, lambda: [_words(1 << 12), 16, 1, 1 << 12], 32),
    "gather_lines": ("gather", 2, 64, lambda: [_words(1 << 16), 16, 32, 1 << 16], 32),
    "together": ("gather", 4, 64, lambda: [_words(1 << 12), 16, 1, 1 << 12], 32),
    "twice": ("gather", 1, 256, lambda: [_words(1 << 14), 128, 1, 1 << 14], 32),
    "hits": ("gather", 1, 1024, lambda: [_words(1 << 12), 64, 1, 1 << 12], 32),
    "from_l2": ("gather", 1, 1024, lambda: [_words(1 << 15), 64, 1, 1 << 15], 32),
    "skewed": ("gather", 1, 512, lambda: [_words(1 << 13), 48, 33, 1 << 13], 32),
    "reread": ("reread", 1, 128, lambda: [8], 1024),
    "fields": ("fields", 1, 32, lambda: [8], 2048),
    "store_again": ("store_again", 1, 32, lambda: [16], 32),
    "sparse": ("gather", 1, 64, lambda: [_words(1 << 15), 8, 32, 1 << 15], 32),
    "chase_l1": ("chase", 1, 1, lambda: [_stride(256, 32), 64, 0], 32),
    "chase_l2": ("chase", 1, 1, lambda: [_stride(1024, 32), 96, 1], 32),
    "chase_row": ("chase", 1, 1, lambda: [_stride(1 << 12, 32), 64, 1], 32),
    "chase_pages": ("chase", 1, 1, lambda: [_stride(1 << 13, 1056), 600, 1], 32),
    "chase_together": ("chase", 4, 1, lambda: [_stride(1024, 32), 96, 1], 32),
    "chase_memory": ("chase", 1, 1, lambda: [_stride(1 << 18, 1056), 64, 1], 32),
    "scatter": ("scatter", 4, 256, lambda: [8, 32, 1 << 16], 1 << 16),
    "scatter_words": ("scatter", 2, 128, lambda: [16, 32, 1 << 17], 1 << 17),
    "wide_store": ("wide_store", 1, 32, lambda: [32], 4096),
    "atomic_chase": ("atomic_chase", 1, 1, lambda: [16], 32),
    "reduce_one": ("reduce", 2, 256, lambda: [8, 0, 1], 32),
    "reduce_lines": ("reduce", 2, 256, lambda: [8, 1, 1 << 12], 1 << 12),
    "reduce_words": ("reduce", 2, 256, lambda: [8, 33, 1 << 14], 1 << 14),
    "reduce_floats": ("reduce_floats", 2, 256, lambda: [8], 32),
    "cluster": ("cluster", 2, 32, lambda: [16, 0], 32),
    "clusters": ("cluster", 16, 32, lambda: [16, 0], 32),
    "many_cluster": ("cluster", 2, 1024, lambda: [16, 0], 32),
    "cluster_barrier": ("cluster", 2, 32, lambda: [0, 16], 32),
    "many_cluster_barrier": ("cluster", 2, 1024, lambda: [0, 16], 32),
    "bulk": ("bulk", 1, 128, lambda: [_words(128), 8], 32),
    "bulk_store": ("bulk_store", 1, 1, lambda: [_words(128), 16], 32),
    "copies": ("copies", 1, 32, lambda: [_words(1 << 10), 16], 32),
    "many_copies": ("copies", 1, 1024, lambda: [_words(1 << 15), 8], 32),
    **{name: (name, 1, 1, lambda: [], 64) for name in _REUSE},
    "empty": ("empty", 1, 32, lambda: [], 32),
    "empty_blocks": ("empty", 64, 64, lambda: [], 32),
    "full_blocks": ("fma", 16, 1024, lambda: [4], 32),
}


_KERNELS = Kernels(_CHAIN_SOURCE + (Path(__file__).parent / "data" / "parameters.cu").read_text("utf-8"))


def _reuse(name: str) -> Program:
    first, access, overwrite = _REUSE[name]
    text = ["S2R R0, SR_TID.X", f"IMAD.WIDE.U32 R2, R0, 0x10, c[0x0][{sass.PARAMETERS:#x}]", first]
    text += [access, overwrite] * 16
    made = sass.assemble("\n".join(text), static_shared_bytes=64)

    def control(each: Any) -> Any:
        if each.text.startswith(access.split()[0]):
            return replace(each, control=Control(1, False, 0, 1, 0, 0))
        if each.text == overwrite:
            return replace(each, control=Control(4, False, 7, 7, 1 << 1, 0))
        return each

    return replace(made, instructions=tuple(control(each) for each in made.instructions))


@cache
def program(kernel: str) -> Program:
    """A kernel of the source file, or one of those written as machine code."""
    return _reuse(kernel) if kernel in _REUSE else _KERNELS[f"k_{kernel}"]


def run_again(launch: str, overrides: Any) -> int:
    """Cycles of the second of two of the same launches on one device."""
    kernel, grid, block, arguments, words = LAUNCHES[launch]
    given = [np.int32(value) if isinstance(value, int) else value for value in arguments()]
    device = gpusim.Device("tiny", overrides=overrides)
    results = [device.launch(program(kernel), grid, block, [_words(words), *given]) for _ in range(2)]
    return results[1].cycles


def run_in_streams(what: str, overrides: Any) -> int:
    """Cycles that work of several streams takes, whose host needs no time for its calls: eight small grids at once;
    four streams of two grids; an event between grids; one that another stream waits for; a grid behind a copy;
    four grids of a graph; four or nine that wait for one; four that begin before the end of the one before."""
    calls = ("copy_call_us", "large_copy_call_us", "event_call_us", "launch_call_us")
    node = gpusim.node.load_node("hgx_h200", 1, overrides=[f"host.{name}=0" for name in calls])
    device = gpusim.Device("tiny", overrides=overrides, node=node, threads=1)
    out = device.to_device(_words(1 << 10))
    begun, streams = device.now_cycles, [device.stream() for _ in range(8)]

    def launch(stream: Any, rounds: int = 1) -> None:
        device.launch(program("fma"), 1, 32, [out, np.int32(rounds)], stream=stream)

    if what == "grids":
        for stream in streams:
            launch(stream)
    elif what == "twice":
        for stream in streams[:4]:
            launch(stream, 500)
            launch(stream, 500)
    elif what == "graph":
        graph, node = device.graph(), ()
        for _ in range(4):
            node = (graph.add(launch, node),)
        graph.start(streams[0])
    elif what in ("fork", "wide fork"):
        graph = device.graph()
        root = graph.add(launch)
        for _ in range(4 if what == "fork" else 9):
            graph.add(launch, [root])
        graph.start(streams[0])
    elif what == "dependent":
        for _ in range(4):
            device.launch(program("dependent"), 1, 32, [out, np.int32(8)], stream=streams[0], programmatic=True)
    elif what == "copy":
        out.copy_to_device(device.pinned_array(1 << 10, np.uint32), streams[0])
        launch(streams[0])
    else:
        launch(streams[0])
        event = streams[0].record()
        if what == "wait":
            streams[1].wait_event(event)
        launch(streams[1 if what == "wait" else 0])
    device.synchronize()
    return device.now_cycles - begun


def run(launch: str, overrides: Any = None, gpu: str = "tiny", **options: Any) -> Result:
    """One of `LAUNCHES` with cold caches."""
    kernel, grid, block, arguments, words = LAUNCHES[launch]
    given = [np.int32(value) if isinstance(value, int) else value for value in arguments()]
    return gpusim.simulate(program(kernel), grid, block, [_words(words), *given], gpu, overrides=overrides, **options)
