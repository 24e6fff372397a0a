"""`python -m validate triton`: compile kernels with the Triton wheel, without a GPU; simulate them, and compare with
NumPy and with a recording."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import gpusim
from gpusim.errors import SimulationError
from gpusim.results.profile import parse_profile
from isa import Program
from isa.errors import IsaError
from isa.listing import program_from_cubin
from programs.images import LoadableKernel
from validate import comparing, score
from validate.baseline import plain
from validate.commands import EXIT_OK, EXIT_WRONG, UsageError
from validate.gpu import compact_text
from validate.importer import ImportRefused
from validate.metrics import DIFFERENCES, with_differences
from validate.points import NamedPoint
from validate.replay import Failure, StaleBaseline, against
from validate.scoring import text
from validate.triton import cases
from validate.triton.cases import TritonCase, make
from validate.triton.work import SCRATCH, BuiltLaunch, NotBuilt, Work, read_job, write_job

FILE = Path(__file__).with_name("h200.json")


def run(options: argparse.Namespace) -> int:
    """The status: 0 if every output is right and every exact counter equal. Raises UsageError if there is nothing to
    simulate."""
    names = [name for name in cases.CASES
             if (not options.only or {name, name.split("@")[0], cases.family(name)} & {*options.only})
             and options.split in ("all", cases.split(name))]  # fmt: skip
    if not names:
        raise UsageError(f"no such point; there are {', '.join(cases.CASES)}")
    if options.list:
        print("\n".join(f"{name:40s} {cases.split(name)}" for name in names))
        return EXIT_OK
    try:
        if options.keep:
            return _keep(*options.keep)
        require()
        if not options.job:
            return comparing.show(_rows(names, options.gpu), options, text.report_of_done)[0]
        write_job(options.job, {name: build(name)[1] for name in names})
    except NotBuilt as error:
        raise UsageError(str(error)) from None
    print(f"on the GPU machine: python -m validate.triton.worker {options.job} recorded.json.gz")
    return EXIT_OK


# --- simulated --------------------------------------------------------------------------------------------------------


def simulate(
    program: Program, built: BuiltLaunch, work: Work, gpu: Any = "h200"
) -> tuple[gpusim.Result, dict[str, np.ndarray]]:
    """Run a launch with cold caches; the result, and all arrays afterwards. Raises gpusim.SimulationError."""
    if built.cluster != (1, 1, 1):
        program = replace(program, cluster=built.cluster)
    with gpusim.Device(gpu) as device:
        placed = {name: device.to_device(array) for name, array in built.arrays(work).items()}
        it = built.launch(placed, work)
        result = device.launch(program, it.grid, it.block, it.args, it.shared_bytes)
        return result, {name: each.copy_to_host() for name, each in placed.items()}


def _rows(names: list[str], gpu: str) -> Iterator[score.Row]:
    recorded = json.loads(FILE.read_text())["points"]
    for name in names:
        point = NamedPoint(name, 0, judging=cases.split(name) == "judge")
        try:
            yield _row(point, recorded.get(name), gpu)
        except (SimulationError, IsaError, StaleBaseline) as error:
            yield Failure(point, str(error))


def _row(point: NamedPoint, recorded: Any, gpu: str) -> score.Row:
    """One point, against NumPy and the recording. Raises StaleBaseline where the recording is of something else."""
    (program, built), work = build(point.variant), cases.work_of(point.variant)
    if recorded is None:
        raise StaleBaseline("not recorded")
    if recorded["code_sha256"] != built.code_sha256:
        raise StaleBaseline("other machine code than was measured")
    if recorded["inputs_sha256"] != work.digest():
        raise StaleBaseline("the inputs are not those that were measured")
    began = time.perf_counter()
    result, outputs = simulate(program, built, work, gpu)
    return against(point, result, recorded["counters"], work.mismatch(outputs)[0], time.perf_counter() - began)


# --- what the repository keeps of a recording: text and numbers, no machine code --------------------------------------


def _keep(job: Path, recorded: Path) -> int:
    try:
        document = kept(job, recorded)
        if missing := {*cases.CASES} - {*document["points"]}:
            raise ImportRefused(f"{len(missing)} points are missing, {min(missing)} for one")
    except ImportRefused as refused:
        print(f"nothing kept:\n{refused}", file=sys.stderr)
        return EXIT_WRONG
    FILE.write_text(compact_text(document))
    print(f"{len(document['points'])} points in {FILE.name}")
    return EXIT_OK


def kept(job: Path, recorded: Path) -> dict[str, Any]:
    """Return what is kept of a job that the worker recorded. Raises ImportRefused if a point is wrong or missing."""
    with gzip.open(recorded, "rt") as stream:
        found = json.load(stream)
    rows, launches, built = found["rows"], parse_profile(found["csv"]), read_job(job)
    refused = [f"{row['point']}: {row['mismatch']}" for row in rows if row["mismatch"]]
    refused += [f"{name}: was not launched" for name in built.keys() - {row["point"] for row in rows}]
    if refused or len(rows) != len(launches):
        raise ImportRefused("\n".join(refused) or f"{len(rows)} launches made, {len(launches)} counted")
    tools = {"triton": WHEEL}  # which brings its own ptxas
    document: dict[str, Any] = {"provenance": found["provenance"] | {"tools": tools}, "points": {}}
    for name, each in built.items():
        row, case = next(row for row in rows if row["point"] == name), make(name)
        mine = [with_differences(launch.metrics) for row, launch in zip(rows, launches, strict=True)
                if row["point"] == name]  # fmt: skip
        facts = sorted(key for key in mine[0] if key.startswith("launch__"))
        wanted = dict.fromkeys(key for key in (*found["metrics"], *DIFFERENCES, *facts) if key in mine[0])
        shape = {key: getattr(each, key) for key in ("grid", "block", "cluster", "shared_bytes")}
        document["points"][name] = {
            "how": {"kernel": case.kernel, **case.constants, **case.options},
            "launch": {"symbol": each.kernel.symbol} | shape,
            "code_sha256": each.code_sha256,
            "inputs_sha256": row["inputs_sha256"],
            "error": row["error"],
            "counters": {key: _values([metrics[key] for metrics in mine]) for key in wanted},
        }
    return document


def _values(values: list[float]) -> Any:
    """One value, or that of each launch where they differ."""
    return plain(values[0]) if len(set(values)) == 1 else [plain(each) for each in values]


WHEEL = "3.9.0"
_TYPES = {"float16": "fp16", "float32": "fp32", "int32": "i32"}
_SWIZZLES = ("none", "32B", "64B", "128B")
"""By Triton's numbers, which are the driver's."""


def require() -> None:
    """Raises NotBuilt if the Triton wheel is not installed, or is another one."""
    if find_spec("triton") is None:
        raise NotBuilt("the Triton wheel is not installed; pip install -e .[triton]")
    import triton

    if triton.__version__ != WHEEL:
        raise NotBuilt(f"this is Triton {triton.__version__}, not {WHEEL}; pip install -e .[triton]")


def build(name: str) -> tuple[Program, BuiltLaunch]:
    """The program and the launch of a case. Raises NotBuilt."""
    require()
    case = make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from triton import compile as translate
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        from validate.triton import kernels

        signature = {name: _type(case, name, value) for name, value in case.arguments.items()}
        signature |= dict.fromkeys(case.constants, "constexpr")
        aligned: dict[tuple[int, ...], Any] = {
            (index,): [["tt.divisibility", 16]]
            for index, (name, value) in enumerate(case.arguments.items())
            if name not in case.boxes and (value is None or (isinstance(value, int) and value % 16 == 0))
        }
        source = ASTSource(getattr(kernels, case.kernel), signature, dict(case.constants), aligned)
        found = translate(source, target=GPUTarget("cuda", 90, 32), options={**case.options, "enable_fp_fusion": True})
    cubin, about = found.asm["cubin"], found.metadata
    program = program_from_cubin(cubin, about.name, abi="c", path=f"{about.name}.cubin")
    return program, _launch(case, program, cubin, about)


def _type(case: TritonCase, name: str, value: Any) -> str:
    """Triton's spelling of an argument's type."""
    if value is not None:
        return "i32" if isinstance(value, int) else "fp32"
    array = case.work.arrays[name]
    element = case.work.kinds.get(name) or _TYPES[str(array.dtype)]
    if name in case.boxes:
        return f"tensordesc<{element}[{','.join(map(str, case.boxes[name]))}]>"
    return f"*{element}"


def _launch(case: TritonCase, program: Program, cubin: bytes, about: Any) -> BuiltLaunch:
    """The launch that Triton's own launcher would make: a tensor map is followed by its shape and strides, and the last
    two parameters are scratch memory."""
    args: list[Any] = []
    maps = iter(about.tensordesc_meta or ())
    for name, value in case.arguments.items():
        if name in case.boxes:
            array, said = case.work.arrays[name], next(maps)
            args += [(name, tuple(said["block_size"]), _SWIZZLES[said["swizzle"]]), *map(np.int32, array.shape)]
            args += [np.int64(stride // array.itemsize) for stride in array.strides]
        else:
            args.append(name if value is None else np.int32(value) if isinstance(value, int) else value)
    scratch_bytes = about.global_scratch_size * int(np.prod(case.grid)) * about.num_ctas
    args += [SCRATCH if scratch_bytes else np.uint64(0), np.uint64(0)]
    places = tuple((each.index, each.offset, each.size) for each in program.parameters)
    x, y, z = (*case.grid, 1, 1)[:3]
    return BuiltLaunch(
        kernel=LoadableKernel(f"{about.name}.cubin", program.symbol, cubin, places, program.sha256, "c"),
        code_sha256=program.code_sha256,
        grid=(x * about.num_ctas, y, z),
        block=(32 * about.num_warps, 1, 1),
        shared_bytes=about.shared,
        args=tuple(args),
        cluster=(about.num_ctas, 1, 1),
        scratch_bytes=scratch_bytes,
    )
