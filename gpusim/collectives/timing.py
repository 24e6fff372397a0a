"""The constants of `nccl.toml`, as one immutable value."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusim.errors import SimulationError

#: Bytes on a link for each byte of data: LL sends a flag beside every four bytes, LL128 eight bytes of flag in 128.
WIRE = {"LL": 2.0, "LL128": 128 / 120, "Simple": 1.0}
#: Data that the threads of a block pass on together with protocols whose flags lie beside the data: 8 bytes of each of
#: 512 threads, 60 of each of 640. Simple hands over whole slices.
GRANULE_BYTES = {"LL": 4096, "LL128": 38400, "Simple": 0}


@dataclass(frozen=True)
class Timing:
    """Values by section and name; `sources` says where each comes from."""

    values: Mapping[str, Mapping[str, float]]
    sources: Mapping[str, str]

    def cost_us(self, protocol: str, reads: int, local: bool, remote: bool) -> float:
        """Microseconds a byte that a block takes to pass data on: operands it reads, whether it writes to its own
        memory, to a peer's, or both."""
        known = self.values[protocol]
        write = known["remote_ps"] if remote else known["local_ps"]
        if local and remote:
            write += known["second_ps"]
        return (write + known["read_ps"] * (reads - 1)) * 1e-6


@cache
def timing() -> Timing:
    """The shipped constants."""
    tree = tomllib.loads((Path(__file__).parent / "nccl.toml").read_text("utf-8"))
    values = {section: {key: leaf["value"] for key, leaf in table.items()} for section, table in tree.items()}
    sources = {f"{section}.{key}": leaf["source"] for section, table in tree.items() for key, leaf in table.items()}
    return Timing(values, sources)


NAMES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
ALGORITHMS = ("tree", "ring")
PROTOCOLS = ("LL", "LL128", "Simple")


class CollectiveError(SimulationError):
    """A collective that no group of ranks can carry out: a wrong name, sizes that cannot be shared."""
