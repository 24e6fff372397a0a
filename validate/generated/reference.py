"""Execute a program tree thread by thread, in plain Python: what a generated kernel has to compute.

Threads are Python generators. Each runs on its own until it comes to a barrier or a warp operation, which is where it
yields; when all who take part are there, they go on. Nothing is shared with Numba or the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from validate.generated import scalar, tree

Values = dict[str, Any]


class Stuck(RuntimeError):
    """Threads wait for others that never come: the tree is no valid kernel."""


def run(kernel: tree.KernelTree, arguments: dict[str, Any]) -> None:
    """Execute the kernel on arrays and scalars by name; arrays are updated in place."""
    lists = {
        name: value.tolist() if value.dtype.kind in "iu" else list(value)  # NumPy scalars keep the width of floats
        for name, value in arguments.items()
        if isinstance(value, np.ndarray)
    }
    scalars = {"n": int(arguments["n"]), "m": int(arguments["m"]), "x": np.float32(arguments["x"])}
    with np.errstate(all="ignore"):
        for z in range(kernel.grid[2]):
            for y in range(kernel.grid[1]):
                for x in range(kernel.grid[0]):
                    _run_block(kernel, (x, y, z), lists, scalars)
        for name, values in lists.items():
            array = arguments[name]
            array[...] = np.array(values, array.dtype)


def _run_block(
    kernel: tree.KernelTree, at: tuple[int, int, int], arrays: dict[str, list[Any]], scalars: Values
) -> None:
    shared = [[scalar.wrap(t, 0)] * kernel.threads for t, _ in kernel.shared]
    threads = [_Thread(kernel, at, tid, arrays, scalars, shared) for tid in range(kernel.threads)]
    waits: list[Any] = [None] * len(threads)
    alive = set(range(len(threads)))
    ready = list(alive)
    while alive:
        for tid in ready:
            waits[tid] = next(threads[tid].steps, None)
            if waits[tid] is None:
                alive.discard(tid)
        ready = []
        for first in range(0, len(threads), 32):
            group = [tid for tid in range(first, min(first + 32, len(threads))) if tid in alive]
            for members in _complete(group, waits):
                _exchange(members, [waits[tid] for tid in members], threads)
                ready += members
        if not ready and alive:
            if any(waits[tid] != "barrier" for tid in alive) or len(alive) < len(threads):
                raise Stuck(f"{len(alive)} of {len(threads)} threads wait")
            ready = sorted(alive)


def _complete(group: list[int], waits: list[Any]) -> Iterator[list[int]]:
    """Those threads of a warp that wait at the same warp operation and are all there."""
    there: dict[Any, list[int]] = {}
    for tid in group:
        if waits[tid] != "barrier":
            there.setdefault((waits[tid][0], waits[tid][1]), []).append(tid)
    for (_, lanes), members in there.items():
        if len(members) == lanes:
            yield members


def _exchange(members: list[int], requests: list[Any], threads: list[_Thread]) -> None:
    """Carry out one warp operation for its threads, given (place, lanes, operation, value, by) of each."""
    lanes = [tid % 32 for tid in members]
    values = [request[3] for request in requests]
    of = dict(zip(lanes, values, strict=True))
    for tid, lane, (_, count, op, value, by) in zip(members, lanes, requests, strict=True):
        if op == "shfl":
            found = of[(by % (1 << 32)) % count]
        elif op.startswith("shfl"):
            source = {"shfl_up": lane - by, "shfl_down": lane + by, "shfl_xor": lane ^ by}[op]
            found = of[source] if 0 <= source < 32 else value
        elif op in ("all", "any"):
            found = int({"all": all, "any": any}[op](values))
        else:
            chosen = {
                "ballot": lambda: [each for each in lanes if of[each]],
                "match_any": lambda: [each for each in lanes if of[each] == of[lane]],  # noqa: B023, called at once
                "syncwarp": lambda: [],
            }[op]()
            found = sum(1 << each for each in chosen)
        threads[tid].received = found


class _Thread:
    """One thread: its variables, and `steps`, which yields where it has to wait."""

    def __init__(
        self,
        kernel: tree.KernelTree,
        at: tuple[int, int, int],
        tid: int,
        arrays: dict[str, list[Any]],
        scalars: Values,
        shared: list[list[Any]],
    ) -> None:
        x, y, _ = kernel.block
        block = at[0] + kernel.grid[0] * (at[1] + kernel.grid[1] * at[2])
        self.vars: Values = {
            **scalars,
            **{"tx": tid % x, "ty": tid // x % y, "tz": tid // (x * y), "bx": at[0], "by": at[1], "bz": at[2]},
            **{"tid": tid, "blk": block, "gid": block * kernel.threads + tid, "lane": tid % 32, "warp": tid // 32},
        }
        self.arrays, self.shared = arrays, shared
        self.local = list(range(tree.LOCALS))
        self.functions = {each.name: each for each in kernel.functions}
        self.threads = kernel.threads
        self.received: Any = None
        self.steps = self.block(kernel.body)

    # Statements. A block returns None, or "break", "continue" or "return", which ends the blocks around it.

    def block(self, statements: tree.Tree) -> Any:
        for each in statements:
            kind = each[0]
            if kind == "set":
                self.vars[each[2]] = self.value(each[3])
            elif kind in ("break", "continue"):
                return kind
            elif kind == "return":
                if len(each) > 1:
                    self.received = self.value(each[1])
                return kind
            elif kind in _SIMPLE:
                _SIMPLE[kind](self, *each[1:])
            else:
                ended = yield from getattr(self, f"_{kind}")(each)
                if ended:
                    return ended
        return None

    def _if(self, s: tree.Tree) -> Any:
        return (yield from self.block(s[2] if self.test(s[1]) else s[3]))

    def _for(self, s: tree.Tree) -> Any:
        _, name, count, body = s
        for number in range(count):
            self.vars[name] = number
            ended = yield from self.block(body)
            if ended == "break":
                break
            if ended == "return":
                return ended
        return None

    def _while(self, s: tree.Tree) -> Any:
        _, name, bound, test, body = s
        self.vars[name] = 0
        limit = self.value(bound) & 7
        while self.vars[name] < limit and (test is None or self.test(test)):
            self.vars[name] += 1
            ended = yield from self.block(body)
            if ended == "break":
                break
            if ended == "return":
                return ended
        return None

    def _barrier(self, s: tree.Tree) -> Any:
        yield "barrier"

    def _publish(self, s: tree.Tree) -> Any:
        _, array, stride, threads, test, value = s
        yield "barrier"
        if test is None or self.test(test):
            self.shared[array][(self.vars["tid"] * stride) % threads] = self.value(value)
        yield "barrier"

    def _together(self, s: tree.Tree) -> Any:
        yield "barrier"
        yield from self.block(s[1])
        yield "barrier"

    def _reduce(self, s: tree.Tree) -> Any:
        _, array, op, half, t = s
        yield "barrier"
        values, tid = self.shared[array], self.vars["tid"]
        while half > 0:
            if tid < half:
                values[tid] = scalar.binary(t, op, values[tid], values[tid + half])
            yield "barrier"
            half >>= 1

    def _warp(self, s: tree.Tree) -> Any:
        _, op, t, name, value, by, width = s
        lanes = width or min(32, self.threads - 32 * self.vars["warp"])
        is_test = value[0] in ("cmp", "bit", "not", "and", "or")
        given = self.test(value) if is_test else self.value(value)
        yield (id(s), lanes, op, given, None if by is None else self.value(by))
        if op != "syncwarp":
            self.vars[name] = scalar.wrap(t, self.received)

    def _store(self, array: str, slot: tree.Tree, value: tree.Tree) -> None:
        self.arrays[array][self._own(array, slot)] = self.value(value)

    def _keep(self, index: tree.Tree, value: tree.Tree) -> None:
        self.local[self.value(index) & (tree.LOCALS - 1)] = self.value(value)

    def _atomic(self, array: str, op: str, place: tree.Tree, value: tree.Tree) -> None:
        at = tree.PLACES * tree.ATOMICS.index(op) + (self.value(place) & (tree.PLACES - 1))
        t = tree.SHARED_RESULTS[array]
        self.arrays[array][at] = _atomic(t, op, self.arrays[array][at], self.value(value))

    def _shatomic(self, array: int, op: str, place: tree.Tree, items: int, value: tree.Tree) -> None:
        at = (self.value(place) % (1 << 32)) % items
        self.shared[array][at] = _atomic(value[1], op, self.shared[array][at], self.value(value))

    # Expressions and conditions.

    def value(self, e: tree.Tree) -> Any:
        kind, t = e[0], e[1]
        if kind == "const":
            return scalar.wrap(t, e[2])
        if kind == "var":
            return self.vars[e[2]]
        if kind == "bin":
            return scalar.binary(t, e[2], self.value(e[3]), self.value(e[4]))
        if kind == "un":
            return scalar.unary(t, e[2], self.value(e[3]))
        if kind == "cast":
            return scalar.cast(t, e[2][1], self.value(e[2]))
        if kind == "sel":
            return self.value(e[3] if self.test(e[2]) else e[4])
        if kind == "fma":
            return scalar.fma(t, *map(self.value, e[2:]))
        if kind == "bits":
            return scalar.bits(e[2], self.value(e[3]))
        if kind == "load":
            return self.arrays[e[2]][self.value(e[3]) & (tree.INPUTS[e[2]][1] - 1)]
        if kind == "own":
            return self.arrays[e[2]][self._own(e[2], e[3])]
        if kind == "local":
            return self.local[self.value(e[2]) & (tree.LOCALS - 1)]
        if kind == "shared":
            return self.shared[e[2]][(self.value(e[3]) % (1 << 32)) % e[4]]
        if kind == "call":
            return self._call(e[2], self.value(e[3]), self.value(e[4]))
        raise ValueError(kind)

    def test(self, c: tree.Tree) -> bool:
        kind = c[0]
        if kind == "cmp":
            return bool(scalar.COMPARE[c[1]](self.value(c[2]), self.value(c[3])))
        if kind == "bit":
            return bool(self.value(c[1]) >> c[2] & 1)
        if kind == "not":
            return not self.test(c[1])
        if kind == "and":
            return self.test(c[1]) and self.test(c[2])
        return self.test(c[1]) or self.test(c[2])

    def _own(self, array: str, slot: tree.Tree) -> int:
        items = tree.OUTPUTS[array][1]
        return int(self.vars["gid"] * items + (self.value(slot) & (items - 1)))

    def _call(self, name: str, a: int, b: int) -> Any:
        function = self.functions[name]
        outer, self.vars = self.vars, {"a": a, "b": b, "v": a}
        ended = None
        for _ in self._body(function.body):
            raise Stuck("a device function waits")
        ended, value = self._ended, self.received
        result = value if ended == "return" else self.value(function.result)
        self.vars = outer
        return result

    def _body(self, body: tree.Tree) -> Any:
        self._ended = yield from self.block(body)


_SIMPLE: dict[str, Any] = {
    "store": _Thread._store,
    "keep": _Thread._keep,
    "atomic": _Thread._atomic,
    "shatomic": _Thread._shatomic,
}


def _atomic(t: str, op: str, old: int, value: int) -> int:
    if op == "inc":
        return 0 if old >= tree.INC_LIMIT else old + 1
    plain = {"add": "+", "and_": "&", "or_": "|", "xor": "^"}.get(op, op)
    return int(scalar.binary(t, plain, old, value))


def arguments(threads: int, seed: int) -> dict[str, Any]:
    """Fresh arguments by name for a launch of so many threads: random inputs, poisoned outputs, results of atomics
    at 7, scalars.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    found: dict[str, Any] = {}
    for name, (t, items) in tree.INPUTS.items():
        if t[0] == "f":  # small multiples of an eighth, some wild
            found[name] = (random.integers(-64, 64, items) / 8).astype(tree.TYPES[t])
            found[name][::16] *= random.random(len(found[name][::16])).astype(tree.TYPES[t])
        else:
            small, limit = random.integers(-9, 9, items), 1 << (30 if t == "i32" else 62)
            wild = random.integers(-limit, limit, items)
            found[name] = np.where(random.integers(0, 4, items) == 0, wild, small).astype(tree.TYPES[t])
    for name, (t, items) in tree.OUTPUTS.items():
        found[name] = np.full(threads * items, 77, tree.TYPES[t])
    for name, t in tree.SHARED_RESULTS.items():
        found[name] = np.full(tree.PLACES * len(tree.ATOMICS), 7, tree.TYPES[t])
    found["n"] = np.int32(random.integers(-3, 9))
    found["m"] = np.int64(random.integers(-9, 9))
    found["x"] = np.float32(random.integers(-16, 16) / 4)
    return found
