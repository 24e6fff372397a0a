"""Grow a random program tree. The same random numbers give the same kernel.

Code is *uniform* where all threads of the block are sure to come: only there stand barriers and warp operations.
"""

from __future__ import annotations

from random import Random
from typing import Any

from validate.generated import tree

_INT_OPS = ("+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%", "min", "max")
_FLOAT_OPS = ("+", "-", "*", "*", "/", "min", "max")
_BLOCKS = (
    *((32, 1, 1), (64, 1, 1), (128, 1, 1), (96, 1, 1), (45, 1, 1), (77, 1, 1), (31, 1, 1), (16, 1, 1)),
    *((8, 8, 1), (16, 3, 1), (5, 9, 1), (32, 2, 1), (4, 4, 4), (7, 3, 2), (3, 5, 5), (1, 33, 1), (1, 1, 40)),
)
_GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 3, 1), (1, 1, 2), (2, 1, 2))
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")


def kernel(random: Random) -> tree.KernelTree:
    """A random kernel."""
    return _Grower(random).kernel()


class _Grower:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.chance = lambda percent: random.randrange(100) < percent

    def pick(self, choices: Any) -> Any:
        return choices[self.random.randrange(len(choices))]

    def kernel(self) -> tree.KernelTree:
        block, grid = self.pick(_BLOCKS), self.pick(_GRIDS)
        self.threads = block[0] * block[1] * block[2]
        extra = self.pick(((), (), ("u32",), ("i64",), ("u32", "i64", "u64"), ("f32",), ("f32", "f64"), ("u32", "f32")))
        self.types: tuple[str, ...] = ("i32", *extra)
        self.shared: tuple[tuple[str, bool], ...] = ()
        if self.chance(60):
            dynamic = self.chance(40)
            self.shared = ((self.pick(self.types), dynamic),)
            if self.chance(30):
                self.shared += (("i32", False),)
        self.local = self.chance(30)
        self.readable = True  # whether shared memory may be read here
        self.loops = 0  # loops around this place whose counters are visible
        self.inside: tuple[str, ...] | None = None  # variables of a device function, while one grows
        functions = tuple(self.function(f"helper{number}") for number in range(self.pick((0, 0, 0, 1, 1, 2))))
        self.functions = tuple(each.name for each in functions)
        body: list[tree.Tree] = [("set", t, name, self.start(t)) for t in self.types for name in tree.VARIABLES[t]]
        self.readable = False
        for number, (t, _) in enumerate(self.shared):
            body.append(("publish", number, 1, self.threads, None, self.expression(t, 1)))
        self.readable = True
        for _ in range(1 + self.random.randrange(4)):
            body += self.uniform(2)
        if self.chance(25):
            body.append(("if", self.condition(1), (*self.divergent(1, False), ("return",)), ()))
        body += [each for _ in range(self.random.randrange(3)) for each in self.divergent(2, False)]
        for t, array in (("i32", "oi"), ("i64", "ol"), ("f32", "of"), ("f64", "od")):
            for slot, name in enumerate(tree.VARIABLES[t] if t in self.types else ()):
                body.append(("store", array, ("const", "i32", slot), ("var", t, name)))
        for t, array, slot in (("u32", "ol", 0), ("u64", "ol", 1)):
            if t in self.types and "i64" not in self.types:
                name = tree.VARIABLES[t][-1]
                body.append(("store", array, ("const", "i32", slot), ("cast", "i64", ("var", t, name))))
            elif t in self.types:
                body.append(
                    ("atomic", "gl", "xor", ("var", "i32", "lane"), ("cast", "i64", ("var", t, tree.VARIABLES[t][0])))
                )
        return tree.KernelTree(grid, block, self.types, self.shared, self.local, functions, tuple(body))

    def function(self, name: str) -> tree.FunctionTree:
        """A device function: a loop with a way out, or a choice with an early return."""
        self.inside, self.functions = ("a", "b", "v"), ()
        update = ("set", "i32", "v", self.expression("i32", 2))
        leave = ("if", self.condition(1), (("return", self.expression("i32", 1)),), ())
        if self.chance(50):
            bound = ("var", "i32", self.pick(("a", "b")))
            body: tree.Tree = (("while", "k0", bound, None, (update, leave) if self.chance(60) else (update,)),)
        else:
            body = (leave, update)
        result = self.expression("i32", 1)
        self.inside = None
        return tree.FunctionTree(name, body, result)

    # Statements.

    def uniform(self, depth: int) -> list[tree.Tree]:
        """Statements for a place where all threads of the block come."""
        kind = self.random.randrange(100)
        if kind < 25 and self.shared:
            return [self.exchange()]
        if kind < 50:
            return [self.warp_operation()]
        if kind < 57 and depth:
            return [self.with_counter(lambda name: ("for", name, self.pick((2, 3, 4)), tuple(self.uniform(depth - 1))))]
        if kind < 64 and depth:
            bound = ("var", "i32", self.pick(("n", "blk")))
            return [self.with_counter(lambda name: ("while", name, bound, None, tuple(self.uniform(depth - 1))))]
        if kind < 70 and depth:
            test = self.pick((("cmp", self.pick(_COMPARE), ("var", "i32", "n"), self.constant("i32")),
                              ("bit", ("var", "i32", "blk"), 0)))  # fmt: skip
            return [("if", test, tuple(self.uniform(depth - 1)), tuple(self.uniform(0)))]
        return self.divergent(depth, False)

    def with_counter(self, make: Any) -> tree.Tree:
        name = f"k{self.loops}"
        self.loops += 1
        made: tree.Tree = make(name)
        self.loops -= 1
        return made

    def exchange(self) -> tree.Tree:
        """Shared memory written between barriers."""
        number = self.random.randrange(len(self.shared))
        t = self.shared[number][0]
        kind = self.random.randrange(10)
        if kind < 4 and t in ("i32", "u32"):
            op = self.pick(("add", "min", "max", "and_", "or_", "xor", *(["inc"] if t == "u32" else [])))
            self.readable = False
            items = self.pick((1, 4, 16, self.threads))
            items = min(items, self.threads)
            add: tree.Tree = ("shatomic", number, op, self.expression("i32", 1), items, self.expression(t, 1))
            if self.chance(40):
                add = ("if", self.condition(1), (add,), ())
            self.readable = True
            return ("together", (add,))
        if kind < 6 and self.threads & (self.threads - 1) == 0:
            op = self.pick(("+", "max") if t[0] == "f" else ("+", "max", "^"))
            return ("reduce", number, op, self.threads // 2, t)
        strides = [each for each in (1, 3, 5, 7, 11, 2, 4) if _apart(each, self.threads)]
        test = self.condition(1, exchange=True) if self.chance(30) else None
        self.readable = False
        value = self.expression(t, 1)
        self.readable = True
        return ("publish", number, self.pick(strides), self.threads, test, value)

    def warp_operation(self) -> tree.Tree:
        """One operation of a whole warp, or of its first lanes under a condition that says so."""
        full = self.threads % 32 == 0
        width = self.pick((4, 8, 16)) if self.chance(25) and self.threads % 32 in (0, *range(16, 32)) else 0
        t = self.pick([t for t in self.types if t != "u64"])
        kind = self.random.randrange(10)
        by: tree.Tree | None = None
        if kind < 5:
            op = self.pick(("shfl", "shfl_up", "shfl_xor", "shfl_down") if full and not width else ("shfl", "shfl_up"))
            by = self.expression("i32", 1) if op == "shfl" else ("const", "i32", self.pick((1, 2, 3, 4, 8, 16)))
            if t == "u32":
                t = "i32"  # Numba shuffles signed words
            made: tree.Tree = ("warp", op, t, self.pick(tree.VARIABLES[t]), self.expression(t, 1), by, width)
        elif kind < 8:
            op = self.pick(("ballot", "any", "all", "ballot"))
            made = ("warp", op, "i32", self.pick(tree.VARIABLES["i32"]), self.condition(1), None, width)
        elif kind < 9:
            value = self.expression(self.pick([t for t in self.types if t in ("i32", "i64")]), 1)
            made = ("warp", "match_any", "i32", self.pick(tree.VARIABLES["i32"]), value, None, width)
        else:
            made = ("warp", "syncwarp", "i32", "", ("const", "i32", 0), None, width)
        if not width:
            return made
        lane = ("cmp", "<", ("var", "i32", "lane"), ("const", "i32", width))
        other = tuple(self.divergent(0, False)) if self.chance(50) else ()
        return ("if", lane, (made,), other)

    def divergent(self, depth: int, in_loop: bool) -> list[tree.Tree]:
        """Statements that any subset of the threads may execute."""
        made: list[tree.Tree] = []
        for _ in range(1 + self.random.randrange(3)):
            kind = self.random.randrange(100)
            if kind < 22 and depth:
                then, other = self.divergent(depth - 1, in_loop), []
                if self.chance(60):
                    other = self.divergent(depth - 1, in_loop)
                made.append(("if", self.condition(1), tuple(then), tuple(other)))
            elif kind < 30 and depth:
                made.append(self.loop(depth))
            elif kind < 36 and depth:
                bound = self.expression("i32", 1)
                test = self.condition(1) if self.chance(40) else None
                made.append(self.with_counter(
                    lambda name, bound=bound, test=test: ("while", name, bound, test, self.loop_body(depth))
                ))  # fmt: skip
            elif kind < 42:
                made.append(self.atomic())
            elif kind < 50:
                array = self.pick([a for a, (t, _) in tree.OUTPUTS.items() if t in self.types])
                made.append(("store", array, self.expression("i32", 1), self.expression(tree.OUTPUTS[array][0], 2)))
            elif kind < 56 and self.local:
                made.append(("keep", self.expression("i32", 1), self.expression("i32", 2)))
            else:
                t = self.pick(self.types)
                made.append(("set", t, self.pick(tree.VARIABLES[t]), self.expression(t, 2 + self.random.randrange(2))))
        return made

    def loop(self, depth: int) -> tree.Tree:
        return self.with_counter(lambda name: ("for", name, self.pick((2, 3, 5)), self.loop_body(depth)))

    def loop_body(self, depth: int) -> tree.Tree:
        """A loop's statements, with a way out of it or to its next round among them."""
        body = self.divergent(depth - 1, True)
        if self.chance(40):
            way = (("break",),) if self.chance(55) else (("continue",),)
            body.append(("if", self.condition(1), way, ()))
            body += self.divergent(0, True)
        return tuple(body)

    def atomic(self) -> tree.Tree:
        array = self.pick([name for name, t in tree.SHARED_RESULTS.items() if t in self.types])
        op = self.pick(("add", "min", "max", "and_", "or_", "xor", *(["inc"] if array == "gu" else [])))
        return ("atomic", array, op, self.expression("i32", 1), self.expression(tree.SHARED_RESULTS[array], 1))

    # Expressions.

    def start(self, t: str) -> tree.Tree:
        """A variable's first value: data, a coordinate or a constant."""
        array = next((name for name, (kind, _) in tree.INPUTS.items() if kind == t), None)
        at: tree.Tree = ("var", "i32", self.pick(("gid", "tid", "lane")))
        if self.chance(50):
            at = ("bin", "i32", self.pick(("+", "*")), at, self.constant("i32"))
        if array and self.chance(70):
            return ("load", t, array, at)
        return at if t == "i32" else ("cast", t, at)

    def constant(self, t: str) -> tree.Tree:
        if t[0] == "f":
            return ("const", t, self.pick((0.0, 1.0, -1.0, 0.5, 2.0, -3.25, 10.0, 0.125, 1e-3)))
        wild = (0x7FFFFFFF, 0x55555555, 1 << 20, 255)
        small = (0, 1, 2, 3, 5, 7, 16, 31)
        value = self.pick(wild if self.chance(20) else small)
        if t[1:] == "64" and self.chance(15):
            value = (value << 31) + 12345
        return ("const", t, -value if t[0] == "i" and self.chance(25) else value)

    def leaf(self, t: str) -> tree.Tree:
        kind = self.random.randrange(100)
        if kind < 22:
            return self.constant(t)
        if self.inside:
            return ("var", t, self.pick(self.inside))
        if t not in self.types:
            return ("cast", t, self.leaf("i32"))
        if t == "i32" and kind < 45:
            counters = tuple(f"k{number}" for number in range(self.loops))
            return ("var", t, self.pick((*tree.COORDINATES[:4], *tree.COORDINATES, "n", *counters, *counters)))
        if t in ("i64", "f32") and kind < 30:
            return ("var", t, "m" if t == "i64" else "x")
        return ("var", t, self.pick(tree.VARIABLES[t]))

    def expression(self, t: str, depth: int) -> tree.Tree:
        """An expression of a type, at most `depth` operators deep."""
        kind = self.random.randrange(100)
        if depth <= 0 or kind < 12:
            return self.leaf(t)
        if kind < 24 and not self.inside:
            return self.memory(t, depth)
        if kind < 32:
            source = self.pick([each for each in self.types if each != t] or [t]) if not self.inside else t
            if source != t:
                return ("cast", t, self.expression(source, depth - 1))
        if kind < 40:
            return ("sel", t, self.condition(depth - 1), self.expression(t, depth - 1), self.expression(t, depth - 1))
        if t[0] == "f":
            if kind < 48:
                return ("un", t, self.pick(("neg", "abs", "sqrt", "floor")), self.expression(t, depth - 1))
            if kind < 58:
                return ("fma", t, *(self.expression(t, depth - 1) for _ in range(3)))
            return ("bin", t, self.pick(_FLOAT_OPS), self.expression(t, depth - 1), self.expression(t, depth - 1))
        if kind < 47:
            return ("un", t, self.pick(("neg", "inv", "abs") if t[0] == "i" else ("neg", "inv")),
                    self.expression(t, depth - 1))  # fmt: skip
        if kind < 51 and t == "i32":
            word = ("cast", "u32", self.expression("i32", depth - 1))
            return ("bits", t, self.pick(("popc", "clz", "ffs", "brev")), word)
        if kind < 58 and t == "i32" and self.functions:
            first, second = self.expression(t, depth - 1), self.expression(t, depth - 1)
            return ("call", t, self.pick(self.functions), first, second)
        return ("bin", t, self.pick(_INT_OPS), self.expression(t, depth - 1), self.expression(t, depth - 1))

    def memory(self, t: str, depth: int) -> tree.Tree:
        """A load: gathered from an input, of an own output, from shared or local memory."""
        index = self.expression("i32", depth - 1)
        inputs = [name for name, (kind, _) in tree.INPUTS.items() if kind == t]
        outputs = [name for name, (kind, _) in tree.OUTPUTS.items() if kind == t]
        ways: list[tree.Tree] = [("load", t, name, index) for name in inputs] * 2
        ways += [("own", t, name, index) for name in outputs if t in self.types]
        if self.readable:
            ways += [("shared", t, number, index, self.threads)
                     for number, (kind, _) in enumerate(self.shared) if kind == t] * 2  # fmt: skip
        if t == "i32" and self.local:
            ways += [("local", t, index)] * 2
        return self.pick(ways) if ways else self.leaf(t)

    def condition(self, depth: int, *, exchange: bool = False) -> tree.Tree:
        """A condition on lane, thread, block or data; `exchange`: that reads no shared memory."""
        kind = self.random.randrange(100)
        before, self.readable = self.readable, self.readable and not exchange
        if kind < 15:
            made: tree.Tree = ("bit", self.expression("i32", depth), self.random.randrange(5))
        elif kind < 30 and not self.inside:
            edge = ("const", "i32", self.pick((1, 5, 8, 16, 20, 31)))
            made = ("cmp", self.pick(_COMPARE), ("var", "i32", self.pick(("lane", "tid", "blk", "warp"))), edge)
        elif kind < 40 and depth:
            made = (self.pick(("and", "or")), self.condition(depth - 1), self.condition(depth - 1))
        elif kind < 45 and depth:
            made = ("not", self.condition(depth - 1))
        else:
            t = "i32" if self.inside else self.pick(self.types)
            made = ("cmp", self.pick(_COMPARE), self.expression(t, depth), self.expression(t, depth))
        self.readable = before
        return made


def _apart(stride: int, threads: int) -> bool:
    """Return whether multiples of a stride are different for all threads."""
    return len({index * stride % threads for index in range(threads)}) == threads
