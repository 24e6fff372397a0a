"""Triton's and CUTLASS's launches: holes of parameters, inputs and references, jobs, what is kept of them, commands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from isa.compile import compile_cuda
from isa.listing import program_from_cubin
from tests.validate.test_gpu import on_the_simulated_driver
from validate import __main__ as command_line
from validate.cutlass import cases as cutlass_cases
from validate.foreign import compare, recording
from validate.foreign.command import family, split
from validate.foreign.launch import (
    BuiltLaunch,
    MapHole,
    NotBuilt,
    Work,
    bfloat16,
    decoded,
    read_manifest,
    write_manifest,
)
from validate.triton import build as triton_build
from validate.triton import cases as triton_cases

LISTS = pytest.mark.parametrize("cases", [triton_cases, cutlass_cases], ids=["triton", "cutlass"])
SOURCE = """
#include <cooperative_groups.h>
extern "C" __global__ void ranks(int* out, int scale) {
    auto cluster = cooperative_groups::this_cluster();
    out[blockIdx.x] = scale * cluster.num_blocks() + cluster.block_rank();
}
"""


def launch_of(**more):
    fixed = {"symbol": "ranks", "code_sha256": "", "grid": (4, 1, 1), "block": (1, 1, 1), "cluster": (2, 1, 1),
             "shared_bytes": 0, "parameters": ((0, 8), (8, 4)), "area": bytes(8).hex() + "0a000000",
             "pointers": ((0, 0, 0),)}  # fmt: skip
    return BuiltLaunch(**fixed | more)


WORK = Work({"out": np.zeros(4, np.int32)}, {"out": np.array([20, 21, 20, 21])}, 0.0)


def test_holes_are_filled():
    hole = MapHole(64, 1, 6, (64, 32), (128,), (64, 8), (1, 1), 3, delta=16)
    launch = launch_of(area=bytes(192).hex(), pointers=((0, 0, 4), (8, 1, 0)), maps=(hole,))
    area = launch.fill([0x1000, 0x2000], lambda each, address: bytes([each.array, address & 0xFF]) * 64)
    assert area == (0x1004).to_bytes(8, "little") + (0x2000).to_bytes(8, "little") + bytes(48) + b"\x01\x10" * 64


def test_types_that_numpy_lacks():
    codes = np.array([0x00, 0x01, 0x07, 0x08, 0x38, 0x7E, 0xB8], np.uint8)
    assert decoded(codes, "fp8e4nv").tolist() == [0, 2.0**-9, 7 * 2.0**-9, 2.0**-6, 1, 448, -1]
    halfway = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -3.5], np.float32)
    assert decoded(bfloat16(halfway), "bf16").tolist() == [1, 1 + 2.0**-6, 1 + 2.0**-7, -3.5]


def test_random_numbers_are_those_of_philox():
    """The known answer that Random123 ships for counter and key 0."""
    assert triton_cases._philox(np.zeros(1, np.uint64), 0)[0] == np.float32(0x6627E8D5) * np.float32(4.6566127342e-10)


def test_wrong_outputs_are_told():
    assert WORK.mismatch({"out": np.array([20, 21, 20, 21])}) == (None, 0.0)
    assert "off by 0.95" in WORK.mismatch({"out": np.array([20, 21, 0, 21])})[0]
    work = Work({"x": np.ones(2, np.float32)}, {"x": np.ones(2)})
    assert work.mismatch({"x": np.array([1, np.nan], np.float32)})[0]


@LISTS
def test_lists_are_split_by_family_and_recorded_with_these_inputs(cases):
    families = {family(name) for name in cases.CASES}
    judging = sum(split(cases, name) == "judge" for name in cases.CASES)
    assert families > cases.JUDGE and 0.3 < judging / len(cases.CASES) < 0.7
    file = Path(cases.__file__).with_name("h200.json")
    points = json.loads(file.read_text())["points"] if file.exists() else {}
    assert {*points} <= {*cases.CASES}
    for name in sorted(points, key=lambda name: np.prod(points[name]["launch"]["grid"]))[:6]:
        assert points[name]["inputs_sha256"] == cases.work_of(name).digest(), name


def test_a_launch_with_a_cluster_is_simulated():
    program = program_from_cubin(compile_cuda(SOURCE, "sm_90"), "ranks", abi="c")
    result, outputs = compare.simulate(program, launch_of(), WORK)
    assert WORK.mismatch(outputs) == (None, 0.0) and result.cycles > 0


def test_the_worker_launches_through_the_driver(tmp_path):
    (tmp_path / "k.cubin").write_bytes(compile_cuda(SOURCE, "sm_90"))
    on_the_simulated_driver(f"""
        from tests.validate import test_foreign as here
        from validate.foreign.worker import run
        found = run(it, open({str(tmp_path / "k.cubin")!r}, "rb").read(), here.launch_of(), here.WORK)
        assert found["out"].tolist() == [20, 21, 20, 21], found
    """)


def test_a_manifest_reads_back_and_a_folder_gives_its_kernels(tmp_path):
    hole = MapHole(64, 1, 6, (64, 32, 1), (128, 4096), (64, 8, 1), (1, 1, 1), 3, delta=32)
    cubin = compile_cuda(SOURCE, "sm_90")
    launch = launch_of(maps=(hole,), code_sha256="0f")
    recording.write_job(tmp_path, "triton", ["p"], lambda name: (cubin, None, launch))
    assert read_manifest(tmp_path) == ("triton", {"p": launch})
    assert recording.load(tmp_path, "p")[1].symbol == "ranks"
    with pytest.raises(NotBuilt, match="has no q"):
        recording.load(tmp_path, "q")


def recorded(job, mismatch=None, counted=2):
    """A recording of one point, as the worker writes it."""
    write_manifest(job, "triton", {"p": launch_of()})
    row = {"point": "p", "inputs_sha256": "i", "mismatch": mismatch, "error": 0.0}
    lines = ['"ID","Kernel Name","Block Size","Grid Size","gpc__cycles_elapsed.max"', '"","","","","cycle"']
    lines += [f'"{i}","ranks","(1, 1, 1)","(4, 1, 1)","{5000 + i}"' for i in range(counted)]
    found = {"plain": [row], "counted": [row] * 2, "csv": "\n".join(lines),
             "metrics": ["gpc__cycles_elapsed.max"], "provenance": {"gpu": "G", "ncu": "1"}}  # fmt: skip
    with gzip.open(job / "r.json.gz", "wt") as stream:
        json.dump(found, stream)
    return recording.keep(job, job / "r.json.gz", lambda name: {"kernel": name}, {"tool": "1"})


def test_what_is_kept_of_a_recording(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "DIFFERENCES", {})
    document = recorded(tmp_path)
    assert document["provenance"] == {"gpu": "G", "ncu": "1", "tools": {"tool": "1"}}
    assert document["points"]["p"]["counters"] == {"gpc__cycles_elapsed.max": [5000, 5001]}
    assert "area" not in json.dumps(document)
    with pytest.raises(recording.RecordingRefused, match="p: bad"):
        recorded(tmp_path, mismatch="bad")
    with pytest.raises(recording.RecordingRefused, match="2 launches made, 1 counted"):
        recorded(tmp_path, counted=1)


def test_commands_say_what_is_missing(monkeypatch, capsys):
    assert command_line.main(["triton", "--list", "--split", "judge", "--only", "attention"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        [name, "judge"] for name in triton_cases.CASES if name.startswith("attention/")
    ]
    assert command_line.main(["triton", "--only", "nothing"]) == 2
    assert command_line.main(["cutlass"]) == 2
    assert "--folder has to name" in capsys.readouterr().err
    assert command_line.main(["cutlass", "--folder", "nowhere"]) == 2
    assert "nowhere has no manifest.json" in capsys.readouterr().err
    monkeypatch.setattr(triton_build, "find_spec", lambda name: None)
    assert command_line.main(["triton"]) == 2
    assert "the Triton wheel is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vector_add@10000", "host_map@256"])
def test_triton_kernels_equal_numpy_and_the_recording(name):
    pytest.importorskip("triton", reason="the Triton wheel (over 280 MB) is not installed")
    _, program, launch = triton_build.build(name)
    work = triton_cases.work_of(name)
    result, outputs = compare.simulate(program, launch, work)
    assert work.mismatch(outputs)[0] is None
    point = json.loads(Path(triton_cases.__file__).with_name("h200.json").read_text())["points"][name]
    assert point["code_sha256"] == launch.code_sha256
    assert result.metrics["smsp__thread_inst_executed.sum"] > 0
