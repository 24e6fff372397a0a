"""One call from a kernel to a predicted run: compile, bind the arguments, simulate, copy the results back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.config import GPUConfig, load_config
from gpusim.errors import CheckError
from gpusim.launch import Launch
from gpusim.launch.arguments import bind, infer_signature, parse_signature
from gpusim.launch.memory import DeviceMemory
from gpusim.launch.module import Modules
from isa import Program, compile_kernel

if TYPE_CHECKING:
    from gpusim.node import Node
    from gpusim.results.result import Result
    from gpusim.tracing.trace import TraceOptions

#: What `check` may name, after compute-sanitizer's tools; memcheck is always on.
CHECKS = {"memcheck": 0, "initcheck": 1, "racecheck": 2, "synccheck": 4}

#: A launch may run this long unless `max_cycles` says otherwise: a minute of GPU time. An endless loop ends here.
DEFAULT_MAX_CYCLES = 100_000_000


def simulate(
    kernel: Any,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any] = (),
    gpu: str | Path | GPUConfig = "h200",
    shared_bytes: int = 0,
    *,
    signature: Any = None,
    overrides: Mapping[str, Any] | Sequence[str] | None = None,
    max_cycles: int | None = DEFAULT_MAX_CYCLES,
    threads: int | None = None,
    strict_barriers: bool = True,
    progress: Callable[[int, int, int], None] | None = None,
    check: str | Iterable[str] = (),
    trace: bool | TraceOptions | None = None,
    node: str | Path | Node = "hgx_h200",
    bound: bool = False,
) -> Result:
    """Run a kernel once on a simulated GPU with cold caches.

    Args:
        kernel: a Python function written for `numba.cuda`, a `numba.cuda` dispatcher, or an `isa.Program`.
        grid, block: blocks of the grid and threads of a block: an int or up to three.
        args: NumPy arrays and scalars; arrays are updated in place when the run succeeds. `gpusim.node.on("gpu1", x)`
            is an array that lives on another GPU of `node`: docs/nodes.md.
        gpu: name of a shipped configuration, path to a TOML file, or a `GPUConfig`.
        shared_bytes: dynamic shared memory per block.
        signature: Numba types of the arguments, where Numba's own typing of `args` is not wanted.
        overrides: changes to the configuration, such as `["sm.count=66"]` or `{"sm.count": 66}`.
        max_cycles: SM clock cycles after which the run is given up; None for no limit.
        threads: host threads; None takes one per core. The result does not depend on it.
        strict_barriers: a barrier that some threads have exited without reaching is an error; False lets exited
            threads count as arrived, as the hardware does.
        progress: called now and then with (cycles, blocks finished, blocks in the grid).
        check: what else to look for, by the names of compute-sanitizer's tools: any of `gpusim.CHECKS`. Neither cycles
            nor counts change; the run takes longer. Accesses are always checked for bounds, alignment and
            use after free ("memcheck"). See docs/errors.md.
        trace: record what happened when, as `result.trace`: True for SM 0 and block 0, or `gpusim.TraceOptions`.
            Neither cycles nor counts change. See docs/traces.md.
        node: name of a shipped node, path to a TOML file, or a `gpusim.node.Node`, for arrays on other GPUs; the kernel
            runs on its first one.
        bound: also say how far the time is from the least that the launch could take, as `result.bound` and in the
            report, where a few of its blocks tell (`gpusim.bound`); else that stays None. See docs/bound.md.

    Raises:
        SimulationError: or one of its subclasses, for everything that is wrong with the launch or that the kernel does
            wrong; the arrays in `args` are then unchanged.
    """
    from gpusim.host.runner import (
        run_launch,  # the compiled core: a heavy import that listing programs can do without
    )
    from gpusim.node.peer import peer_rows, without_peers

    checks = checks_of(check)
    config = load_config(gpu, overrides)
    here, elsewhere = without_peers(args)
    launch = Launch(kernel, grid, block, here, shared_bytes, signature)
    program = program_of(kernel, launch.args, config, signature)
    least = None
    if bound and not elsewhere:
        from gpusim.bound import quick_bound

        least = quick_bound(launch, config)
    memory = DeviceMemory(config.dram.capacity_bytes)
    modules = Modules(memory)
    # Arguments first: a program's variables must not move them to other L2 slices, since a kernel is loaded lazily.
    placed = bind(program, launch.args, memory, signature if program is not kernel else None, parameter_names(kernel))
    linked = modules.link(program)
    peers = []
    if elsewhere:
        from gpusim.node.topology import load_node

        addresses = {position: placed.arrays[position].address for position in elsewhere}
        peers = peer_rows(load_node(node), elsewhere, addresses, memory, config)
    result = run_launch(
        config,
        linked,
        launch,
        memory,
        placed.parameter_bytes,
        host_threads(threads),
        max_cycles,
        strict_barriers,
        progress,
        checks=checks,
        trace=trace,
        peers=peers,
    )
    modules.check_exception(program)
    placed.copy_back()
    result.bound = least
    return result


def program_of(kernel: Any, args: Sequence[Any], config: GPUConfig, signature: Any = None) -> Program:
    """The machine code of a kernel for these arguments and this GPU's architecture."""
    if isinstance(kernel, Program):
        return kernel
    name = getattr(kernel, "__name__", None)
    types = parse_signature(signature) if signature is not None else infer_signature(args, name)
    return compile_kernel(kernel, types, config.gpu.arch)


def parameter_names(kernel: Any) -> tuple[str, ...]:
    """Names of a Python kernel's parameters, for messages; empty for a program."""
    code = getattr(getattr(kernel, "py_func", kernel), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()


def host_threads(threads: int | None) -> int:
    """Host threads to use: as asked for, or one per core this process may run on."""
    if threads is not None:
        return max(threads, 1)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def checks_of(check: str | Iterable[str]) -> int:
    """The engine's flags for names of checks: a text with commas, or several. Raises CheckError for an unknown one."""
    names = check.split(",") if isinstance(check, str) else list(check)
    flags = 0
    for name in names:
        if name not in CHECKS:
            raise CheckError(name, tuple(CHECKS))
        flags |= CHECKS[name]
    return flags
