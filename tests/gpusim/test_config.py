"""Configurations: every shipped value has a source, every mistake one clear error; trees round-trip."""

import pickle
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import gpusim.config
from gpusim.config import GPUConfig, describe_keys, diff, load, load_config, shipped_names
from gpusim.errors import ConfigError, SimulationError

KINDS = ("spec: ", "microbenchmark: ", "reported: ", "fitted: ", "assumed: ")


def refusal(*args):
    with pytest.raises(ConfigError) as caught:
        load_config(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_values_have_sources(name):
    config = load_config(name)
    assert list(dict(config.items())) == list(describe_keys())
    for key, source in ((key, config.source(key)) for key in describe_keys()):
        assert source.startswith(KINDS), f"{name} {key}: {source}"


def test_keys_are_described_and_carry_units():
    for key, text in describe_keys().items():
        assert text, key
        assert not key.endswith(("latency", "time", "bandwidth", "interval", "capacity")), key


def test_derived_values():
    config = load_config("h200")
    assert config.dram_bytes_per_cycle == pytest.approx(4.8e12 / 1.98e9)
    assert config.l2.sets_per_slice * config.l2.slices * config.l2.ways * config.l2.line_bytes == config.l2.bytes
    assert config.l2.lookahead_cycles <= config.l2.latency_near_cycles - config.l1.latency_cycles
    assert config.time_us(1980) == 1.0
    assert config.l2.fabric_latency_cycles == 172
    assert config.dram_miss_cycles == 274


def test_every_carveout_gives_the_l1_whole_sets():
    for name in shipped_names():
        config = load_config(name)
        for capacity in config.sm.shared_capacities_bytes:
            l1_bytes = config.sm.unified_l1_bytes - capacity
            kept = config.l1.sets(l1_bytes) * config.l1.ways + config.l1.reserved_lines
            assert kept * config.l1.line_bytes == l1_bytes


@pytest.mark.parametrize(
    "overrides",
    [["sm.count=66"], {"sm.count": 66}, {"sm": {"count": 66}}, {"sm": {"count": {"value": 66}}}, "sm.count=66"],
)
def test_override_spellings(overrides):
    config = load_config("h200", overrides if not isinstance(overrides, str) else [overrides])
    assert config.sm.count == 66
    assert config.source("sm.count") == "override"
    assert diff(load_config("h200"), config) == {"sm.count": (132, 66)}


def test_override_values_are_toml():
    config = load_config(
        "h200", ["issue.policy=lrr", "launch.max_grid=[1, 2, 3]", "l2.near_copy=false", "dram.bandwidth_gb_s=1e3"]
    )
    assert config.issue.policy == "lrr"
    assert config.launch.max_grid == (1, 2, 3)
    assert config.l2.near_copy is False
    assert config.dram.bandwidth_gb_s == 1000


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("sm.cuont=3", "sm.cuont: unknown key; did you mean 'sm.count'?"),
        ("latency_near=3", "did you mean 'l2.latency_near_cycles'?"),
        ("shared.latency_ns=3", "wrong unit, the key counts SM clock cycles; did you mean 'shared.latency_cycles'?"),
        ("gpu.clock_ghz=2", "wrong unit, the key counts MHz; did you mean 'gpu.clock_mhz'?"),
        ("l2.mb=50", "l2.mb: unknown key"),
        ("zzz.qqq=1", "unknown key; the sections are constant, "),
        ("sm=3", "sm: is a section, not a value"),
        ("sm.count=-1", "sm.count: must be greater than 0, got -1"),
        ("sm.count=1.5", "sm.count: must be a whole number, got 1.5"),
        ("sm.count=true", "sm.count: must be a whole number, got True"),
        ("sm.shared_bytes='228 KB'", "sm.shared_bytes: must be a whole number of bytes, got '228 KB'"),
        ("shared.banks=33", "shared.banks: must be a power of two, got 33"),
        ("dram.bandwidth_gb_s=nan", "dram.bandwidth_gb_s: must be a number of 10^9 bytes a second"),
        (
            "issue.policy=fifo",
            "issue.policy: input should be 'block', 'glrr', 'gto', 'gty', 'lrr' or 'oldest', got 'fifo'",
        ),
        ("l2.near_copy=1", "l2.near_copy: must be true or false, got 1"),
        ("launch.max_grid=[1, 0, 2]", "launch.max_grid[1]: must be greater than 0, got 0"),
        ("launch.max_grid=[1, 2]", "must have three components"),
        ("l2.bytes=1000", "l2: bytes must be a multiple of slices times ways times line_bytes"),
        ("l2.slices=95", "l2: slices must be a multiple of partitions = 2, got 95"),
        ("dram.latency_cycles=300", "dram.latency_cycles must not be below the mean"),
        ("sm.max_blocks=300", "sm.max_blocks: input should be less than or equal to 256"),
        ("sm.max_cluster_blocks=32", "sm.max_cluster_blocks: input should be less than or equal to 16"),
        ("icache.l0_bytes=64", "icache: l0_bytes must not be below line_bytes = 128, got 64"),
        ("icache.l15_bytes=256", "icache: l15_bytes must hold a set of 4 lines, 512, got 256"),
        ("icache.line_bytes=8", "icache: line_bytes must hold an instruction of 16 bytes, got 8"),
        ("constant.fetch_bytes=32", "constant: fetch_bytes must not be below line_bytes = 64, got 32"),
        ("constant.line_bytes=2", "constant: line_bytes must be 4 to 65536"),
        ("l1.replacement=plru", "l1.replacement: input should be 'fifo', 'lru', 'random' or 'slru', got 'plru'"),
        ("l2.fetch_bytes=48", "l2.fetch_bytes"),
        ("l2.latency_far_cycles=100", "latency_far_cycles must not be below latency_near_cycles"),
        ("l1.max_outstanding_sectors=100000", "l1.max_outstanding_sectors: input should be less than or equal to"),
        ("l2.ways=64", "l2.ways: input should be less than or equal to 63"),
        ("dram.row_bytes=64", "dram.row_bytes must not be below l2.line_bytes"),
        ("sm.sub_partitions=3", "sm: max_warps must be a multiple of sub_partitions"),
        ("sm.count", "an override is spelled key=value"),
        ("sm.count=", "an override is spelled key=value"),
        ("sm.count=1 2", "not a TOML value: 1 2"),
        ("sm.count=264SMs", "not a TOML value: 264SMs"),
        ("l2.bytes=1.5GB", "is a number alone, of bytes, not 1.5GB: 1610612736 for 1.5 GiB, 1500000000 for 1.5 GB"),
        ("dram.bandwidth_gb_s=9.6TB/s", "is a number alone, of 10^9 bytes a second, not 9.6TB/s"),
    ],
)
def test_bad_override(override, words):
    assert words in refusal("h200", [override])


def test_unknown_names():
    message = refusal("h-20")
    assert f"{', '.join(shipped_names())};" in message
    assert "did you mean 'h200'" in message
    assert "no configuration file" in refusal("missing.toml")
    assert load_config("H200") is load_config("h200") and load_config("RTX4090").gpu.arch == "sm_89"


@pytest.mark.parametrize("name", ["b300", "mi300x", "H20", "gb200"])
def test_another_machine_is_not_called_a_slip_of_the_pen(name):
    assert "did you mean" not in refusal(name)


def test_a_file_of_that_name_is_what_was_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('base = "tiny"\n')
    assert "did you mean 'mine.toml'" in refusal("mine")


def test_user_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "tiny"\n[sm]\ncount = 3\n[l1]\nlatency_cycles = { value = 30, source = "a guess" }\n')
    config = load_config(path)
    assert (config.sm.count, config.source("sm.count")) == (3, "user")
    assert (config.l1.latency_cycles, config.source("l1.latency_cycles")) == (30, "a guess")
    assert config.l2.partitions == 1
    (tmp_path / "next.toml").write_text('base = "mine.toml"\n[sm]\ncount = 4\n')
    assert load_config(str(tmp_path / "next.toml")).l1.latency_cycles == 30


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sm]\ncount = 3\n", f"gpu.name: has no value and {len(describe_keys()) - 2} more; name a base"),
        ('base = "h200"\n[sm]\ncuont = 3\n', "did you mean 'sm.count'?"),
        (
            'base = "h200"\n[sm.count]\nvalue = 3\nunit = "SMs"\n',
            "sm.count: only value and source may stand here, not unit",
        ),
        ('base = "h200"\n[sm.count]\nsource = "x"\n', "sm.count: has no value"),
        ('base = "h200"\n[sm.count]\nvalue = 3\nsource = ""\n', "sm.count: source must be a text"),
        ('base = "h200"\n[sm.cuont]\nvalue = 3\n', "sm.cuont: unknown key"),
        ('base = "self.toml"\n', "base goes round in a circle: self.toml -> self.toml"),
        ("base = 3\n", "base: must be the name of a configuration"),
        ('base = "h-201"\n', "did you mean 'h200'"),
        ("[sm\n", "not valid TOML"),
    ],
)
def test_bad_file(tmp_path, text, words):
    path = tmp_path / "self.toml"
    path.write_text(text)
    assert words in refusal(path)


def test_shipped_file_without_source_is_refused(tmp_path):
    here = gpusim.config.load.GPU._replace(folder=tmp_path.resolve())
    (tmp_path / "new.toml").write_text("[sm]\ncount = 3\n")
    with pytest.raises(ConfigError, match=r"sm\.count: a shipped value needs a source"):
        gpusim.config.load.load(here, "new", ["sm.count=4"])


def test_toml_round_trip(tmp_path):
    config = load_config("a100", ["gpu.name='a \"b\" \\\\ c'", "launch.block_interval_cycles=2"])
    path = tmp_path / "resolved.toml"
    path.write_text(config.to_toml())
    again = load_config(path)
    assert again == config
    assert all(again.source(key) == config.source(key) for key in describe_keys())
    assert tomllib.loads(config.to_toml())["sm"]["count"]["value"] == 108


@given(
    st.dictionaries(
        st.sampled_from(["sm.count", "l1.reserved_lines", "launch.drain_cycles"]), st.integers(1, 10**9), min_size=1
    )
)
@settings(max_examples=25, deadline=None)
def test_overrides_are_exactly_the_difference(overrides):
    base = load_config("tiny")
    config = load_config(base, overrides)
    changed = {key: value for key, value in overrides.items() if dict(base.items())[key] != value}
    assert {key: pair[1] for key, pair in diff(base, config).items()} == changed
    assert (config == base) == (not changed)


def test_configurations_are_values():
    a, b = load_config("h200", ["sm.count=4"]), load_config("h200", {"sm.count": 4})
    assert a == b and hash(a) == hash(b) and a is not b
    assert len({a, b, load_config("h200")}) == 2
    copy = pickle.loads(pickle.dumps(a))
    assert copy == a and copy.source("sm.count") == "override"
    assert load_config(a) is a
    with pytest.raises(ValidationError):
        a.sm.count = 3  # type: ignore[misc]
    assert GPUConfig.model_validate(a.to_dict()) == a


def test_source_of_unknown_key():
    with pytest.raises(ConfigError, match=r"sm\.cout: unknown key; did you mean 'sm.count'"):
        load_config().source("sm.cout")
    assert issubclass(ConfigError, SimulationError)


def test_a_shipped_file_is_read_once(monkeypatch, tmp_path):
    """Not again for each override and each file based on it: that took most of the time of a small launch."""
    load_config("h200"), load_config("tiny")
    own = tmp_path / "own.toml"
    own.write_text('base = "h200"\n[sm]\ncount = 2\n')
    read, real = [], load.parse_file
    monkeypatch.setattr(load, "parse_file", lambda path: read.append(path) or real(path))
    assert load_config("tiny", ["sm.count=3"]).sm.count == 3
    found = load_config(own)
    assert (found.sm.count, found.source("sm.count"), found.source("gpu.arch")) == (
        2, "user", load_config("h200").source("gpu.arch"),
    )  # fmt: skip
    assert read == [own]
