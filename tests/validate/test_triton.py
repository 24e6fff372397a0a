"""Triton's launches: inputs and references, launches on a device and through the driver, what is kept, the command."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from gpusim.launch import TensorMap
from isa.compile import compile_cuda
from isa.listing import program_from_cubin
from programs.images import LoadableKernel
from tests.validate.test_gpu import on_the_simulated_driver
from validate import __main__ as command_line
from validate.triton import cases, command
from validate.triton.work import SCRATCH, BuiltLaunch, Work, bfloat16, decoded, write_job

POINTS = json.loads(command.FILE.read_text())["points"]
SOURCE = """
extern "C" __global__ void ranks(int* out, int scale) {
    out[blockIdx.x] = scale * __clusterSizeInBlocks() + __clusterRelativeBlockRank();
}
"""


def launch_of(cubin=b"", **more):
    kernel = LoadableKernel("k", "ranks", cubin, ((0, 0, 8), (1, 8, 4)), "", "c")
    fixed = {"grid": (4, 1, 1), "block": (1, 1, 1), "cluster": (2, 1, 1), "shared_bytes": 0, "code_sha256": ""}
    return BuiltLaunch(kernel, **fixed | {"args": ("out", np.int32(10))} | more)


def work():
    return Work({"out": np.zeros(4, np.int32)}, {"out": np.array([20, 21, 20, 21])}, 0.0)


def test_arguments_are_arrays_maps_and_scalars():
    built = launch_of(args=("x", ("y", (8, 64), "128B"), np.int32(3), SCRATCH), scratch_bytes=16)
    arrays = {"x": np.ones(4, np.float32), "y": np.ones((32, 64), np.uint16)}
    mine = Work(arrays, {}, kinds={"y": "bf16"})
    x, y, three, scratch = built.launch(built.arrays(mine), mine).args
    assert x is arrays["x"] and three == 3 and scratch.tolist() == [0] * 16
    assert isinstance(y, TensorMap) and y.fields == ("bfloat16", (64, 32), (128,), (64, 8), "128B")
    assert built.outputs() == {"x": 0, "y": 1, SCRATCH: 3}


def test_types_that_numpy_lacks():
    codes = np.array([0x00, 0x01, 0x07, 0x08, 0x38, 0x7E, 0xB8], np.uint8)
    assert decoded(codes, "fp8e4nv").tolist() == [0, 2.0**-9, 7 * 2.0**-9, 2.0**-6, 1, 448, -1]
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -3.5], np.float32)
    assert decoded(bfloat16(halfway), "bf16").tolist() == [1, 1 + 2.0**-6, 1 + 2.0**-7, -3.5]


def test_random_numbers_are_those_of_philox():
    """The known answer that Random123 ships for counter and key 0."""
    assert cases._philox(np.zeros(1, np.uint64), 0)[0] == np.float32(0x6627E8D5) * np.float32(4.6566127342e-10)


def test_wrong_outputs_are_told():
    assert work().mismatch({"out": np.array([20, 21, 20, 21])}) == (None, 0.0)
    assert "off by 0.95" in work().mismatch({"out": np.array([20, 21, 0, 21])})[0]
    ones = Work({"x": np.ones(2, np.float32)}, {"x": np.ones(2)})
    assert ones.mismatch({"x": np.array([1, np.nan], np.float32)})[0]


def test_the_list_is_split_by_family_and_recorded_with_these_inputs():
    assert {cases.family(name) for name in cases.CASES} > cases.JUDGE
    assert 0.3 < sum(cases.split(name) == "judge" for name in cases.CASES) / len(cases.CASES) < 0.7
    assert {*POINTS} == {*cases.CASES}
    for name in sorted(POINTS, key=lambda name: np.prod(POINTS[name]["launch"]["grid"]))[:6]:
        assert POINTS[name]["inputs_sha256"] == cases.work_of(name).digest(), name


def test_a_launch_with_a_cluster_is_simulated_and_made_through_the_driver(toolchain, tmp_path):
    cubin, mine = compile_cuda(SOURCE, "sm_90"), work()
    result, outputs = command.simulate(program_from_cubin(cubin, "ranks", abi="c"), launch_of(), mine)
    assert result.cycles > 0 and mine.mismatch(outputs) == (None, 0.0)
    write_job(tmp_path / "job", {"p": launch_of(cubin)})
    on_the_simulated_driver(f"""
        from pathlib import Path
        from tests.validate import test_triton as here
        from validate.triton.worker import read_job, run
        found = run(it, read_job(Path({str(tmp_path / "job")!r}))["p"], here.work())
        assert found["out"].tolist() == [20, 21, 20, 21], found
    """)


def kept(job, mismatch=None, counted=2):
    """What is kept of a recording of one point, as the worker writes it."""
    write_job(job / "job", {"vector_add@10000": launch_of()})
    row = {"point": "vector_add@10000", "inputs_sha256": "i", "mismatch": mismatch, "error": 0.0}
    lines = ['"ID","Kernel Name","Block Size","Grid Size","gpc__cycles_elapsed.max"', '"","","","","cycle"']
    lines += [f'"{i}","ranks","(1, 1, 1)","(4, 1, 1)","{5000 + i}"' for i in range(counted)]
    found = {"rows": [row] * 2, "csv": "\n".join(lines), "metrics": ["gpc__cycles_elapsed.max"],
             "provenance": {"gpu": "G", "ncu": "1"}}  # fmt: skip
    with gzip.open(job / "r.json.gz", "wt") as stream:
        json.dump(found, stream)
    return command.kept(job / "job", job / "r.json.gz")


def test_what_is_kept_of_a_recording(tmp_path, capsys):
    document = kept(tmp_path)
    assert document["provenance"] == {"gpu": "G", "ncu": "1", "tools": {"triton": command.WHEEL}}
    assert document["points"]["vector_add@10000"]["counters"] == {"gpc__cycles_elapsed.max": [5000, 5001]}
    assert command_line.main(["triton", "--keep", *map(str, (tmp_path / "job", tmp_path / "r.json.gz"))]) == 1
    assert "31 points are missing" in capsys.readouterr().err
    with pytest.raises(command.ImportRefused, match="vector_add@10000: bad"):
        kept(tmp_path, mismatch="bad")
    with pytest.raises(command.ImportRefused, match="2 launches made, 1 counted"):
        kept(tmp_path, counted=1)


def test_the_command_says_what_is_missing(tmp_path, monkeypatch, capsys):
    assert command_line.main(["triton", "--list", "--split", "judge", "--only", "attention"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        [name, "judge"] for name in cases.CASES if name.startswith("attention/")
    ]
    assert command_line.main(["triton", "--only", "nothing"]) == 2
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command_line.main(["triton"]) == 2
    assert "the Triton wheel is not installed" in capsys.readouterr().err
    (tmp_path / "r").write_bytes(gzip.compress(b'{"rows": [], "csv": ""}'))
    assert command_line.main(["triton", "--keep", str(tmp_path / "job"), str(tmp_path / "r")]) == 2
    assert "no job of built kernels" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vector_add@10000", "host_map@256"])
def test_triton_kernels_equal_numpy_and_the_recording(name):
    pytest.importorskip("triton", reason="the Triton wheel (over 280 MB) is not installed")
    (program, built), mine = command.build(name), cases.work_of(name)
    result, outputs = command.simulate(program, built, mine)
    assert mine.mismatch(outputs)[0] is None
    assert POINTS[name]["code_sha256"] == built.code_sha256
    assert result.metrics["smsp__thread_inst_executed.sum"] > 0
