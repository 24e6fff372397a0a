"""Pictures of results: what they show is read back from matplotlib and compared with the metrics."""

import doctest
import importlib
import pkgutil
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from numba import cuda

import gpusim
from gpusim import plot
from gpusim.cli import main
from gpusim.engine.state import layout as L
from gpusim.errors import LaunchError
from gpusim.plot import colours, everything, lanes, style
from gpusim.plot.accesses import lanes_by_word
from gpusim.plot.style import ranges
from gpusim.tracing.recording import SPACES, TraceOptions, lane_groups
from tests.gpusim import bundled

EVERYTHING = TraceOptions(sms=range(132), blocks=range(1000), limit=1_000_000)


_RUNS = {}


def run(name, size=None, options=EVERYTHING):
    """A bundled program, simulated once."""
    if (name, size) not in _RUNS:
        _RUNS[name, size] = bundled.checked(name, "h200", size, trace=options)
        assert _RUNS[name, size].trace.complete
    return _RUNS[name, size]


def many_blocks():
    """4,096 blocks on 1,056 places; a trace has every block, whatever else is recorded."""
    return run("vector_add", 1 << 20, TraceOptions())


def area(boxes):
    """Sum of the rectangles of a collection."""
    return sum(float(np.ptp(path.vertices[:, 0]) * np.ptp(path.vertices[:, 1])) for path in boxes.get_paths())


# --- of a result ---------------------------------------------------------------------------------------------------


def test_roofline_has_the_points_and_roofs_of_the_result():
    result = run("matmul/tiled")
    ax = plot.roofline(result)
    points = {line.get_label().partition(":")[0]: line.get_xydata()[0] for line in ax.lines[:3]}
    for label, level in (("L1", "L1"), ("L2", "L2"), ("HBM", "DRAM")):
        expected = result.roofline.intensity(level), result.roofline.operations_per_s
        assert tuple(points[label]) == pytest.approx(expected, rel=1e-12)
    assert result.roofline.bytes["DRAM"] == result.metrics["dram__bytes.sum"]
    roofs = {line.get_label(): line.get_ydata() for line in ax.lines}
    for level, peak in result.roofline.peak_bytes_per_s.items():
        line = next(each for each in ax.lines if each.get_label() == f"_{level} roof")
        assert line.get_ydata()[0] / line.get_xdata()[0] == pytest.approx(peak)
    assert roofs["_FP32 roof"][0] == result.roofline.peak_operations_per_s["FP32"]


def test_no_roofline_without_arithmetic():
    with pytest.raises(ValueError, match="no floating-point operations"):
        plot.roofline(run("bank_conflict/8"))


def test_stall_breakdown_is_that_of_the_metrics():
    result = run("reduction/shuffle")
    ax = plot.stall_breakdown(result)
    reasons = [text.get_text().partition(" ")[0] for text in ax.get_yticklabels()]
    for reason, bar in zip(reasons, ax.patches, strict=True):
        name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        assert bar.get_width() == pytest.approx(result.metrics[name])
    total = sum(bar.get_width() for bar in ax.patches)
    assert total == pytest.approx(result.metrics["smsp__average_warp_latency_per_inst_issued.ratio"])


def test_energy_breakdown_has_all_joules_of_the_result():
    result = run("reduction/shuffle")
    ax = plot.energy_breakdown(result)
    unit = {"mJ": 1e-3, "µJ": 1e-6}[ax.get_xlabel().split()[-1]]
    found = {
        name.get_text(): unit * bar.get_width() for name, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    assert found == pytest.approx({name: joules for name, joules in result.energy.parts.items() if joules})
    assert sum(found.values()) == pytest.approx(result.energy_j)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert f"{result.power_w:,.0f} W" in ax.get_title("left") and next(iter(found)) in plot.text_alternative(ax)
    assert len({bar.get_facecolor() for bar in ax.patches}) == 2, "static power has a colour of its own"


def test_stacked_stalls_have_the_length_of_all_reasons():
    results = {name: run(name) for name in ("reduction/shuffle", "transpose/tiled")}
    ax = plot.stall_breakdown(results)
    lengths = [0.0, 0.0]
    for bars, reason in zip(ax.containers, colours.STALL_COLOURS, strict=True):
        for k, (bar, result) in enumerate(zip(bars, results.values(), strict=True)):
            assert bar.get_width() == pytest.approx(result.stall_reasons[reason].cycles_per_instruction)
            assert bar.get_x() == pytest.approx(lengths[k])
            lengths[k] += bar.get_width()


def test_occupancy_calculator_has_the_launch_on_its_curves():
    result = run("matmul/tiled")
    figure = plot.occupancy_calculator(result)
    for ax in figure.axes:
        curve, dot = ax.lines[:2]
        at = np.flatnonzero(np.asarray(curve.get_xdata()) <= dot.get_xdata()[0])[-1]
        assert curve.get_ydata()[at] == dot.get_ydata()[0] == result.occupancy.warps_per_sm
    with pytest.raises(LaunchError):
        plot.occupancy_calculator(gpusim.load_config("h200"), 1024, 255)


def test_predicted_against_measured():
    points = [("a", 100.0, 110.0), ("b", 1000.0, 700.0), ("c", 50.0, 49.0)]
    inside, outside = plot.predicted_against_measured(points).collections
    assert inside.get_offsets().tolist() == [[100, 110], [50, 49]]
    assert outside.get_offsets().tolist() == [[1000, 700]]
    for wrong in ([], [("a", 0, 1)]):
        with pytest.raises(ValueError):
            plot.predicted_against_measured(wrong)


# --- who is served when --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "name"),
    [
        *(("shared", name) for name in ("bank_conflict/8", "matmul_tensor/ldmatrix")),
        *(("global", name) for name in ("access/offset", "access/scatter_add")),
        ("local", "spill/local_array"),
    ],
)  # fmt: skip
def test_rows_of_a_picture_are_what_the_engine_counted(space, name):
    trace = run(name).trace
    rows = np.flatnonzero((trace.issues["space"] == SPACES.index(space)) & (trace.issues["access"] >= 0))[:500]
    draw = plot.bank_wavefronts if space == "shared" else plot.coalescing
    for row in (int(rows[0]), int(rows[-1])):
        cells, issue = np.asarray(draw(trace, row).collections[0].get_array()), trace.issues[row]
        if space == "shared":
            assert len(cells) == issue["wavefronts"]
            assert (cells == 1).any(axis=1).sum() <= issue["ideal"]
            assert (cells == 2).any(axis=1).sum() <= len(cells) - issue["ideal"]
        else:
            assert len(cells) == issue["lines"]
            assert (cells > 0).reshape(len(cells), 4, 8).any(axis=2).sum() == issue["sectors"]


def test_asynchronous_copies_have_their_sectors_and_the_lines_of_their_counters():
    result = run("matmul_tensor/asynchronous")
    trace = result.trace
    copies = [pc for pc, each in enumerate(trace.instructions) if each.opcode == "LDGSTS"]
    assert copies
    for pc in copies:
        rows = np.flatnonzero(trace.issues["pc"] == pc)
        access = trace.issues["access"][rows]
        found = [lanes_by_word(trace.addresses[k], int(trace.sizes[k])) for k in access]
        # The map shows the sectors that are read; of a copy past L1 the profiler counts those that it writes.
        read = sum(len({word // 8 for word in each}) for each in found)
        assert read == 16 * len(rows) < result.record.counters[pc, L.COUNT_SECTORS]
        assert sum(len({word // 32 for word in each}) for each in found) == result.record.counters[pc, L.COUNT_TAGS]


def test_numbers_in_the_bank_map_are_the_lanes():
    """Stride 8: lane n reads word 8 n, in bank 8 n mod 32, four lanes to a wavefront."""
    ax = plot.bank_wavefronts(run("bank_conflict/8").trace)
    cells = {tuple(text.get_position()): text.get_text() for text in ax.texts}
    assert len(cells) == 32
    assert {int(text) for text in cells.values()} == set(range(32))
    banks = Counter(int(bank) for bank, _ in cells)
    assert set(banks.values()) == {8} and len(banks) == 4


def test_what_was_not_recorded_is_said():
    result = run("vector_add")
    with pytest.raises(ValueError, match="no access to shared memory"):
        plot.bank_wavefronts(result.trace)
    arithmetic = int(np.flatnonzero(result.trace.issues["space"] == 0)[0])
    for figure in (plot.bank_wavefronts, plot.coalescing):
        with pytest.raises(ValueError, match="does not access"):
            figure(result.trace, arithmetic)


# --- what happened when --------------------------------------------------------------------------------------------


def test_lanes_add_up_to_thread_instructions():
    result = run("divergence/4", 64)
    active = executed = issued = tree = 0
    for warp in result.trace.warps["warp"].tolist():
        cells = plot.lane_activity(result.trace, warp, 0, 1 << 20).collections[0].get_array()
        active += int((cells > lanes.OFF).sum())
        executed += int((cells > lanes.GUARDED).sum())
        issued += len(cells)
        bars = plot.divergence_tree(result.trace, warp).patches
        tree += sum(bar.get_width() * bar.get_height() for bar in bars)
    assert issued == result.metrics["smsp__inst_executed.sum"]
    assert active == tree == result.metrics["smsp__thread_inst_executed.sum"]
    assert executed == result.metrics["smsp__thread_inst_executed_pred_on.sum"]


def test_source_lines_stand_beside_the_lanes():
    trace = run("reduction/interleaved_divergent", 256).trace
    ax = plot.lane_activity(trace, 0, 0, 40)
    beside = [text.get_text() for text in ax.texts if text.get_text()]
    lines = {trace.instructions[pc].line for pc in trace.of_warp(0)["pc"][:40].tolist()}
    assert {int(text.partition(":")[0]) for text in beside} <= lines
    assert len(beside) > 5
    with pytest.raises(ValueError, match="no issues"):
        plot.lane_activity(trace, 0, 10**6)


def test_divergence_tree_has_a_stroke_where_lanes_meet():
    trace = run("divergence/4", 64).trace
    rows = trace.of_warp(0)
    groups = lane_groups(rows, np.array([each.opcode == "EXIT" for each in trace.instructions]))
    expected = {group.met_row for group in groups if group.met_row >= 0}
    ax = plot.divergence_tree(trace, 0)
    strokes = [each for each in ax.collections if each.get_linewidth()[0] > 2]
    assert {segment[0][0] for each in strokes for segment in each.get_segments()} == expected
    assert len(groups) == 7  # the warp, two halves, four quarters


def deep(x):
    lane = cuda.threadIdx.x
    k = 0
    while k < lane:
        x[lane] += x[lane] * k
        k += 1


def late(x, n):
    i = cuda.grid(1)
    s = x[i]
    for k in range(n):
        s = s * 1.5 + k
    if i == 40 or i == 45:
        for k in range(n):
            s = s / 3 + k
    x[i] = s


@pytest.fixture(scope="module")
def parted_late(toolchain):
    """A launch of whose four warps only the second parts, some hundred issues after its start."""
    args = np.ones(128, np.float32), 50
    return gpusim.simulate(late, 2, 64, args, gpu="tiny", trace=TraceOptions(sms=(0, 1), blocks=(0, 1)))


def test_every_depth_of_a_tree_has_a_colour_of_its_own(toolchain):
    trace = gpusim.simulate(deep, 1, 32, (np.ones(32, np.float32),), gpu="tiny", trace=True).trace
    groups = trace.reconvergence(0)
    depths = []
    for group in groups:
        depths.append(depths[group.parent] + 1 if group.parent >= 0 else 0)
    assert max(depths) == 7, "one more than there are colours of things"
    ax = plot.divergence_tree(trace, 0)
    drawn = Counter(box.get_facecolor() for box in ax.patches)
    assert len(drawn) == len(set(depths))
    legend = {text.get_text() for text in ax.figure.legends[0].get_texts()}
    assert {"the whole warp", "parted once", "parted 7 times"} <= legend and len(legend) <= 9


def test_pictures_of_lanes_begin_where_lanes_first_part(parted_late):
    trace = parted_late.trace
    active = trace.of_warp(1)["active"]
    (parts,) = np.flatnonzero(np.diff(active.astype(np.int64)) < 0) + 1
    assert everything.first_divergence(trace) == (1, parts), "of block 0, in which threads 40 and 45 part"
    first = parts - 8
    assert first > 400
    drawn = everything.OF_TRACE["lanes"](trace)
    assert f"block 0,0,0 warp 1: issues {first:,} to" in drawn.get_title(loc="left")
    cells = drawn.collections[0].get_array()
    assert (cells[:8] > lanes.OFF).all() and not (cells[8:] > lanes.OFF).all(axis=1).any()
    tree = everything.OF_TRACE["divergence"](trace)
    assert tree.get_xlim() == (first, first + everything.MOST_ISSUES)
    assert "1 group part, 0 meetings" in tree.get_title(loc="left")


def test_timeline_adds_up_to_the_stall_reasons():
    result = run("matmul/tiled")
    totals = Counter()
    places = {(int(row["sm"]), int(row["scheduler"])) for row in result.trace.warps}
    for sm, scheduler in sorted(places):
        ax = plot.scheduler_timeline(result.trace, sm, scheduler, cycles=None)
        for boxes in ax.collections:
            reason = boxes.get_label()
            height = 1.0 if reason == "selected" else 0.72
            totals[reason] += round(area(boxes) / height)
    expected = {reason: each.cycles for reason, each in result.stall_reasons.items() if each.cycles}
    assert totals == expected


def test_timeline_shows_a_window():
    trace = run("matmul/tiled").trace
    ax = plot.scheduler_timeline(trace, start=3000, cycles=50)
    assert ax.get_xlim() == (3000, 3050)
    mine = trace.warps[(trace.warps["sm"] == 0) & (trace.warps["scheduler"] == 0)]
    alive = sum(max(min(row["end"], 3050) - max(row["start"], 3000), 0) for row in mine)
    parts = {each.get_label(): area(each) for each in ax.collections}
    assert round(sum(part / (1.0 if reason == "selected" else 0.72) for reason, part in parts.items())) == alive
    with pytest.raises(ValueError, match="no warp"):
        plot.scheduler_timeline(trace, sm=131)


def test_a_trace_that_breaks_off_is_not_drawn_beyond_its_end():
    trace = bundled.checked("matmul/tiled", "h200", 32, trace=TraceOptions(limit=500)).trace
    assert not trace.complete
    ax = plot.scheduler_timeline(trace, cycles=None)
    assert ax.get_xlim()[1] == trace.until
    with pytest.raises(ValueError, match="before cycle"):
        plot.scheduler_timeline(trace, start=trace.until)
    assert "recorded until" in plot.lane_activity(trace).get_title(loc="left")
    assert "recorded until" in plot.text_alternative(plot.divergence_tree(trace))


def test_residency_has_every_block_on_its_sm():
    result = many_blocks()
    upper, lower = plot.sm_residency(result.trace).axes
    boxes = [path.vertices for each in lower.collections for path in each.get_paths()]
    assert len(boxes) == result.metrics["launch__grid_size"]
    on = Counter(round(float(box[:, 1].mean())) for box in boxes)
    assert [on[sm] for sm in range(132)] == result.record.sm_blocks.tolist()
    times = sorted((float(box[:, 0].min()), float(box[:, 0].max())) for box in boxes)
    assert times == sorted(zip(result.trace.blocks["start"].tolist(), result.trace.blocks["end"].tolist(), strict=True))
    count = upper.lines[0].get_ydata()
    assert count[-1] == 0
    assert max(count) == 132 * result.occupancy.blocks_per_sm


# --- the package ---------------------------------------------------------------------------------------------------

MODULES = [f"gpusim.plot.{each.name}" for each in pkgutil.iter_modules(plot.__path__)]


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_the_docstrings(module, toolchain):
    """Each example runs and prints what it says."""
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_same_result_gives_the_same_bytes(tmp_path):
    pictures = [plot.save(plot.stall_breakdown(run("vector_add")), tmp_path / name) for name in ("a.png", "b.png")]
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert pictures[0].read_bytes().startswith(b"\x89PNG")
    vector = plot.save(plot.stall_breakdown(run("vector_add")), tmp_path / "a.svg")
    assert b"Stall breakdown of vector_add" in vector.read_bytes()


def test_command_line_writes_everything_that_there_is(tmp_path, capsys):
    assert main(["figures", "transpose/tiled", str(tmp_path / "svg"), "--size", "64", "--kind", "svg"]) == 0
    printed = capsys.readouterr().out.split()
    assert sorted(printed) == sorted(str(path) for path in (tmp_path / "svg").iterdir())
    assert {path.suffix for path in (tmp_path / "svg").iterdir()} == {".svg"}
    names = {path.stem for path in (tmp_path / "svg").iterdir()}
    assert names == {*everything.OF_RESULT, *everything.OF_TRACE} - {"roofline"}  # no arithmetic
    (tmp_path / "file").write_text("in the way")
    assert main(["figures", "vector_add", str(tmp_path / "file"), "--size", "1000"]) == 2
    assert "gpusim: error:" in capsys.readouterr().err


def test_a_picture_can_go_into_axes_of_the_caller():
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2)
    assert plot.stall_breakdown(run("vector_add"), left) is left
    assert plot.roofline(run("vector_add"), right) is right
    assert "Roofline of vector_add" in plot.text_alternative(figure)
    with pytest.raises(KeyError):
        plot.text_alternative(pyplot.figure())


# What a dichromat sees of linear RGB: Machado, Oliveira, Fernandes, "A physiologically-based model for simulation of
# color vision deficiency" (IEEE TVCG 2009).
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def lab(colour, vision):
    """CIE L*a*b* of what is seen of a colour '#RRGGBB'."""
    srgb = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(VISIONS[vision]) @ linear, 0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize(
    "palette",
    (
        list(colours.STALL_COLOURS.values()),
        [*colours.PIPE_COLOURS.values(), colours.LIGHT, colours.PALE],
        list(colours.LEVEL_COLOURS.values()),
        list(colours.WORK_COLOURS.values()),
        [colours.IDEAL, colours.EXCESSIVE, colours.SHARED_WORD, "#FFFFFF"],
    ),
    ids=("stalls", "units", "levels", "work", "accesses"),
)
def test_colours_are_told_apart(palette, vision):
    """A difference of 2.3 is just noticeable side by side; a legend needs several times that."""
    seen = [lab(colour, vision) for colour in palette]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 12


@pytest.mark.parametrize(("colour", "text"), [("#0072B2", "#FFFFFF"), ("#F0E442", "#000000"), ("#D55E00", "#000000")])
def test_text_is_legible_on_a_colour(colour, text):
    assert style.text_on(colour) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        (range(32), "0-31"),
        (range(0, 32, 2), "0,2,…,30"),
        ([1, 4, 9], "1,4,9"),
        ([0, 1, 2, 8, 10, 12, 14], "0-2,8,10,…,14"),
        ([5], "5"),
        ([], ""),
    ],
)
def test_numbers_in_short(numbers, text):
    assert ranges(numbers) == text
