"""`gpusim collective`: what a collective of several GPUs takes."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpusim.cli.options import add_command, add_json_option, add_set_option
from gpusim.cli.outputs import columns, print_json, versioned
from gpusim.cli.parser import EXIT_OK, UserError, help_text

if TYPE_CHECKING:
    from gpusim.collectives import CollectiveResult


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    summary = "simulate a collective of several GPUs as NCCL does it"
    options = add_set_option, add_json_option
    parser = add_command(commands, "collective", summary, help_text("collective"), show, *options)
    parser.add_argument("name", help="all_reduce, all_gather, reduce_scatter, broadcast, ...")
    parser.add_argument("sizes", help="bytes of a rank's larger buffer: 1048576, 64K, 16M or 1G; several: 4K,1M")
    parser.add_argument("--gpus", type=int, default=8, help="the first so many GPUs (default: %(default)s)")
    parser.add_argument("--node", default="hgx_h200", help="shipped node or a TOML file (default: %(default)s)")
    parser.add_argument("--root", type=int, default=0, help="of a broadcast or reduction (default: %(default)s)")
    parser.add_argument("--algorithm", help="ring or tree, instead of NCCL's choice")
    parser.add_argument("--protocol", help="LL, LL128 or Simple, instead of NCCL's choice")
    parser.add_argument("--channels", type=int, help="thread blocks of each rank, instead of NCCL's choice")


def show(options: argparse.Namespace) -> int:
    from gpusim.collectives import collective

    results = [
        collective(
            options.name, size, options.gpus, options.node, root=options.root, algorithm=options.algorithm,
            protocol=options.protocol, channels=options.channels, overrides=options.overrides or None,
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
    return EXIT_OK


def _row(result: CollectiveResult) -> dict[str, Any]:
    """Return the result as plain values, for a program to read."""
    left_out = ("outputs", "steps", "utilisation", "bin_us")
    return {key: value for key, value in asdict(result).items() if key not in left_out} | {"bus_gb_s": result.bus_gb_s}


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text.strip(), re.I)
    if not found:
        raise UserError(f"a size is spelled as 1048576, 64K, 16M or 1G, not {text!r}")
    return int(found[1]) * _UNITS[found[2].upper()]
