"""Points and axes of a sweep, and one point's row."""

import json

import numpy as np
import pytest

from gpusim.errors import ConfigError
from gpusim.explore import Axis, Point, Space, evaluate, read_sweep
from tests.gpusim import bundled


def test_a_point_is_the_same_however_it_is_written():
    one = Point("saxpy", "tiny", {"sm.count": np.int64(2), "l2.slices": 4}, {"size": 600})
    other = Point("saxpy", "tiny", (("l2.slices", 4), ("sm.count", 2)), (("size", 600),))
    assert one == other and hash(one) == hash(other) and one.key == other.key
    assert Point(**json.loads(json.dumps(one.to_dict()))) == one
    assert one.key == "533a71fa381bc2363ec84ff378d40700"  # in every process
    points = [
        *(Point("saxpy"), Point("saxpy", "tiny"), Point("saxpy", config={"sm.count": 2})),
        *(Point("saxpy", config={"sm.count": 2.0}), Point("saxpy", parameters={"size": 2}), Point("vector_add")),
    ]
    assert len({point.key for point in points}) == len(points)


@pytest.mark.parametrize("value", [None, {"a": 1}, float("nan"), object()])
def test_a_point_takes_plain_values_only(value):
    with pytest.raises(ConfigError):
        Point("saxpy", config={"sm.count": value})


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        (66, (66,)),
        ([66, 132], (66, 132)),
        ({"low": 2, "high": 9, "step": 3}, (2, 5, 8)),
        ({"low": 32, "high": 256, "step": 2, "log": True}, (32, 64, 128, 256)),
        ({"low": 0.1, "high": 0.3, "step": 0.1}, (0.1, 0.2, 0.3)),
    ],
)
def test_levels_of_an_axis(given, levels):
    assert Axis.of("sm.count", given).values == levels


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "no values"),
        ([1, 2, 1], "twice"),
        ({"low": 1, "high": 2}, "low, high and step are needed"),
        ({"low": 2, "high": 1, "step": 1}, "low must be below high"),
        ({"low": 0, "high": 1, "step": 2, "log": True}, "must be positive"),
        ({"low": 1, "high": 2, "step": 1, "log": True}, "a ratio"),
        ({"low": 1, "high": 2, "points": 2}, "'points' is none of them"),
        ({"low": 1, "high": 2, "stepp": 1}, "'stepp' is none of them"),
        ({"low": "a", "high": 2, "step": 1}, "must be a number"),
        ({"low": 0, "high": 1, "step": 1e-9}, "at most 100,000"),
    ],
)
def test_a_range_that_means_nothing_is_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        Axis.of("sm.count", given)


def test_grid_has_every_combination_in_order():
    programs, axes = ["saxpy", {"name": "gemv", "size": [10, 20]}], {"sm.count": [1, 2], "size": 64}
    points = Space(programs, ["tiny", "h200"], axes).grid()
    seen = [(p.program, dict(p.parameters)["size"], p.gpu, dict(p.config)["sm.count"]) for p in points]
    sizes = (("saxpy", 64), ("gemv", 10), ("gemv", 20))
    assert seen == [(*each, gpu, count) for each in sizes for gpu in ("tiny", "h200") for count in (1, 2)]


@pytest.mark.parametrize(
    ("axes", "suggestion"), [({"sm.cout": 1}, "sm.count"), ({"sise": 1}, "size"), ({"count": 1}, "sm.count")]
)
def test_an_unknown_axis_names_the_nearest(axes, suggestion):
    with pytest.raises(ConfigError) as caught:
        Space("saxpy", "tiny", axes)
    assert caught.value.suggestion == suggestion


FILE = """
program = ["gemv", { name = "saxpy", size = [600, 1200] }, "mine.py:scale"]
gpu = ["tiny", "other.toml"]
metrics = ["dram__bytes_read.sum"]

[axes]
sm.count = [1, 2]
"l2.slices" = [4, 8]
dram = { bandwidth_gb_s = { low = 100, high = 200, step = 50 } }
size = 64
"""


def test_a_file_is_the_same_space(tmp_path):

    path = tmp_path / "sweep.toml"
    path.write_text(FILE)
    sweep = read_sweep(path)
    programs = ["gemv", {"name": "saxpy", "size": [600, 1200]}, f"{tmp_path / 'mine.py'}:scale"]
    axes = {"sm.count": [1, 2], "l2.slices": [4, 8], "dram.bandwidth_gb_s": [100, 150, 200], "size": 64}
    gpus = ["tiny", str(tmp_path / "other.toml")]
    assert sweep.space.grid() == Space(programs, gpus, axes).grid()
    assert sweep.metrics == ("dram__bytes_read.sum",)
    assert sweep.space.at({"gpu": "tiny", "sm.count": 1, "l2.slices": 4, "dram.bandwidth_gb_s": 1, "size": 2})


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("metrics", "metrisc", "did you mean 'metrics'"),
        ("[axes]\n", "[search]\ntrials = 'x'\n[axes]\n", "must be an integer"),
        ("[axes]", "[axes", "not valid TOML"),
        ("low = 100", "lo = 100", "'lo' is none of them"),
        ("program =", "#", "program: is missing"),
        ('["gemv",', "[5,", "a program is a name, or a table with a name, not 5"),
        ('{ name = "saxpy"', '{ nam = "saxpy"', "unknown parameter of a program|a program is a name"),
        ('["dram__bytes_read.sum"]', "[[1]]", "metrics: must be a list of names"),
        ("size = 64", "size = 1979-05-27", "size: a value of a point is a number"),
        ("size = 64", "size = []", "size: has no values"),
        ("size = 64", "sise = 64", "did you mean 'size'"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, old, new, told):
    path = tmp_path / "sweep.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=told) as caught:
        read_sweep(path)
    assert str(path) in str(caught.value)


def test_a_row_is_what_a_run_says(toolchain):
    point = Point("saxpy", "tiny", {"sm.count": 1}, {"size": 600})
    row = evaluate(point, metrics=["dram__bytes_read.sum"], verify=True)
    result = bundled.checked("saxpy", size=600, overrides=["sm.count=1"])
    assert row["error"] is None and row["cycles"] == result.cycles and row["time_us"] == result.time_us
    assert (row["energy_j"], row["launch_w"]) == (result.energy_j, result.power_w)
    assert row["energy_delay"] == pytest.approx(result.energy_j * 1e-6 * result.time_us)
    assert row["warp_instructions"] == result.metrics["smsp__inst_executed.sum"]
    assert row["dram__bytes_read.sum"] == result.metrics["dram__bytes_read.sum"]
    assert (row["size"], row["seed"], row["sm.count"]) == (600, 0, 1)
    assert list(row) == list(json.loads(json.dumps(row)))


@pytest.mark.parametrize(
    ("point", "told"),
    [
        (Point("saxpi", "tiny"), "no program named 'saxpi'; did you mean saxpy"),
        (Point("saxpy", "tinny"), "no configuration 'tinny'"),
        (Point("saxpy", "tiny", {"sm.count": "many"}), "must be a whole number"),
        (Point("saxpy", "tiny", {"sm.max_warps": 33}), "max_warps must be a multiple of sub_partitions"),
        (Point("saxpy", "tiny", parameters={"syze": 1}), "unknown parameter 'syze'"),
        (Point("saxpy", "tiny", parameters={"grid": 1}), "not for bundled programs"),
        (Point("absent.py:scale", "tiny", parameters={"grid": 1, "block": 1}), "no such file"),
        (Point("matmul/tiled", "tiny", {"sm.max_threads_per_block": 64}, {"size": 32}), "256"),
    ],
)
def test_a_wrong_point_is_a_row_with_its_error(point, told):
    row = evaluate(point, metrics=["dram__bytes_read.sum"])
    assert told in row["error"] and "\n" not in row["error"]
    assert row["key"] == point.key and row["cycles"] is None and row["dram__bytes_read.sum"] is None


def test_a_point_that_takes_too_long_is_given_up(toolchain):
    row = evaluate(Point("matmul/tiled", "tiny", parameters={"size": 128}), timeout_s=0.0)
    assert "not finished after 0 s" in row["error"] and row["cycles"] is None


KERNELS = """
from numba import cuda

print("loaded")


@cuda.jit
def longer_each_time(turns, x):
    for turn in range(turns[0]):
        x[turn] = turn
    turns[0] += 100
"""


def test_a_kernel_of_the_users_is_loaded_once_and_gets_fresh_arguments(tmp_path, capsys, toolchain):
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    parameters = {"grid": 1, "block": (1,), "args": "int32[1]=ones, int32[1000]"}
    rows = [evaluate(Point(str(path), "tiny", {"sm.count": count}, parameters)) for count in (1, 2, 1)]
    assert [row["error"] for row in rows] == [None] * 3
    assert rows[0]["cycles"] == rows[2]["cycles"]
    assert capsys.readouterr().out == "loaded\n"
