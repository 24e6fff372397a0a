"""One call from a kernel to a predicted run: compile, bind the arguments, simulate, copy the results back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusim.bound import quick_bound
from gpusim.config import GPUConfig, load_config
from gpusim.engine.stop import Stop
from gpusim.host.launch_run import session_run
from gpusim.host.options import DEFAULT_MAX_CYCLES, LaunchOptions, Progress, checks_of, host_threads
from gpusim.host.session import GpuSession
from gpusim.launch import Launch, as_args
from gpusim.launch.arguments import program_of
from gpusim.launch.memory import DeviceMemory
from gpusim.node import Node, load_node
from gpusim.node.peer import peer_rows, without_peers
from gpusim.result import Result
from gpusim.tracing.accel_sim import AccelSimTraces
from gpusim.tracing.recording import TraceOptions

if TYPE_CHECKING:
    from gpusim.machine.gpu import GPU


# many parameters: it is the call that users make, and each has a name of its own.
# long: most of it says what they mean.
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
    progress: Progress | None = None,
    check: str | Iterable[str] = (),
    trace: bool | TraceOptions | None = None,
    node: str | Path | Node = "hgx_h200",
    bound: bool = False,
    mode: str = "detailed",
    outputs: bool = False,
    accel_sim: AccelSimTraces | None = None,
    stop: Stop | None = None,
    model: str | type[GPU] = "engine",
) -> Result:
    """Run a kernel once on a simulated GPU with cold caches.

    Args:
        kernel: a function or dispatcher of `numba.cuda`, a `gpusim.launch.CudaSource`, or an `isa.Program`.
        grid, block: blocks of the grid and threads of a block: an int or up to three.
        args: NumPy arrays, scalars, and `gpusim.launch.TensorMap`s and `Struct`s of arrays, which a run that succeeds
            updates in place. `gpusim.node.on("gpu1", x)` is one that lives on another GPU of `node`: docs/nodes.md.
        gpu: name of a shipped configuration, path to a TOML file, or a `GPUConfig`.
        shared_bytes: dynamic shared memory per block.
        signature: Numba types of the arguments, where Numba's own typing of `args` is not wanted.
        overrides: changes to the configuration, such as `["sm.count=66"]` or `{"sm.count": 66}`.
        max_cycles: SM clock cycles after which the run is given up; None for no limit.
        threads: host threads; None takes one per core. The result does not depend on it.
        strict_barriers: a barrier that some threads have exited without reaching is an error; False lets exited
            threads count as arrived, as the hardware does.
        progress: called now and then with (cycles, blocks finished, blocks in the grid, warp instructions issued).
        check: what else to look for, by the names of compute-sanitizer's tools: any of `gpusim.CHECKS`. Neither cycles
            nor counts change; the run takes longer. Accesses are always checked for bounds, alignment and
            use after free ("memcheck"). See docs/errors.md.
        trace: record what happened when, as `result.trace`: True for SM 0 and block 0, or `gpusim.TraceOptions`.
            Neither cycles nor counts change. See docs/traces.md.
        node: name of a shipped node, path to a TOML file, or a `gpusim.node.Node`, for arrays on other GPUs; the kernel
            runs on its first one.
        bound: also say how far the time is from the least that the launch could take, as `result.bound` and in the
            report, where a few of its blocks tell; else `result.why_no_bound` says why not. See docs/bound.md.
        mode: "functional" executes and counts the instructions without time; "sampled" times some blocks of a large
            grid and extrapolates (`result.sampling` says how), and leaves `args` as they are but with `outputs`, which
            executes the others as well. See docs/modes.md.
        accel_sim: write the instructions of a functional run for Accel-Sim: docs/traces.md.
        model: "engine"; "simpy" for the machine of SimPy processes, or a subclass of `gpusim.machine.GPU`.
        stop: a `gpusim.Stop`, where the run ends with a `gpusim.Stopped` that says what is there: docs/testing.md.

    Raises:
        SimulationError: or one of its subclasses, for everything that is wrong with the launch or that the kernel does
            wrong; the arrays in `args` are then unchanged.
    """
    options = LaunchOptions(
        max_cycles=max_cycles,
        strict_barriers=strict_barriers,
        checks=checks_of(check),
        progress=progress,
        trace=TraceOptions.of(trace),
        mode=mode,
        outputs=outputs,
        accel_sim=accel_sim,
        stop=stop,
        model=model,
    )
    config = load_config(gpu, overrides)
    here, elsewhere = without_peers(as_args(args))
    launch = Launch(kernel, grid, block, here, shared_bytes, signature)
    program = program_of(launch, config.gpu.arch)
    least, why = None, ""
    if bound:
        least, why = (None, "it reads other GPUs' memory") if elsewhere else quick_bound(launch, config)
    memory = DeviceMemory(config.dram.capacity_bytes)
    with GpuSession(config, memory, host_threads(threads)) as session:
        run = session_run(session, program, launch, options)
        if elsewhere and run.placed is not None:
            at = {position: run.placed.arrays[position].address for position in elsewhere}
            run.set_peers(peer_rows(load_node(node), elsewhere, at, memory, config))
        record = run.submit().wait()
    return Result(record, least, why)
