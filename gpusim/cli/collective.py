"""`gpusim collective`: what a collective of several GPUs takes."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpusim.cli.outputs import columns, print_json, versioned
from gpusim.cli.parser import UserError
from gpusim.units import whole

if TYPE_CHECKING:
    from gpusim.collectives import CollectiveResult


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def show(options: argparse.Namespace) -> None:
    from gpusim.collectives import collective

    results = [
        collective(
            options.name, size, options.gpus, options.node, root=options.root, algorithm=options.algorithm,
            protocol=options.protocol, overrides=options.overrides or None,
        )
        for size in map(_bytes, options.sizes.split(","))
    ]  # fmt: skip
    if options.json:
        print_json([versioned(_row(each)) for each in results])
    elif len(results) == 1:
        print(results[0])
    else:
        print(f"{options.name} on {results[0].ranks} GPUs of {results[0].node}")
        rows = [("bytes", "time us", "bus GB/s", "algorithm", "protocol", "channels", "busiest link"), *(
            (each.nbytes, each.time_us, each.bus_gb_s, each.algorithm, each.protocol, each.channels,
             each.bottleneck.name) for each in results
        )]  # fmt: skip
        print(columns(rows, ">>><<><"))


def _row(result: CollectiveResult) -> dict[str, Any]:
    """Return the result as plain values, for a program to read."""
    left_out = ("outputs", "steps", "utilisation", "bin_us")
    return {key: value for key, value in asdict(result).items() if key not in left_out} | {"bus_gb_s": result.bus_gb_s}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([\d_.]+(?:e\+?\d+)?)([KMG]?)(?:i?B)?", text.strip(), re.I)
    try:
        return whole(found[1]) * _UNITS[found[2].upper()] if found else whole("")
    except ValueError:
        raise UserError(f"a size is spelled as 1048576, 1e6, 64K, 16M or 1G, not {text!r}") from None
