"""The experiments: what is read, through which windows and with which policies, and what of it is left."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from validate.persisting.gpu import NORMAL, PERSISTING, STREAMING, uint, word
from validate.persisting.lab import MB, STREAM_MB, TILE, L2Lab

FIRST, LAST, PLAIN = 0x12F0 << 48, 0x14F0 << 48, 0x1000 << 48
PROPERTIES = {"normal": NORMAL, "streaming": STREAMING, "persisting": PERSISTING}

Rows = list[dict[str, Any]]


def sizes(most: int) -> list[int]:
    """Set-aside sizes: nothing and thirds of the most."""
    return [0, most // 3, 2 * most // 3, most]


def sliding(lab: L2Lab, rows: Rows) -> None:
    """A hot region read again and again beside a stream, with windows."""
    for set_aside in sizes(lab.most):
        for freq in (10, 15, 20, 25, 30, 35, 40, 45, 50, 60):
            nbytes = freq * MB
            for ratio in {1.0, min(1.0, set_aside / nbytes)} if set_aside else {0.0, 1.0}:
                for miss in ("streaming", "normal") if ratio not in (0.0, 1.0) else ("streaming",):
                    for total in (128, 512):
                        kept = lab.begin(set_aside)
                        if ratio:
                            lab.gpu.window(lab.hot, nbytes, ratio, PERSISTING, PROPERTIES[miss])
                        times = [lab.mixed(nbytes, total * MB) for _ in range(4)]
                        rows.append({"set_aside": kept, "asked": set_aside, "freq_mb": freq, "hit_ratio": ratio,
                                     "miss": miss, "total_mb": total, "us": times,
                                     **lab.probe(lab.hot, nbytes)})  # fmt: skip


def updates(lab: L2Lab, rows: Rows) -> None:
    """The same with kernels that double what they read, as in the CUDA guide."""
    gpu = lab.gpu
    for set_aside in sizes(lab.most):
        for freq in range(10, 70, 10):
            nbytes = freq * MB
            for ratio in {1.0, min(1.0, set_aside / nbytes)} if set_aside else {0.0}:
                lab.begin(set_aside)
                if ratio:
                    gpu.window(lab.hot, nbytes, ratio)
                grid = STREAM_MB * MB // TILE
                arguments = word(lab.hot), uint(nbytes // TILE), word(lab.stream)
                times = [gpu.launch("update", grid, 256, *arguments) for _ in range(4)]
                rows.append({"set_aside": set_aside, "freq_mb": freq, "hit_ratio": ratio, "us": times,
                             **lab.probe(lab.hot, nbytes)})  # fmt: skip


def working_set(lab: L2Lab, rows: Rows) -> None:
    """No policy: read a region three times, then look what is there."""
    for size in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 80, 90, 100, 120):
        lab.begin()
        times = [lab.touch(lab.hot, size * MB) for _ in range(3)]
        rows.append({"mb": size, "us": times, **lab.probe(lab.hot, size * MB)})


def kept(lab: L2Lab, rows: Rows) -> None:
    """Read a region through a window once or twice, stream other data, look what is left."""
    for eighths in range(9):
        set_aside = lab.most * eighths // 8
        for mb in (2.5, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 80):
            nbytes = int(mb * MB)
            for ratio in (1.0, 0.5) if eighths in (4, 8) else (1.0,):
                for times in (1, 2) if eighths in (4, 8) else (1,):
                    real = lab.begin(set_aside)
                    lab.gpu.window(lab.hot, nbytes, ratio)
                    for _ in range(times):
                        lab.touch(lab.hot, nbytes)
                    lab.gpu.window(0, 0)
                    lab.touch(lab.stream, 256 * MB)
                    rows.append(
                        {"set_aside": real, "mb": mb, "hit_ratio": ratio, "times": times, **lab.probe(lab.hot, nbytes)}
                    )


def loads(lab: L2Lab, rows: Rows) -> None:
    """Read a region with loads of a class, stream other data with loads of a class, look what is left."""
    kinds = {
        "normal": ("normal", 0),
        "hint_normal": ("hint", PLAIN),
        "hint_first": ("hint", FIRST),
        "hint_last": ("hint", LAST),
        "l1_last": ("l1_last", 0),
        "l1_first": ("l1_first", 0),
    }
    for name, each in created(lab).items():
        kinds[name] = ("hint", each)
    for kind in kinds:
        whole = kind in ("normal", "hint_first", "hint_last", "last_unchanged_0.5")
        streams = [("normal", 256)]
        if whole:
            streams += [("normal", 20), ("normal", 40), ("normal", 60), ("hint_first", 256), ("hint_last", 256)]
        for set_aside in (0, lab.most // 2, lab.most) if kind == "hint_last" else (0, lab.most):
            for mb in (5, 10, 20, 30, 40, 50, 60) if whole else (20,):
                for then, amount in streams:
                    lab.begin(set_aside)
                    lab.touch(lab.hot, mb * MB, *kinds[kind])
                    lab.touch(lab.stream, amount * MB, *kinds[then])
                    rows.append({"kind": kind, "set_aside": set_aside, "mb": mb, "then": then, "stream_mb": amount,
                                 **lab.probe(lab.hot, mb * MB)})  # fmt: skip


def created(lab: L2Lab) -> dict[str, int]:
    """Policies that createpolicy made."""
    names = (
        "last_unchanged",
        "last_first",
        "first_unchanged",
        "normal_unchanged",
        "normal_first",
        "unchanged",
        "first_first",
    )
    found: dict[str, int] = {}
    for fraction in (0.25, 0.5, 1.0):
        lab.gpu.launch("policies", 1, 1, word(lab.sink), ctypes.c_float(fraction), label="policies")
        words = lab.gpu.get(lab.sink, len(names), np.uint64)
        found |= {f"{name}_{fraction}": int(value) for name, value in zip(names, words, strict=True)}
    return found


def policies(lab: L2Lab, rows: Rows) -> None:
    """Words of policies, and the descriptor of plain loads with and without a window."""
    rows.append({"fractional": {name: hex(value) for name, value in created(lab).items()}, "hot": hex(lab.hot)})
    for primary, total in ((1 << 20, 2 << 20), (10 << 20, 20 << 20), (20 << 20, 20 << 20), (3000, 100000), (128, 4096)):
        lab.gpu.launch("ranges", 1, 1, word(lab.sink), word(lab.hot), uint(primary), uint(total))
        rows.append({"range": [primary, total], "words": [hex(each) for each in lab.gpu.get(lab.sink, 5, np.uint64)]})
    for ratio in (0.0, 0.1, 0.25, 0.5, 0.75, 1.0):
        for hit in PROPERTIES:
            for miss in ("normal", "streaming"):
                lab.begin(lab.most)
                if ratio:
                    lab.gpu.window(lab.hot, 20 * MB, ratio, PROPERTIES[hit], PROPERTIES[miss])
                lab.gpu.launch("descriptor", 1, 1, word(7), word(lab.sink))
                rows.append({"hit_ratio": ratio, "hit": hit, "miss": miss,
                             "descriptor": hex(lab.gpu.get(lab.sink, 1, np.uint64)[0])})  # fmt: skip


def pairs(lab: L2Lab, rows: Rows) -> None:
    """Windows of every pair of properties: 20 MB of a window, then a stream."""
    for set_aside in (0, lab.most):
        for hit in PROPERTIES:
            for miss in ("normal", "streaming"):
                for ratio in (1.0, 0.5):
                    for amount in (20, 40, 60, 256):
                        lab.begin(set_aside)
                        lab.gpu.window(lab.hot, 20 * MB, ratio, PROPERTIES[hit], PROPERTIES[miss])
                        lab.touch(lab.hot, 20 * MB)
                        lab.gpu.window(0, 0)
                        lab.touch(lab.stream, amount * MB)
                        rows.append({"set_aside": set_aside, "hit": hit, "miss": miss, "hit_ratio": ratio,
                                     "stream_mb": amount, **lab.probe(lab.hot, 20 * MB)})  # fmt: skip


def afterwards(lab: L2Lab, rows: Rows) -> None:
    """What becomes of 20 MB that persist."""
    gpu, nbytes, second = lab.gpu, 20 * MB, lab.hot + 40 * MB

    stream, again = partial(lab.touch, lab.stream, 256 * MB), partial(lab.touch, lab.hot, nbytes)

    def through(base: int, mb: int, hit: int = PERSISTING) -> None:
        gpu.window(base, mb * MB, 1.0, hit)
        lab.touch(base, mb * MB)
        gpu.window(0, 0)

    steps: dict[str, tuple[Callable[[], Any], ...]] = {
        "nothing": (),
        "stream": (stream,),
        "4 streams": (stream,) * 4,
        "16 streams": (stream,) * 16,
        "reset": (gpu.reset,),
        "reset, stream 20": (gpu.reset, partial(lab.touch, lab.stream, 20 * MB)),
        "reset, stream 40": (gpu.reset, partial(lab.touch, lab.stream, 40 * MB)),
        "reset, stream": (gpu.reset, stream),
        "set-aside 0, stream": (partial(gpu.set_aside, 0), stream),
        "set-aside 0, touch, stream": (partial(gpu.set_aside, 0), again, stream),
        "set-aside half, stream": (partial(gpu.set_aside, lab.most // 4), stream),
        "normal touch, stream": (again, stream),
        "2 normal touches, stream": (again, again, stream),
        "first touch, stream": (partial(again, "hint", FIRST), stream),
        "hint normal touch, stream": (partial(again, "hint", PLAIN), stream),
        "streaming window touch, stream": (partial(through, lab.hot, 20, STREAMING), stream),
        "normal window touch, stream": (partial(through, lab.hot, 20, NORMAL), stream),
        "window 10, stream": (partial(through, second, 10), stream),
        "window 20, stream": (partial(through, second, 20), stream),
        "window 40, stream": (partial(through, second, 40), stream),
        "window 60, stream": (partial(through, second, 60), stream),
        "evict_last stream": (partial(stream, "hint", LAST),),
        "fill, stream": (partial(lab.fill, lab.hot, nbytes), stream),
    }
    for set_aside in (lab.most, lab.most // 2):
        for name, each in steps.items():
            for how in ("read", "write", "evict_last"):
                if how != "read" and set_aside != lab.most:
                    continue
                lab.begin(set_aside)
                if how != "evict_last":
                    gpu.window(lab.hot, nbytes)
                if how == "write":
                    lab.fill(lab.hot, nbytes)
                else:
                    lab.touch(lab.hot, nbytes, *(("hint", LAST) if how == "evict_last" else ()))
                gpu.window(0, 0)
                for step in each:
                    step()
                rows.append({"set_aside": set_aside, "how": how, "then": name, **lab.probe(lab.hot, nbytes)})


def maps(lab: L2Lab, rows: Rows) -> None:
    """Every line of a window: which are kept, and are they the same again."""
    for offset, mb, ratio, repeat, set_aside in (
        (0, 20, 0.5, 0, 1.0),
        (0, 20, 0.5, 1, 1.0),
        (0, 20, 0.25, 0, 1.0),
        (0, 20, 0.75, 0, 1.0),
        (0, 20, 1.0, 0, 1.0),
        (4, 20, 0.5, 0, 1.0),
        (0, 10, 0.5, 0, 1.0),
        (0, 40, 0.5, 0, 1.0),
        (0, 60, 1.0, 0, 1.0),
        (0, 60, 1.0, 1, 1.0),
        (0, 20, 1.0, 0, 0.25),
        (0, 20, 0.0625, 0, 1.0),
        (0, 20, 0.9, 0, 1.0),
    ):
        lab.begin(int(lab.most * set_aside))
        base = lab.hot + offset * MB
        lab.gpu.window(base, mb * MB, ratio)
        lab.touch(base, mb * MB)
        lab.gpu.window(0, 0)
        lab.touch(lab.stream, 256 * MB)
        rows.append({"offset_mb": offset, "mb": mb, "hit_ratio": ratio, "repeat": repeat,
                     "set_aside_of_most": set_aside, **lab.probe(base, mb * MB, every=1, whole=True)})  # fmt: skip
    lab.begin(lab.most)
    half = created(lab)["last_first_0.5"]
    for repeat in range(2):
        lab.begin(lab.most)
        lab.touch(lab.hot, 20 * MB, "hint", half)
        lab.touch(lab.stream, 256 * MB)
        rows.append({"policy": "last_first_0.5", "repeat": repeat, **lab.probe(lab.hot, 20 * MB, every=1, whole=True)})


EXPERIMENTS: dict[str, Callable[[L2Lab, Rows], None]] = {
    "policies": policies,
    "working_set": working_set,
    "sliding": sliding,
    "kept": kept,
    "afterwards": afterwards,
    "loads": loads,
    "pairs": pairs,
    "maps": maps,
    "updates": updates,
}
