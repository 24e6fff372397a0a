"""One kernel launch, described without any GPU, compiler or simulator.

`gpusim/__init__.py` is lazy (it imports its heavy parts on first use), so `import gpusim.launch` needs
nothing but the standard library. That lets `programs` and `validate` describe launches on a machine that has
a GPU and Numba but none of the simulator's own dependencies.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # models need pydantic, which a machine that records does not have
    from gpusim.config.models import GPUConfig

Dim3 = tuple[int, int, int]


def _refused(reason: str) -> Exception:
    from gpusim.errors import LaunchError  # errors import isa, which programs do without

    return LaunchError(reason)


def as_dim3(value: int | Sequence[int], name: str = "dimension") -> Dim3:
    """Return `value`, an int or a sequence of one to three ints, as (x, y, z); missing dimensions are 1.

    Raises LaunchError, which names `name`, if a component is not an integer (a bool is not) or not positive, or if
    there are more than three.
    """
    parts = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not 1 <= len(parts) <= 3:
        raise _refused(f"{name} must have one to three components, got {len(parts)}: {value!r}")
    try:
        dims = [operator.index(part) for part in parts if not isinstance(part, bool)]
    except TypeError:
        dims = []
    if len(dims) < len(parts):
        raise _refused(f"{name} must be an int or a tuple of ints, got {value!r}")
    if min(dims) < 1:
        raise _refused(f"{name} must be positive in every component, got {value!r}")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


def as_args(args: Any) -> tuple[Any, ...]:
    """Return a launch's arguments as a tuple.

    Raises LaunchError for what stands for one argument alone, whose elements would be taken for arguments.
    """
    alone = hasattr(args, "dtype") or isinstance(args, str | bytes | Mapping)
    if alone or not isinstance(args, Iterable):
        raise _refused(
            f"args must be a tuple of the kernel's arguments, got one {type(args).__name__}; one alone is spelled (x,)"
        )
    return tuple(args)


@dataclass(frozen=True, eq=False, init=False)
class Launch:
    """One launch of a kernel over a grid of blocks.

    kernel: a plain Python function written for `numba.cuda`, a `numba.cuda` dispatcher, a `CudaSource`, or a decoded
        program.
    grid: blocks in x, y, z. block: threads per block in x, y, z. Both accept an int or a shorter sequence and
        are stored as a 3-tuple of positive ints, the order of `kernel[grid, block]` in Numba (x first).
    args: NumPy arrays, scalars, `TensorMap`s and `Struct`s in the kernel's order. A run updates the arrays in place, as
        a Numba launch does.
    shared_bytes: dynamic shared memory per block, beyond what the kernel declares statically.
    signature: Numba argument types that replace those inferred from `args`; None to infer.

    Limits that differ between GPUs (threads per block, shared memory) are checked where the GPU is known.
    Compares by identity, since the arguments are mutable arrays.
    """

    kernel: Any
    grid: Dim3
    block: Dim3
    args: tuple[Any, ...] = ()
    shared_bytes: int = 0
    signature: Any = None

    # Written out because it accepts more types than the fields hold.
    def __init__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any] = (),
        shared_bytes: int = 0,
        signature: Any = None,
    ) -> None:
        try:
            shared = operator.index(shared_bytes)
        except TypeError:
            raise _refused(f"shared_bytes must be an int, got {shared_bytes!r}") from None
        if shared < 0:
            raise _refused(f"shared_bytes must not be negative, got {shared}")
        fields = {
            "kernel": kernel,
            "grid": as_dim3(grid, "grid"),
            "block": as_dim3(block, "block"),
            "args": as_args(args),
            "shared_bytes": shared,
            "signature": signature,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def blocks(self) -> int:
        """Number of blocks in the grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def threads_per_block(self) -> int:
        """Number of threads in one block."""
        x, y, z = self.block
        return x * y * z


PROPERTIES = ("normal", "streaming", "persisting")
"""Names of properties, in the order of `cudaAccessProperty`'s numbers."""


@dataclass(frozen=True)
class AccessWindow:
    """The treatment by L2 of accesses to a window of addresses.

    address, nbytes: the window. hit_ratio: share of its lines, 0 to 1, whose accesses have the property `hit`; the
    others have `miss`. Which lines these are is a hash of their addresses. Both are names of PROPERTIES; `miss` is not
    persisting.
    """

    address: int
    nbytes: int
    hit_ratio: float = 1.0
    hit: str = "persisting"
    miss: str = "streaming"

    def check(self, config: GPUConfig) -> None:
        """Raise LaunchError for a window that a GPU does not take."""
        for name, wrong in (
            (f"{self.nbytes:,} bytes, allowed 1 to {config.l2.window_max_bytes:,}",
             not 0 < self.nbytes <= config.l2.window_max_bytes),
            (f"a hit ratio of {self.hit_ratio}, allowed 0 to 1", not 0 <= self.hit_ratio <= 1),
            (f"property {self.hit!r}, allowed {', '.join(PROPERTIES)}", self.hit not in PROPERTIES),
            (f"property {self.miss!r} for the other lines, allowed {', '.join(PROPERTIES[:2])}",
             self.miss not in PROPERTIES[:2]),
        ):  # fmt: skip
            if wrong:
                raise _refused(f"an access window with {name}")
