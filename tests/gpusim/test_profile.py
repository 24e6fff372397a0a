"""A user's own profile beside a simulation of the same launch: the CSV of Nsight Compute in its several forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.difference.recorded import read, recording_of
from gpusim.results.profile import ProfileError, parse_profile, read_profile, scale_of

PROFILE = Path(__file__).parent / "data" / "vector_add_ncu.csv"
"""Three launches of vector_add@10000 on an H200: the values of the baseline, as ncu's raw page prints them."""

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
LAUNCH = '"{id}","1","app","host","{name}","1","7","({block}, 1, 1)","({grid}, 1, 1)","0","9.0"'
CYCLES, TIME = "gpc__cycles_elapsed.max", "gpu__time_duration.sum"


def raw(tmp_path, metrics, *rows):
    """A raw page. metrics: (name, unit) each; rows: (kernel, grid, block, cells) each."""
    lines = [",".join([HEADER, *(f'"{name}"' for name, _ in metrics)])]
    lines.append(",".join(['""'] * 11 + [f'"{unit}"' for _, unit in metrics]))
    for number, (name, grid, block, cells) in enumerate(rows):
        launch = LAUNCH.format(id=number, name=name, grid=grid, block=block)
        lines.append(",".join([launch, *(f'"{cell}"' for cell in cells)]))
    path = tmp_path / "profile.csv"
    path.write_text("==PROF== Connected to process 1\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        *(("", 1), ("byte", 1), ("Kbyte", 1e3), ("Gbyte/s", 1e9), ("Tbyte/second", 1e12), ("Kbyte/block", 1e3)),
        *(("ns", 1), ("nsecond", 1), ("us", 1e3), ("usecond", 1e3), ("ms", 1e6), ("s", 1e9), ("second", 1e9)),
        *(("hz", 1), ("Mhz", 1e6), ("Ghz", 1e9), ("cycle/nsecond", 1e9), ("cycle/second", 1), ("cycle/usecond", 1e6)),
        *(("%", 1), ("register/thread", 1), ("inst", 1), ("inst/cycle", 1), ("sector", 1), ("Ksector", 1e3)),
    ],
)
def test_units_are_scaled_to_base_units(unit, scale):
    assert scale_of(unit) == pytest.approx(scale)


# The form of ncu 2025.3 with --csv --page raw --print-units base.
RAW = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "probe_lds32" - 0: 0%....50%....100% - 5 passes
==PROF== Profiling "k" - 1: 0%....50%....100% - 5 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",\
"Device","CC","gpu__time_duration.sum","memory_l1_wavefronts_shared","smsp__inst_executed.sum","launches.sum"
"","","","","","","","","","","","","ns","","inst","block"
"0","4711","python3.12","127.0.0.1","probe_lds32","1","7","(32, 1, 1)","(1, 2, 1)",\
"0","9.0","1,568","2 (0; 2)","12","n/a"
"1","4711","python3.12","127.0.0.1","k(float *, int)","1","7","(32, 1, 1)","(1, 1, 1)",\
"0","9.0","1568.5","0","1,234,567","1"
"""


def test_raw_page_gives_one_record_per_launch():
    first, second = parse_profile(RAW)
    assert (first.kernel, first.block, first.grid) == ("probe_lds32", (32, 1, 1), (1, 2, 1))
    assert first.metrics == {TIME: 1568.0, "memory_l1_wavefronts_shared": 2.0, "smsp__inst_executed.sum": 12.0}
    assert second.kernel == "k(float *, int)"
    assert second.metrics["smsp__inst_executed.sum"] == 1234567.0
    assert second.metrics["launches.sum"] == 1.0


def test_text_without_a_table_gives_no_launch():
    assert parse_profile("==ERROR== The application returned an error code (1).\n") == []


def test_launches_are_put_together():
    found = read_profile(PROFILE)
    assert (found.launches, found.grid, found.block) == (3, (40, 1, 1), (256, 1, 1))
    assert sorted(found.counters[CYCLES]) == [4453, 4627, 4745]
    recorded = read(recording_of("vector_add"))["sizes"][0]["counters"]
    assert recorded.keys() & found.counters.keys() >= {CYCLES, TIME, "dram__bytes_read.sum"}
    for name in recorded.keys() & found.counters.keys():
        values = recorded[name] if isinstance(recorded[name], list) else [recorded[name]] * 3
        assert sorted(values) == sorted(found.counters[name]), name


def test_units_with_prefixes_and_the_page_of_metrics_give_the_same(tmp_path):
    metrics = [(CYCLES, "Kcycle"), (TIME, "us"), ("odd.sum", "inst")]
    path = raw(tmp_path, metrics, ("k", 4, 32, ("4.25", "2.30", "7")), ("k", 4, 32, ("4.75", "2.50", "inf")))
    one = read_profile(path)
    assert one.counters == {CYCLES: [4250, 4750], TIME: [pytest.approx(2300), 2500]}
    table = [f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value"']
    for number, cells in enumerate((("4,250", "2,300"), ("4,750", "2,500"))):
        for (name, _), unit, cell in zip(metrics, ("cycle", "ns"), cells, strict=False):
            launch = LAUNCH.format(id=number, name="k", grid=4, block=32)
            table.append(f'{launch},"Command line profiler metrics","{name}","{unit}","{cell}"')
    path.write_text("\n".join(table))
    assert read_profile(path) == one


def test_the_launch_that_is_meant_has_to_be_clear(tmp_path):
    rows = [("scale", 4, 32, ("1",)), ("scale", 8, 32, ("2",)), ("copy", 4, 32, ("3",))]
    path = raw(tmp_path, [(CYCLES, "cycle")], *rows)
    with pytest.raises(ProfileError, match=r"several kernels or sizes.*scale, grid 8x1x1, block 32x1x1"):
        read_profile(path)
    assert read_profile(path, "scale", (8,)).counters[CYCLES] == [2]
    assert read_profile(path, "copy").counters[CYCLES] == [3]
    with pytest.raises(ProfileError, match="no such launch"):
        read_profile(path, "scale", (5,))
    path.write_text("==ERROR== nothing")
    with pytest.raises(ProfileError, match="--page raw"):
        read_profile(path)
    with pytest.raises(ProfileError, match="cannot be read"):
        read_profile(tmp_path / "absent.csv")


def test_a_bundled_program_beside_its_profile(capsys, monkeypatch):
    line = ["diff", "vector_add", str(PROFILE), "--size", "10000"]
    assert main([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["b"]["measured"], document["b"]["title"]) == (True, PROFILE.name)
    assert document["cycles"]["b"] == 4627 and document["b"]["spread"] == [4453, 4745]
    assert document["launch"] == []  # nothing differs
    rows = {each["name"]: each for each in document["metrics"]}
    assert rows["smsp__inst_executed.sum"]["a"] == rows["smsp__inst_executed.sum"]["b"] == 13216
    # Half of the threads, of which there is no launch in the profile.
    assert main(["diff", "vector_add", str(PROFILE), "--size", "5000"]) == 2
    assert "no such launch" in capsys.readouterr().err
    assert main(["diff", str(PROFILE), "hardware"]) == 2
    assert main([*line, "--kernel", "scale"]) == 2


def test_a_kernel_of_ones_own(tmp_path, capsys, toolchain):
    """Grid and block are the profile's, on whichever side it stands."""
    source = tmp_path / "mine.cu"
    source.write_text(
        'extern "C" __global__ void scale(float *x, float a) { x[blockIdx.x * blockDim.x + threadIdx.x] *= a; }\n'
    )
    names = (CYCLES, TIME, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "smsp__inst_executed.sum")
    cells = ("4000", "2000", "128", "1")
    rows = [(name, 8, 128, cells) for name in ("scale(float *, float)", "other(int)")]
    path = raw(tmp_path, [(name, "") for name in names], *rows)
    options = ["--args", "float32[1024]=ones, float32(2)", "--gpu", "tiny", "--kernel", "scale", "--json"]
    assert main(["diff", str(path), str(source), *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["b"]["launch"]["grid"] == [8, 1, 1] and document["b"]["launch"]["block"] == [128, 1, 1]
    found = {each["name"]: (each["a"], each["b"]) for each in document["metrics"]}
    assert found[names[2]] == (128, 128) and found[names[3]][0] == 1 != found[names[3]][1]
    assert main(["diff", str(path), str(source), *options, "--kernel", "other"]) == 0
    capsys.readouterr()
    assert main(["diff", str(source), str(path), *options, "--kernel", "third"]) == 2
    path.write_text(path.read_text().replace(TIME, "other.sum"))
    assert main(["diff", str(source), str(path), *options]) == 2
    assert f"profile.csv has no {TIME}" in capsys.readouterr().err
