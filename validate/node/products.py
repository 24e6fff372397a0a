"""Recorded products of H200s, alone and beside all-reduces, and what `gpusim.parallel` makes of them.

`products_2_h200.json` says which kernels torch's products are, what each takes alone, with SMs held by another kernel
and with memory traffic beside it, and when every kernel of three backward passes with all-reduces began and ended.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import simpy

from gpusim.config import load_config
from gpusim.parallel.machine import Sms
from gpusim.parallel.simulated import product_time
from validate.gpu import read_json
from validate.node.copies import RESULTS

PATH = RESULTS / "products_2_h200.json"
CHANNELS = 24
"""SMs that an all-reduce holds: the grid of NCCL's kernel, as recorded."""


@cache
def recorded() -> dict[str, Any]:
    """Return the recorded products."""
    return read_json(PATH)  # type: ignore[no-any-return]


def sides(product: dict[str, Any]) -> tuple[int, int, int]:
    """Rows, columns and sum of a recorded product."""
    width, batch = product["width"], product["batch"]
    return (width, width, batch) if product["what"] == "weights" else (batch, width, width)


def tiles(product: dict[str, Any]) -> int:
    """Tiles of its kernel, which says their size in its name: nvjet_sm90_tst_256x128_..."""
    rows, columns = map(int, product["kernel"].split("_")[3].split("x"))
    m, n, _ = sides(product)
    return -(-m // rows) * -(-n // columns)


def tiles_of(width: int, what: str) -> int:
    """Tiles of one of the recorded products."""
    return next(tiles(each) for each in recorded()["products"] if (each["width"], each["what"]) == (width, what))


def held(product: dict[str, Any], sms: int) -> float:
    """Microseconds that a product takes with so many SMs held from its start to its end."""
    env, config = simpy.Environment(), load_config("h200")
    machine = Sms(env, config.sm.count, config.dram.bandwidth_gb_s)
    machine.hold(sms)
    env.run(until=env.process(machine.run(product["kernel_us"], tiles(product), persistent=True)))
    return float(env.now)


def alone(*whats: str) -> Iterator[tuple[str, str, float, float]]:
    """(case, quantity, recorded, simulated microseconds) of the kernel of `programs.layer` for some products of each
    width: "product" of random numbers on the H200, "product of zeros". Simulated, its time does not depend
    on the numbers; the first time takes up to 20 seconds each."""
    for each in recorded()["products"]:
        if each["what"] in whats:
            time_us = product_time(*sides(each), each["what"], load_config("h200")).time_us
            yield _case(each), "product", each["own_random_us"], time_us
            yield _case(each), "product of zeros", each["own_zeros_us"], time_us


def beside() -> Iterator[tuple[str, str, float, float]]:
    """(case, "beside", recorded, simulated microseconds) of products beside all-reduces that ran, from the product's
    start on, for at least as long as it takes alone; medians."""
    tree = recorded()
    known, found = {(each["width"], each["what"]): each for each in tree["products"]}, defaultdict(list)
    for line in tree["timelines"]:
        for k, (start, end) in enumerate(line["product"]):
            which = line["width"], ("weights", "input")[k % 2]
            least = start + known[which]["kernel_us"]
            if any(begin <= start and least < over for begin, over in line["reduce"]):
                found[which].append(end - start)
    for which, times in found.items():
        yield _case(known[which]), "beside", statistics.median(times), held(known[which], CHANNELS)


def _case(product: dict[str, Any]) -> str:
    m, n, k = sides(product)
    return f"{product['what']}: {m} x {n} sums of {k}"
