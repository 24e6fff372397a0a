"""A user's own profile beside a simulation of the same launch: the CSV of Nsight Compute in its several forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusim.results.metrics import METRICS
from validate import __main__ as command
from validate import baseline, export, ncu
from validate.baseline import Spread
from validate.metrics import CYCLES

PROFILE = Path(__file__).parent / "data" / "vector_add_ncu.csv"
"""Three launches of vector_add@10000 on an H200: the values of the baseline, as ncu's raw page prints them."""

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC"'
)
LAUNCH = '"{id}","1","app","host","{name}","1","7","({block}, 1, 1)","({grid}, 1, 1)","0","9.0"'
SHARED = "launch__shared_mem_per_block_driver"


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
    assert ncu.scale_of(unit) == pytest.approx(scale)


def test_launches_are_put_together():
    found = export.read(PROFILE)
    measured = baseline.load("vector_add").at(10000)
    assert (found.launches, found.grid, found.block) == (3, (40, 1, 1), (256, 1, 1))
    assert found.counters[CYCLES] == Spread(median=4627, min=4453, max=4745, count=3)
    for name, spread in found.counters.items():
        assert spread.median == measured[name], name
    assert set(found.counters) <= set(METRICS) and found.unknown and not set(found.unknown) & set(METRICS)
    assert len(found.counters) + len(found.unknown) == 108  # every column of a metric


def test_units_with_prefixes_and_the_page_of_metrics_give_the_same(tmp_path):
    metrics = [(CYCLES, "Kcycle"), ("gpu__time_duration.sum", "us"), (SHARED, "Kbyte/block"), ("odd.sum", "inst")]
    cells = (("4.25", "2.30", "1.02", "7"), ("4.75", "2.50", "1.02", "inf"))
    path = raw(tmp_path, metrics, *(("k", 4, 32, each) for each in cells))
    one = export.read(path)
    assert one.counters[CYCLES].median == 4500 and one.counters["gpu__time_duration.sum"].median == 2400
    assert one.unknown == ("odd.sum",)
    predicted = {CYCLES: 4500, "gpu__time_duration.sum": 2400, SHARED: 1024}
    lines = {line.name: line for line in export.lines(one, predicted)}
    # 1.02 Kbyte are what 1,024 bytes are printed as.
    assert lines[SHARED].exact and not lines[SHARED].differs
    other = export.lines(one, predicted | {SHARED: 1040})
    assert [line.name for line in other if line.differs] == [SHARED]
    table = [f'{HEADER},"Section Name","Metric Name","Metric Unit","Metric Value"']
    for number, cells in enumerate((("4,250", "2,300"), ("4,750", "2,500"))):
        for (name, _), unit, cell in zip(metrics, ("cycle", "ns"), cells, strict=False):
            launch = LAUNCH.format(id=number, name="k", grid=4, block=32)
            table.append(f'{launch},"Command line profiler metrics","{name}","{unit}","{cell}"')
    path.write_text("\n".join(table))
    two = export.read(path)
    assert two.launches == 2 and two.counters[CYCLES] == one.counters[CYCLES]


def test_the_launch_that_is_meant_has_to_be_clear(tmp_path):
    rows = [("scale", 4, 32, ("1",)), ("scale", 8, 32, ("2",)), ("copy", 4, 32, ("3",))]
    path = raw(tmp_path, [(CYCLES, "cycle")], *rows)
    with pytest.raises(export.ExportError, match=r"several kernels or sizes.*scale, grid 8x1x1, block 32x1x1"):
        export.read(path)
    assert export.read(path, "scale", (8,)).counters[CYCLES].median == 2
    assert export.read(path, "copy").counters[CYCLES].median == 3
    with pytest.raises(export.ExportError, match="no such launch"):
        export.read(path, "scale", (5,))
    path.write_text("==ERROR== nothing")
    with pytest.raises(export.ExportError, match="--page raw"):
        export.read(path)
    with pytest.raises(export.ExportError, match="cannot be read"):
        export.read(tmp_path / "absent.csv")


def test_a_bundled_program_beside_its_profile(capsys):
    line = ["compare", "--ncu", str(PROFILE), "--program", "vector_add@10000"]
    assert command.main(line) == 0
    text = capsys.readouterr().out
    assert "3 launches profiled" in text and "23 of 23 exact counters equal" in text
    assert f"{len(export.read(PROFILE).unknown)} metrics of the export are unknown" in text
    assert command.main([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    cycles = document["metrics"][CYCLES]
    assert cycles["measured"]["median"] == 4627 and cycles["error"] == pytest.approx(cycles["predicted"] / 4627 - 1)
    # Half of the threads: other counts, and no such launch in the profile.
    assert command.main(["compare", "--ncu", str(PROFILE), "--program", "vector_add@5000"]) == 2
    assert "no such launch" in capsys.readouterr().err
    assert command.main(["compare", "--ncu", str(PROFILE), "--program", "vector_add@many"]) == 2
    assert command.main(["compare", "--ncu", str(PROFILE)]) == 2


def test_a_kernel_of_ones_own(tmp_path, capsys, toolchain):
    source = tmp_path / "mine.cu"
    source.write_text(
        'extern "C" __global__ void scale(float *x, float a) { x[blockIdx.x * blockDim.x + threadIdx.x] *= a; }\n'
    )
    names = ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "smsp__inst_executed.sum")
    path = raw(tmp_path, [(name, "") for name in names], ("scale(float *, float)", 8, 128, ("128", "1")))
    arguments = "float32[1024]=ones, float32(2)"
    line = ["compare", "--ncu", str(path), "--cubin", str(source), "--args", arguments, "--gpu", "tiny"]
    assert command.main(line) == 1  # an instruction a launch: no kernel does that
    text = capsys.readouterr().out
    assert "DIFFERS" in text and "1 of 2 exact counters equal" in text
