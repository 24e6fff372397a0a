"""Where an SM is: its port of the crossbar, its GPC, and the partition of L2 that it asks.

SMs are numbered in the order in which they get their first blocks. A grid that does not fill the GPU gets other SMs
than a large one does. Measured on an H200, by the SM that each block of grids of 1 to 1,024 blocks ran on: GPC by GPC;
the first few TPCs are full before others have any; the other GPCs share the rest evenly, those of low numbers take what
is left over, and a TPC has one block before any of its GPC has two.
"""

from __future__ import annotations

from itertools import groupby

from gpusim.config.models import GPUConfig
from gpusim.engine.jit import compiled
from gpusim.engine.memory_state import P_PLACES

_PARTITION_SHIFT, _PORT_SHIFT, _MASK = 16, 32, 0xFFFF


@compiled
def gpc_of(m, sm):
    """GPC of an SM."""
    return m[m[P_PLACES] + sm] & _MASK


@compiled
def partition_of(m, sm):
    """Partition of L2 that an SM asks."""
    return m[m[P_PLACES] + sm] >> _PARTITION_SHIFT & _MASK


@compiled
def port_of(m, sm):
    """Port of the crossbar that an SM shares with the others of its TPC."""
    return m[m[P_PLACES] + sm] >> _PORT_SHIFT


def tpcs_of(config: GPUConfig, n_sms: int) -> list[tuple[int, list[int]]]:
    """Runs of TPCs of one GPC, in the order in which they get blocks: (GPC, TPCs)."""
    tpcs = -(-n_sms // config.crossbar.sms_per_port)
    gpcs = config.sm.tpc_gpcs
    if len(gpcs) != tpcs or max(gpcs) >= config.sm.gpcs:
        gpcs = tuple(tpc % config.sm.gpcs for tpc in range(tpcs))
        return [(gpc, [tpc]) for tpc, gpc in enumerate(gpcs)]
    return [(gpc, list(run)) for gpc, run in groupby(range(tpcs), gpcs.__getitem__)]


def places(config: GPUConfig, n_sms: int, blocks: int) -> list[int]:
    """What `gpc_of` and the others read at P_PLACES, one word for each SM: of those that get a block of a grid of so
    many blocks, then of the others."""
    partitions = config.l2.gpc_partitions
    if len(partitions) != config.sm.gpcs or max(partitions) >= config.l2.partitions:
        partitions = tuple(gpc % config.l2.partitions for gpc in range(config.sm.gpcs))
    runs, each = tpcs_of(config, n_sms), config.crossbar.sms_per_port
    whole = [(tpc, gpc) for gpc, tpcs in runs for tpc in tpcs for _ in range(each)][:n_sms]
    first = _first(runs, each, blocks) if blocks < n_sms else []
    left = list(whole)
    for place in first:
        left.remove(place)
    return [tpc << _PORT_SHIFT | partitions[gpc] << _PARTITION_SHIFT | gpc for tpc, gpc in first + left]


def _first(runs: list[tuple[int, list[int]]], each: int, blocks: int) -> list[tuple[int, int]]:
    """(TPC, GPC) of the SMs that get a block, in the order of blocks, which are fewer than SMs."""
    shares = [min(blocks, each * len(runs[0][1]))] + [0] * (len(runs) - 1)

    def load(n: int) -> tuple[int, int, int]:
        # A GPC whose TPCs all have a block waits until all others' have.
        return shares[n] // len(runs[n][1]), shares[n], runs[n][0]

    for _ in range(blocks - shares[0]):
        room = (n for n in range(1, len(runs)) if shares[n] < each * len(runs[n][1]))
        shares[min(room, key=load)] += 1
    found = []
    for (gpc, tpcs), share in zip(runs, shares, strict=True):
        rounds, more = divmod(share, len(tpcs))
        for n, tpc in enumerate(tpcs):
            found += [(tpc, gpc)] * (rounds + (n < more))
    return found
