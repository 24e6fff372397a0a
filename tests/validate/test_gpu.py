"""The GPU side of recordings: its calls of the driver, on the simulated one, and ncu by a stand-in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from validate import gpu, record

ROOT = Path(__file__).parents[2]
FAKE = """#!{python}
import sys
arguments = sys.argv[1:]
assert arguments[arguments.index("--clock-control") + 1] == "none" and arguments[-1] == "true"
log = arguments[arguments.index("--log-file") + 1]
names = arguments[arguments.index("--metrics") + 1].split(",")
with open(log, "w") as file:
    if "bad" in names:
        file.write("==ERROR== Failed to find metric bad\\n")
        sys.exit(1)
    columns = "ID,Kernel Name,Block Size,Grid Size".split(",") + names
    file.write(",".join('"' + c + '"' for c in columns) + "\\n")
    cells = ["0", "k", "(1, 1, 1)", "(1, 1, 1)"] + ["7"] * len(names)
    file.write(",".join('"' + c + '"' for c in cells) + "\\n")
"""


def on_the_simulated_driver(code: str, *overrides: str) -> str:
    """What a program prints whose libcuda is the simulator's; `it` is its RealGpu."""
    head = f"""
        import warnings; warnings.simplefilter("ignore")
        import gpusim.driver.numba_cuda; gpusim.driver.numba_cuda.install("h200", threads=1, overrides={overrides})
        import numpy as np
        from validate.gpu import RealGpu
        it = RealGpu()
    """
    text = textwrap.dedent(head) + textwrap.dedent(code)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_what_measurements_ask_of_the_driver(tmp_path, toolchain):
    from isa.compile import compile_cuda

    source = """
        extern "C" __global__ void add(int *out, int more) {
            extern __shared__ int tile[];
            tile[threadIdx.x] = more + blockIdx.x;
            out[blockIdx.x * blockDim.x + threadIdx.x] += tile[threadIdx.x];
        }"""
    (tmp_path / "k.cubin").write_bytes(compile_cuda(source, "sm_90"))
    printed = on_the_simulated_driver(f"""
        code = open({str(tmp_path / "k.cubin")!r}, "rb").read()
        place = it.alloc(64 * 4)
        it.put(place, np.arange(64, dtype=np.int32))
        add = it.function(code, "add")
        assert add is it.function(code, "add")
        words = np.uint64(place), np.int32(5)
        it.prepared(add, (2,), (32,), words, 64 << 10)()
        it.prepared(add, (2, 1, 1), (32, 1, 1), words, 128)()
        assert it.timed_us(it.prepared(add, (2,), (32,), words, 128)) > 0
        it.synchronize()
        print(it.get(place, 64, np.int32).tolist())
        it.put(place, np.zeros(32, np.int32))
        print(it.get(place, (2, 32), np.int32).sum(axis=1).tolist())
        about = it.about()
        print(about["gpu"], about["compute_capability"], about["sm_count"])
        it.free(place)
        try:
            it.call("cuMemFree", 12345)
        except Exception as error:
            print(type(error).__name__, error)
    """).splitlines()
    added = np.arange(64) + np.where(np.arange(64) < 32, 15, 18)
    assert printed[0] == str(added.tolist())
    assert printed[1] == str([0, int(added[32:].sum())])
    assert printed[2].endswith(" 9.0 132")
    assert printed[3].startswith("GpuError cuMemFree: CUDA_ERROR_INVALID_VALUE")


def test_measuring_begins_with_what_calibrates_and_says_what_would_change(tmp_path):
    """On a GPU whose fences take longer than the configuration says; reading 512 MiB before a launch is left out."""
    printed = on_the_simulated_driver(f"""
        import sys
        from types import SimpleNamespace
        sys.stderr = sys.stdout
        from validate import worker
        from validate.__main__ import main
        worker.flush_kernel = lambda real: SimpleNamespace(run=lambda: None)
        line = "microbench measure --only pipe_fadd sync_fence --repeats 1 --out {tmp_path}/card.json".split()
        assert main(line) == 0 and main([*line, "--seconds", "0"]) == 0
    """, "memory_instruction.fence_gpu_latency_cycles=300").splitlines()  # fmt: skip
    done = [line.partition(":")[0] for line in printed if line.endswith(" cases")]
    assert done == ["sync_fence_gpu", "sync_fence_system", "pipe_fadd", "sync_fence_block"]
    begins = next(k for k, line in enumerate(printed) if line.startswith("group "))
    changed, missing = printed[begins + 1 : begins + 3]
    assert changed.split()[:2] == ["sync_fence_gpu", "memory_instruction.fence_gpu_latency_cycles"]
    assert 299 <= float(changed.split()[2]) <= 302 and missing.startswith("not measured: ")
    assert printed[-1].startswith("python -m validate calibrate --results ")
    assert {f"{name}: not reached in 0 s" for name in done} <= {*printed}


def stand_in(folder: Path, text: str) -> str:
    path = folder / "ncu"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_ncu_counts_and_its_failures_are_told(tmp_path):
    ncu = stand_in(tmp_path, FAKE.format(python=sys.executable))
    done = gpu.count(["true"], ["a", "b"], timeout_s=60, ncu=ncu)
    assert (done.status, done.lines) == (0, 1) and '"7","7"' in done.csv
    failed = gpu.count(["true"], ["a", "bad"], timeout_s=60, ncu=ncu)
    assert failed.status == 1 and record.complaints(failed.csv, ["a", "bad"]) == ["bad"]
    with pytest.raises(OSError):
        gpu.count(["true"], ["a"], timeout_s=5, ncu=str(tmp_path / "nowhere"))
    slow = stand_in(tmp_path, "#!/bin/sh\necho begun\nsleep 60\n")
    assert gpu.run([slow], 0.5) == (None, "begun\n")


def test_complaints_name_only_requested_metrics_in_errors():
    output = "==PROF== a.sum is fine\n==ERROR== Failed to find metric b__x.sum.\n==WARNING== unknown: 'c'\n"
    assert record.complaints(output, ["a.sum", "b__x.sum", "c", "b"]) == ["b__x.sum", "c"]


def test_what_records_needs_nothing_of_the_simulator():
    """A machine with a GPU has NumPy and Numba, and none of these."""
    code = "import sys; sys.modules |= dict.fromkeys(('pydantic', 'simpy', 'elftools', 'rich', 'cupy'))\n"
    code += "import gpusim.launch; assert not {'numba', 'numpy'} & {*sys.modules}, 'gpusim.launch must stay light'\n"
    code += "from programs import registry; assert registry.names()\n"
    code += "assert not any(name == 'isa' or name.startswith('gpusim.engine') for name in sys.modules)\n"
    code += "import validate.record, validate.worker, validate.microbench.measure, validate.collection.worker"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
