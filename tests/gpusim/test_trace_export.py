"""Files for the timeline viewer Perfetto, read back with its own schema.

They must hold every interval of the trace, at its cycles and under its name, and nothing else.
"""

from collections import Counter, defaultdict

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Schema
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

from gpusim.cli import main
from gpusim.engine.state.layout import STALLS
from gpusim.tracing.perfetto import RATE_CYCLES
from gpusim.tracing.recording import TraceOptions
from tests.gpusim.test_trace import run


def traced(name, size, **options):
    return run(name, size, trace=TraceOptions(**options)).trace


@pytest.fixture(scope="module", params=["whole", "cut"])
def trace(request):
    """Two blocks with barriers, divergence and bank conflicts, on different SMs; once cut off in the middle."""
    name, size = "reduction/interleaved_conflicts", 4096
    whole = traced(name, size, sms=(0,), blocks=(0, 3))
    if request.param == "whole":
        assert whole.complete
        return whole
    return traced(name, size, sms=(0,), blocks=(0, 3), limit=len(whole.issues) // 2)


# --- Perfetto ---------------------------------------------------------------------------------------------------------


class Read:
    """A Perfetto file: paths of tracks, slices, instants and counts as tuples that start with their track's path."""

    def __init__(self, path):
        self.slices, self.counts, self.facts = [], defaultdict(list), {}
        self.instants = []
        names, keys, values, tracks, stacks = {}, {}, {}, {}, defaultdict(list)
        before = 0
        for packet in Schema.FromString(path.read_bytes()).packet:
            assert packet.trusted_packet_sequence_id == 1
            names |= {each.iid: each.name for each in packet.interned_data.event_names}
            keys |= {each.iid: each.name for each in packet.interned_data.debug_annotation_names}
            values |= {each.iid: each.str.decode() for each in packet.interned_data.debug_annotation_string_values}
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                tracks[track.uuid] = (*tracks.get(track.parent_uuid, ()), track.name)
            if not packet.HasField("track_event"):
                continue
            event, time = packet.track_event, packet.timestamp
            assert time >= before
            before = time
            path = tracks[event.track_uuid]
            if event.type == TrackEvent.TYPE_COUNTER:
                exact = event.HasField("counter_value")
                self.counts[path].append((time, event.counter_value if exact else event.double_counter_value))
                continue
            facts = {keys[each.name_iid]: values[each.string_value_iid] for each in event.debug_annotations}
            if event.type == TrackEvent.TYPE_INSTANT:
                self.instants.append((path, time, names[event.name_iid], facts))
            elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
                stacks[event.track_uuid].append((time, names[event.name_iid], facts))
            else:
                assert event.type == TrackEvent.TYPE_SLICE_END
                start, name, facts = stacks[event.track_uuid].pop()
                self.slices.append((path, start, time, name))
                self.facts[path, start, name] = facts
        assert not any(stacks.values())


@pytest.fixture(scope="module")
def read(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("perfetto") / "it.perfetto-trace"
    trace.perfetto(path)
    return Read(path)


def places(trace, root):
    """Path of the slot's track of each warp."""
    return {
        int(row["warp"]): (*root, f"SM {row['sm']}", f"scheduler {row['scheduler']}", f"warp slot {row['slot']}")
        for row in trace.warps
    }


ROOT = ("interleaved_conflicts on NVIDIA H200: 1 ns is 1 SM cycle",)


def test_perfetto_holds_every_interval_and_nothing_else(trace, read):
    place = places(trace, ROOT)
    expected = Counter()
    for warp in trace.warps:
        number = warp["warp"]
        expected[place[number], warp["start"], warp["end"], trace.warp_label(number)] += 1
    for stall in trace.stalls:
        expected[place[stall["warp"]], stall["start"], stall["end"], STALLS[stall["reason"]]] += 1
    for issue in trace.issues:
        name, cycle = trace.instructions[issue["pc"]].mnemonic, issue["cycle"]
        expected[place[issue["warp"]], cycle, cycle + 1, name] += 1
        expected[place[issue["warp"]][:-1], cycle, cycle + 1, name] += 1
    for block in trace.blocks[trace.blocks["start"] < trace.until]:
        end = min(block["end"], trace.until)
        expected[(*ROOT, f"SM {block['sm']}", "blocks"), block["start"], end, f"block {block['block']},0,0"] += 1
    assert Counter(read.slices) == expected


def test_perfetto_counters_are_the_trace_s(trace, read):
    """Warps by a sum over the trace at some cycles; the rate by its mean."""
    sm = (*ROOT, "SM 0")
    warps = trace.warps[trace.warps["sm"] == 0]
    waits = trace.stalls[np.isin(trace.stalls["warp"], warps["warp"])]
    waits = waits[np.isin(waits["reason"], [STALLS.index("long_scoreboard"), STALLS.index("lg_throttle")])]
    for name, spans in (("resident warps", warps), ("warps waiting for memory", waits)):
        times, values = zip(*read.counts[*sm, name], strict=True)
        assert values[-1] == 0
        for cycle in range(int(warps["start"].min()), trace.until, 97):
            k = np.searchsorted(times, cycle, "right") - 1
            inside = (spans["start"] <= cycle) & (cycle < spans["end"])
            assert (values[k] if k >= 0 else 0) == inside.sum()
    rates = read.counts[*sm, "issued per cycle"]
    assert sum(rate for _, rate in rates) * RATE_CYCLES == (trace.issues["sm"] == 0).sum()
    assert rates[-1][1] == 0


def test_perfetto_tells_lanes_and_conflicts(trace, read):
    place = places(trace, ROOT)
    row = trace.issues[np.argmax(trace.issues["wavefronts"])]
    facts = read.facts[place[row["warp"]], row["cycle"], trace.instructions[row["pc"]].mnemonic]
    assert row["wavefronts"] > row["ideal"]
    assert facts["wavefronts"] == f"{row['wavefronts']}, without bank conflicts {row['ideal']}"
    assert facts["active lanes"].startswith(f"{row['active']:#010x}")
    assert "reduction.py:" in facts["source"]


# --- Command line -----------------------------------------------------------------------------------------------------


def test_run_writes_a_trace(tmp_path, capsys):
    path = tmp_path / "it.perfetto-trace"
    wanted = ["--trace-sms", "none", "--trace-blocks", "1-2,7", "--trace-limit", "100"]
    assert main(["run", "vector_add", "--size", "4096", "--trace", str(path), *wanted]) == 0
    assert path.stat().st_size > 1000
    assert "of 24 warps, until cycle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--trace", "it.json"], "ends in .perfetto-trace"),
        (["--trace", "absent/it.perfetto-trace"], "no such folder"),
        (["--trace-blocks", "1"], "both are missing"),
        (["--trace", "it.perfetto-trace", "--trace-blocks", "one"], "a list of numbers"),
        (["--trace", "it.perfetto-trace", "--trace-blocks", "4"], "4 blocks are numbered from 0"),
        (["--trace", "it.perfetto-trace", "--trace-sms", "132"], "the GPU has 132"),
        (["--trace", "it.perfetto-trace", "--trace-limit", "0"], "must be positive"),
    ],
)
def test_mistakes_are_named(options, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "vector_add", "--size", "1024", *options]) == 2
    assert reason in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
