"""`gpusim config check`, `new`, `schema`, `list` and `show`: what writers of configurations are told."""

import json
import re
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.config import describe_keys, diff, load_config, shipped_names
from gpusim.config.check import check, suspicious
from gpusim.config.create import KINDS, provenance
from gpusim.config.derived import derive, peak_bytes_per_cycle, peak_operations_per_s, registers_at_full_occupancy
from gpusim.launch.occupancy import occupancy


def run(capsys, *argv):
    status = main(["config", *map(str, argv)])
    return status, *capsys.readouterr()


@pytest.fixture
def file(tmp_path):
    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


# ---- check


def test_check_says_everything_that_is_wrong(capsys, file):
    path = file(
        'base = "h200"\n[sm]\ncuont = 3\n[l2]\nbytes = "60 MB"\nlatency_near_ns = 3\n[dram]\nbandwidth_gb_s = -1\n'
        "[pipes.fma]\nlatency_cycles = { value = 4, from = 1 }\n"
    )
    status, out, _ = run(capsys, "check", path)
    assert status == 1
    lines = out.splitlines()
    assert len(lines) == 5 and all(line.startswith("error: ") for line in lines)
    for words in (
        "sm.cuont: unknown key; did you mean 'sm.count'?",
        "l2.latency_near_ns: wrong unit, the key counts SM clock cycles; did you mean 'l2.latency_near_cycles'?",
        "l2.bytes: must be a whole number of bytes, got '60 MB'",
        "dram.bandwidth_gb_s: must be greater than 0, got -1",
        "pipes.fma.latency_cycles: only value and source may stand here, not from",
    ):
        assert words in out
    status, out, _ = run(capsys, "check", path, "--json")
    document = json.loads(out)
    assert status == 1 and not document["ok"] and len(document["errors"]) == 5
    assert {"sm.cuont", "l2.bytes"} <= {each["key"] for each in document["errors"]}


def test_check_prints_what_follows(capsys, file):
    status, out, _ = run(capsys, "check", file('base = "h200"\nsm.count = 264\n'))
    assert status == 0 and not out.startswith(("error", "warning"))
    assert any(line.split()[:3] == ["fp32_flop_s", "133.8", "TFLOP/s"] for line in out.splitlines())
    status, out, _ = run(capsys, "check", "h200", "--set", "sm.count=264", "--json")
    assert json.loads(out)["derived"]["fp32_flop_s"]["value"] == pytest.approx(133.8e12, rel=1e-3)


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (["dram.bandwidth_gb_s=9000"], "dram.bandwidth_gb_s", "46.9 GB/s for each of 192 channels"),
        (["dram.kind=HBM2"], "dram.bandwidth_gb_s", "HBM2 carries 19.2 at most"),
        (["dram.kind=DDR9"], "dram.kind", "not one of HBM2"),
        (["dram.kind=hbm2"], "dram.bandwidth_gb_s", "hbm2 carries 19.2 at most"),
        (["gpu.dies=4"], "gpu.dies", "4 dies for 2 partitions of L2"),
        (["dram.bandwidth_gb_s=10500", "dram.channels=384"], "dram.bandwidth_gb_s", "pass an L2 that delivers"),
        (["l1.max_outstanding_sectors=16"], "l1.max_outstanding_sectors", "Little"),
        (["shared.banks=16"], "l1.data_bytes_per_cycle", "banks that hold 64"),
        (["gpu.clock_mhz=5000"], "gpu.clock_mhz", "GPUs run at 300 to 3,500"),
        (["sm.max_warps=32"], "sm.max_threads", "the smaller number counts"),
        (["sm.registers=16384"], "sm.registers", "8 registers per thread"),
        (["l2.bytes=1258291200"], "l2.bytes", "1200 MiB"),
        (["shared.latency_cycles=40"], "l1.latency_cycles", "less than shared memory's 40"),
        (["dram.latency_cycles=3000"], "dram.latency_cycles", "1515 ns"),
        (["dram.row_activate_cycles=5"], "dram.row_activate_cycles", "2.5 ns"),
        (["dram.row_cycle_cycles=60", "dram.row_activate_cycles=40"], "dram.row_cycle_cycles", "less than the 68"),
    ],
)
def test_suspicious_values(overrides, key, words):
    """Each rule alone: the shipped H200 gives no warning, the changed one names the key and the measure."""
    found = [each for each in suspicious(load_config("h200", overrides)) if words in each.reason]
    assert [each.key for each in found][:1] == [key]


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_configurations_are_not_suspicious(name):
    assert check(name).warnings == ()


def test_warnings_alone_are_no_failure(capsys):
    status, out, _ = run(capsys, "check", "h200", "--set", "dram.bandwidth_gb_s=9000")
    assert status == 0 and "warning: dram.bandwidth_gb_s: 46.9 GB/s" in out and "peak rates" in out


def test_another_clock_with_the_same_cycles_is_pointed_out(file):
    path = file('base = "h200"\ngpu.clock_mhz = 1400\n')
    (found,) = check(path).warnings
    assert found.key == "gpu.clock_mhz" and "memory has become slower" in found.reason
    both = file(f'base = "{path.name}"\ngpu.clock_mhz = 1980\ndram.latency_cycles = 600\n', "next.toml")
    assert not any(each.key == "gpu.clock_mhz" for each in check(both).warnings)


def test_what_another_kind_of_memory_leaves_behind_is_pointed_out():
    (found,) = check("h200", ["dram.kind=HBM4"]).warnings
    assert found.key == "dram.kind"
    assert "keep the 4,800 GB/s of dram.bandwidth_gb_s, the 192 of dram.channels" in found.reason
    assert check("h200", ["dram.kind=HBM4", "dram.bandwidth_gb_s=5000"]).warnings == ()
    assert [each.key for each in check("h200", ["gpu.clock_mhz=1400"]).warnings] == ["gpu.clock_mhz"]


# ---- new


def test_new_file_is_accepted_and_says_what_was_asked(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ("--set", "sm.count=264", "--set", "pipes.fma.latency_cycles=5", "--set", "issue.policy=lrr")
    status, out, _ = run(capsys, "new", "My Big One", "--base", "h100", *sets)
    assert status == 0 and "my-big-one.toml written" in out
    config = load_config(tmp_path / "my-big-one.toml")
    assert {key: pair[1] for key, pair in diff(load_config("h100"), config).items()} == {
        "gpu.name": "My Big One",
        "sm.count": 264,
        "issue.policy": "lrr",
        "pipes.fma.latency_cycles": 5,
    }
    text = (tmp_path / "my-big-one.toml").read_text()
    assert "SMs that are enabled; 132 in the base" in text
    assert run(capsys, "check", "my-big-one.toml")[0] == 0


def test_new_does_not_overwrite(capsys, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    status, _, err = run(capsys, "new", "x", "-o", path)
    assert status != 0 and "--force" in err and path.read_text() == "mine"
    assert run(capsys, "new", "x", "-o", path, "--force")[0] == 0
    assert load_config(path).gpu.name == "x"


def test_new_on_a_file_of_mine_and_with_nothing_to_change(capsys, tmp_path):
    (tmp_path / "deep").mkdir()
    first, second = tmp_path / "a.toml", tmp_path / "deep" / "b.toml"
    assert run(capsys, "new", 'say "hi"', "-o", first)[0] == 0
    assert load_config(first).gpu.name == 'say "hi"' and list(diff(load_config(), load_config(first))) == ["gpu.name"]
    assert run(capsys, "new", "b", "--base", first, "--set", "sm.count=4", "-o", second)[0] == 0
    assert load_config(second).sm.count == 4


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["h200"], "'h200' is a shipped configuration"),
        (["x", "--base", "h_201"], "did you mean 'h200'"),
        (["x", "--set", "sm.cuont=3"], "did you mean 'sm.count'"),
        (["!!"], "no file can be called"),
    ],
)
def test_new_refuses(capsys, tmp_path, monkeypatch, argv, words):
    monkeypatch.chdir(tmp_path)
    status, _, err = run(capsys, "new", *argv)
    assert status != 0 and words in err and not list(tmp_path.iterdir())


# ---- derived values, sources


@pytest.mark.parametrize("name", shipped_names())
def test_derived_values_agree_with_what_uses_them(name):
    config = load_config(name)
    rows = {row.name: row.value for row in derive(config)}
    assert len(rows) == len(derive(config)), "names are unique"
    assert rows["fp32_flop_s"] == peak_operations_per_s(config)["FP32"]
    hz = config.gpu.clock_mhz * 1e6
    assert rows["dram_bytes_s"] == pytest.approx(config.dram.bandwidth_gb_s * 1e9)
    assert rows["l2_bytes_s"] == pytest.approx(peak_bytes_per_cycle(config)["L2"] * hz)
    assert rows["fp32_dram_flop_per_byte"] * rows["machine_balance"] == pytest.approx(1)
    assert rows["threads"] == rows["threads_per_sm"] * config.sm.count


@pytest.mark.parametrize("name", shipped_names())
def test_full_occupancy_is_what_the_occupancy_calculation_says(name):
    """Blocks of 256 threads fill an SM with the registers that are printed, and no longer with one more."""
    config = load_config(name)
    most = registers_at_full_occupancy(config)
    assert occupancy(config, 256, most).theoretical == 1
    assert occupancy(config, 256, most + 1).theoretical < 1


def test_by_hand():
    rows = {row.name: row for row in derive(load_config("t4"))}
    assert rows["fp32_flop_s"].value == 40 * 64 * 2 * 1.59e9 and rows["fp32_flop_s"].text == "8.141 TFLOP/s"
    assert rows["tensor_flop_s"].value == 40 * 512 * 2 * 1.59e9
    assert rows["full_occupancy_registers"].value == 64
    assert rows["dram_channel_bytes_s"].text == "20 GB/s"
    assert rows["l2_bytes_per_sm"].value == 4194304 / 40


def test_list_counts_sources_as_the_docs_show(capsys):
    _, out, _ = run(capsys, "list", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert set(rows) == set(shipped_names())
    assert rows["t4"]["base"] == "v100" and rows["h200"]["base"] is None and rows["h200"]["inherited"] == 0
    for name, row in rows.items():
        assert sum(row["sources"].values()) + row["inherited"] == len(describe_keys())
        assert row["sources"] == provenance(name)[0] and set(row["sources"]) == set(KINDS)
    _, out, _ = run(capsys, "list")
    text = (Path(__file__).resolve().parents[2] / "docs" / "configurations.md").read_text("utf-8")
    shown = re.search(r"<!-- list -->\n```\n(.*?)```\n<!-- /list -->", text, re.DOTALL)
    assert shown and shown[1].split() == out.split()
