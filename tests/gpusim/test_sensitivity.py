"""Which parameter moves a program's time most: against times that are known formulas, and against the simulator."""

import json
import math
import re

import pytest

from gpusim import plot
from gpusim.cli import main
from gpusim.config import diff, load_config, shipped_names
from gpusim.errors import ConfigError
from gpusim.explore import Point, explain, one_at_a_time
from gpusim.explore.journal import read_journal
from gpusim.explore.keys import KEYS, find_keys, value_of
from gpusim.explore.sensitivity import SensitivityError
from tests.gpusim import test_search

POINT = Point("vector_add", "tiny", (), (("size", 4096),))


def formula_of(formula):
    """Rows whose time is a formula of the machine."""
    return test_search.Formula(lambda program, config: formula(config))


def product(config):
    return 100 * config.sm.count**-0.75 * config.dram.bandwidth_gb_s**-0.25 * config.dram.latency_cycles**0.125


@pytest.mark.parametrize("gpu", shipped_names())
@pytest.mark.parametrize("factor", (0.5, 1.2))
def test_every_key_moves_to_a_machine_and_takes_only_what_it_says(gpu, factor):
    config = load_config(gpu)
    for key in KEYS.values():
        value = value_of(config, key.name)
        machine = load_config(config, key.changes(config, value * factor))
        assert set(diff(config, machine)) <= {key.name, *key.changes(config, value * factor)}, key.name
        reached = value_of(machine, key.name)
        if key.name == "sm.unified_l1_bytes":
            assert reached >= config.sm.shared_bytes  # which it cannot go below
        elif key.name == "sm.max_warps":
            parts, least = config.sm.sub_partitions, config.sm.max_threads_per_block // config.gpu.warp_size
            assert reached == max(least, parts * round(value * factor / parts))
        elif key.name == "dram.latency_cycles":
            assert reached >= config.l2.mean_latency_cycles
        else:
            wanted = max(1, value * factor) if isinstance(value, int) else value * factor
            assert abs(reached - wanted) <= max(0.5, 0.06 * wanted), key.name


def test_elasticities_are_the_exponents():
    found = one_at_a_time(POINT, ["dram.latency_cycles", "sm.count", "l2.bytes", "dram.bandwidth_gb_s"],
                          rows=formula_of(product))  # fmt: skip
    values = {effect.key: effect for effect in found.effects}
    assert [effect.key for effect in found.effects] == ["sm.count", "dram.bandwidth_gb_s", "dram.latency_cycles",
                                                        "l2.bytes"]  # fmt: skip
    assert values["sm.count"].elasticity == pytest.approx(-0.75)
    assert values["sm.count"].gain == pytest.approx(1 - 2**-0.75)
    assert values["dram.bandwidth_gb_s"].elasticity == pytest.approx(-0.25)
    assert values["dram.latency_cycles"].elasticity == pytest.approx(0.125)
    assert values["dram.latency_cycles"].gain == pytest.approx(1 - 2**-0.125)
    assert values["l2.bytes"].elasticity == values["l2.bytes"].gain == 0
    assert (values["sm.count"].low, values["sm.count"].high) == (1, 4)
    assert values["sm.count"].low_us == pytest.approx(found.time_us * 2**0.75)
    assert found.runs == 9
    assert list(found.frame()["key"]) == [effect.key for effect in found.effects]


def test_sides_that_do_not_exist():
    """A pipe's interval of one cycle has no half; a machine whose point fails has no time."""
    found = one_at_a_time(POINT, ["dram.bandwidth_gb_s", "pipes.fma.initiation_cycles"], step=1.25,
                          rows=formula_of(product))  # fmt: skip
    bandwidth, pipe = found.effects
    assert (bandwidth.low, bandwidth.high) == (80, 125)
    assert (pipe.low, pipe.high, pipe.low_us, pipe.elasticity) == (None, None, None, 0)

    def formula(config):
        return product(config) / (config.sm.count - 1)

    found = one_at_a_time(POINT, ["sm.count"], rows=formula_of(formula))
    (effect,) = found.effects
    assert effect.low is None and found.errors == ("vector_add on tiny size=4096 sm.count=1: it broke",)
    last_us = formula(load_config("tiny", {"sm.count": 4}))
    assert effect.elasticity == pytest.approx(math.log(last_us / found.time_us, 2))


def test_words_about_limits():
    here = one_at_a_time(POINT, rows=formula_of(product))
    launch = formula_of(lambda config: config.launch.overhead_cycles / 1000)
    there = one_at_a_time(Point("vector_add", "h200"), rows=launch)
    text = explain(here, there)
    assert "What limits it most is the number of SMs: sm.count from 2 to 4 saves 40.5 % of the time" in text
    assert "then the bandwidth of device memory (15.9 %), the latency of device memory (8.3 %)" in text
    assert "launch overhead: launch.overhead_cycles from 2,415 to 1,208 saves 50.0 % of the time." in text
    assert "Launch overhead matters more (0.0 % saved here, 50.0 % there)" in text
    assert "the number of SMs matters less (40.5 % saved here, 0.0 % there)." in text


def test_words_where_nothing_helps():
    idle = one_at_a_time(POINT, rows=formula_of(lambda config: 1.0))
    assert explain(idle).endswith("No part of the machine, made better alone, makes it faster.")
    # Fewer SMs would cost time, more save none.
    enough = one_at_a_time(POINT, ["sm.count"], rows=formula_of(lambda config: 1 / min(config.sm.count, 2)))
    assert enough.effects[0].elasticity == pytest.approx(-0.5)
    assert explain(enough).endswith("No part of the machine, made better alone, makes it faster.")
    with pytest.raises(SensitivityError, match="it broke"):
        one_at_a_time(POINT, ["sm.count"], rows=formula_of(lambda config: 1 / 0))
    both = one_at_a_time(POINT, rows=formula_of(lambda config: config.sm.count / config.dram.bandwidth_gb_s))
    assert explain(both).endswith("Better is slower for the number of SMs.")
    assert explain(idle, idle).endswith("The same limits both.")


def test_simulated_programs_have_the_limits_that_are_known():
    keys = ["sm.count", "dram.bandwidth_gb_s", "pipes.fp64.initiation_cycles"]
    starved = Point("vector_add", "tiny", (("dram.bandwidth_gb_s", 10.0),), (("size", 16384),))
    memory = {effect.key: effect.gain for effect in one_at_a_time(starved, keys).effects}
    assert memory["dram.bandwidth_gb_s"] > 0.35  # of a half at most
    assert abs(memory["sm.count"]) < 0.12
    series = Point("double/series", "tiny", (("pipes.fp64.initiation_cycles", 8),), (("size", 8192),))
    compute = {effect.key: effect.gain for effect in one_at_a_time(series, keys).effects}
    assert compute["pipes.fp64.initiation_cycles"] > 0.15
    assert compute["sm.count"] > 0.3
    assert abs(compute["dram.bandwidth_gb_s"]) < 0.05


def test_keys_by_name():
    (key,) = find_keys(["icache.l0_bytes"])
    assert (key.better, key.what) == ("larger", "icache.l0_bytes")
    assert find_keys(["shared.wavefront_cycles"])[0].better == "smaller"
    assert find_keys(["l2.fabric_bytes_per_cycle"])[0].better == "larger"
    with pytest.raises(ConfigError, match=r"sm\.count"):
        find_keys(["sm.counts"])
    for name in ("issue.policy", "l2.near_copy", "launch.max_grid"):
        with pytest.raises(ConfigError, match="is no number"):
            find_keys([name])


# --- pictures ------------------------------------------------------------------------------------------------------


def test_tornado_has_the_times_that_were_found():
    found = one_at_a_time(POINT, ["sm.count", "dram.bandwidth_gb_s", "dram.latency_cycles", "l2.bytes"],
                          rows=formula_of(product))  # fmt: skip
    ax = plot.tornado(found)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["sm.count", "dram.bandwidth_gb_s",
                                                                  "dram.latency_cycles"]  # fmt: skip
    worse, better = ax.containers
    effect = found.effects[0]
    assert worse[0].get_width() == pytest.approx(100 * (effect.low_us / found.time_us - 1))
    assert better[0].get_width() == pytest.approx(100 * (effect.high_us / found.time_us - 1))
    assert better[2].get_width() == pytest.approx(100 * (found.effects[2].low_us / found.time_us - 1))
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["better value", "worse value"]
    assert "sm.count -41 %" in plot.text_alternative(ax)
    with pytest.raises(ValueError, match="no key moves the time"):
        plot.tornado(one_at_a_time(POINT, ["sm.count"], rows=formula_of(lambda config: 1.0)))


# --- command line --------------------------------------------------------------------------------------------------

SMALL = ["sensitivity", "vector_add", "--gpu", "tiny", "--size", "1024", "--workers", "0"]


def test_command_tells_and_draws(tmp_path, capsys):
    picture = tmp_path / "tornado.png"
    arguments = ["--keys", "sm.count,launch.overhead_cycles", "--next", "h200", "--plot", str(picture)]
    assert main([*SMALL, *arguments]) == 0
    text = capsys.readouterr().out
    (counts,) = re.findall(r"\Avector_add fills .* machine: (\d+) of the (\d+) blocks", text)
    blocks, held = map(int, counts)
    assert blocks == 4 < held and f"fills {100 * blocks / held:.2g} % of the machine" in text
    assert "vector_add on tiny: " in text
    assert "vector_add on NVIDIA H200: " in text
    assert re.search(r"launch\.overhead_cycles +100 \.\. 400 ", text)
    assert "What limits it most is launch overhead" in text
    assert picture.stat().st_size > 5000


def test_command_as_json_with_a_journal(tmp_path, capsys):
    journal = tmp_path / "journal"
    arguments = [*SMALL, "--set", "sm.count=3", "--keys", "sm.count", "--json", "--journal", str(journal)]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["effects"][0]["value"], first["effects"][0]["high"]) == (3, 6)
    kept = read_journal(journal)
    assert len(kept[1]) == first["runs"] == 3
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert read_journal(journal) == kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--keys", "sm.cuont"], "did you mean"),
        (["--step", "1"], "step must be above 1"),
        (["--set", "sm.max_warps=4"], "needs"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys):
    assert main([*SMALL, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error or "--set" in arguments
