"""Rows as a table: types of columns, their order, and files that are read back."""

import pytest

from gpusim.explore.sweep import TableError, frame, write

pandas = pytest.importorskip("pandas")
ROWS = [
    {"key": "a", "size": 64, "sm.count": 1, "x.flag": True, "x.dims": [1, 2, 3], "grid": 8, "cycles": 100,
     "cycles_low": 95, "cycles_high": 120, "m": 1.0, "time_us": 0.5, "seconds": 1.0, "error": None},
    {"key": "b", "seed": 0, "sm.count": 2, "x.flag": False, "x.dims": [4, 5, 6], "grid": "16,16", "cycles": None,
     "cycles_low": None, "cycles_high": None, "m": 2, "time_us": None, "seconds": 1.0, "error": "no"},
]  # fmt: skip


def test_columns_have_the_types_of_their_values():
    table = frame(ROWS, ["m"])
    assert {name: str(kind) for name, kind in table.dtypes.items()} == {
        "key": "string", "size": "Int64", "grid": "string", "seed": "Int64", "sm.count": "int64", "x.flag": "bool",
        "x.dims": "string", "cycles": "Int64", "cycles_low": "Int64", "cycles_high": "Int64", "time_us": "float64",
        "limited_by": "string", "why": "string", "energy_j": "float64", "launch_w": "float64",
        "energy_delay": "float64", "warp_instructions": "float64", "blocks": "float64", "waves": "float64",
        "bound_cycles": "float64", "bound_by": "string", "m": "float64",
        "seconds": "float64", "error": "string",
    }  # fmt: skip
    assert table["x.dims"].tolist() == ["1,2,3", "4,5,6"] and table["grid"].tolist() == ["8", "16,16"]
    assert table["cycles"].isna().tolist() == [False, True] and table["error"].isna().tolist() == [True, False]
    assert list(table.columns).index("seed") < list(table.columns).index("sm.count")  # parameters before keys


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_is_the_table(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    table = frame(ROWS, ["m"])
    path = tmp_path / f"table{suffix}"
    write(table, path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    if suffix == ".parquet":
        pandas.testing.assert_frame_equal(pandas.read_parquet(path), table)
    else:
        again = pandas.read_csv(path)
        assert list(again.columns) == list(table.columns) and again["x.dims"].tolist() == ["1,2,3", "4,5,6"]


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fail(self, file, **_):
        file.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pandas.DataFrame, "to_csv", fail)
    with pytest.raises(TableError, match="No space left"):
        write(frame(ROWS), path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
