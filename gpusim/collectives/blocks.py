"""Thread blocks of a collective, as far as they take room from kernels beside it."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from gpusim.collectives.machine import timing
from gpusim.collectives.result import CollectiveResult
from gpusim.config import GPUConfig
from gpusim.launch import Launch
from isa import Program, load


@cache
def _program(arch: str) -> Program:
    known = timing()["block"]
    return replace(load(Path(__file__).parent / "blocks.ptx"), arch=arch, registers=int(known["registers"]))


def blocks_of(joint: CollectiveResult, config: GPUConfig) -> Launch:
    """A kernel whose blocks are there as long as what they follow: one for each channel, of NCCL's size, as far as the
    GPU has SMs."""
    known = timing()
    kind = {"p2p": "pairs", "ring": joint.protocol}.get(joint.algorithm, joint.algorithm)
    blocks, threads = min(joint.channels, config.sm.count), int(known[kind]["threads"])
    shared_bytes = min(int(known["block"]["shared_bytes"]), config.sm.shared_bytes_per_block_max)
    return Launch(_program(config.gpu.arch), blocks, threads, shared_bytes=shared_bytes)
