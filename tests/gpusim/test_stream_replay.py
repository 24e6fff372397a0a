"""Programs of several GPUs without the program: their streams do again what they did, on any node."""

from __future__ import annotations

import json
import re
import sys
from ctypes import c_int, c_uint64
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpusim.cli import main
from gpusim.device import Device
from gpusim.driver.outputs.gpus import _exposed
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.outputs.saved import SavedWork
from gpusim.driver.outputs.stream_work import StreamRecorder, StreamReplay
from gpusim.engine.streams import Span
from tests import forks
from tests.gpusim.driver_calls import Calls

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")
BUCKETS = Path(__file__).parents[2] / "notebooks" / "several_gpus" / "buckets.py"
FLOAT, SUM = 7, 0
NBYTES = 1 << 18


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A file of a program of two processes, and what the program's table has."""
    file = tmp_path_factory.mktemp("saved") / "buckets.launches"
    how = "--json", "--gpus", "2", "--save", str(file)
    done = forks.run("-m", "gpusim.cli", "exec", *how, sys.executable, str(BUCKETS), "2")
    assert done.returncode == 0, done.stderr
    return file, json.loads(done.stdout)


def replayed(file, tmp_path, *options):
    assert main(["replay", str(file), "--json", "--output", str(tmp_path / "told"), *options]) == 0
    return json.loads((tmp_path / "told").read_text())


def same(launches, others):
    """But for the last digits of energies, which are summed in another order."""
    assert len(launches) == len(others) > 0
    for one, other in zip(launches, others, strict=True):
        assert one["energy_j"] > 0
        assert other == one | {"energy_j": pytest.approx(one["energy_j"], rel=1e-12)}
    return True


def test_on_the_same_node_everything_takes_as_long(recorded, tmp_path):
    """But for the wait of collectives for room beside kernels, which is not kept."""
    file, told = recorded
    again = replayed(file, tmp_path)
    assert same(told["launches"], again["launches"])
    (before,), (after,) = told["collectives"], again["collectives"]
    assert after == before | {"waited_us": pytest.approx(before["waited_us"], abs=0.1)}
    for one, other in zip(told["gpus"], again["gpus"], strict=True):
        assert one["exposed_us"] > 0
        assert other == {key: each if key == "gpu" else pytest.approx(each, abs=0.1) for key, each in one.items()}


def test_on_another_node_only_what_links_carry_takes_longer(recorded, tmp_path):
    file, told = recorded
    trace = tmp_path / "run.perfetto-trace"
    again = replayed(file, tmp_path, "--node", "pcie", "--trace", str(trace))
    assert same(told["launches"], again["launches"])
    (before,), (after,) = told["collectives"], again["collectives"]
    assert after["link"].endswith(("pcie0", "gpu0", "gpu1")) and before["link"] != after["link"]
    assert after["calls"] == before["calls"] and after["time_us"] > 3 * before["time_us"]
    for one, other in zip(told["gpus"], again["gpus"], strict=True):
        assert other["kernels_us"] == one["kernels_us"] and other["exposed_us"] > 3 * one["exposed_us"]
    assert trace.stat().st_size > 1000


def test_the_page_shows_the_same_by_gpu_and_by_link(recorded, tmp_path):
    file, _ = recorded
    again = replayed(file, tmp_path, "--node", "pcie", "--report", str(tmp_path / "pages"), "--report-limit", "1")
    page = (tmp_path / "pages" / "index.html").read_text("utf-8")
    drawn = re.search("<svg .*</svg>", page)[0]
    assert all(f">{gpu} {kind}</text>" in drawn for gpu in ("gpu0", "gpu1") for kind in ("kernel", "collective"))
    dark = re.findall(r'width="([0-9.]+)" height="17" fill="#a03000"', drawn)
    all_us = float(re.search("collectives in ([0-9,.]+) us", page)[1].replace(",", ""))
    exposed_us = sum(each["exposed_us"] for each in again["gpus"])
    assert sum(map(float, dark)) * all_us / 860 == pytest.approx(exposed_us, rel=0.02)
    by_gpu, by_link = page.split('id="by-gpu"')[1].split('id="by-link"')
    for each in again["gpus"]:
        assert each["gpu"] in by_gpu and f"{each['exposed_us']:,.2f}" in by_gpu
    links = re.findall(r'<th scope="row">(.*?)</th><td data-head="bytes">(.*?)</td>.*?">(.*?)</td>', by_link)
    busy = [float(us.replace(",", "")) for *_, us in links]
    assert busy == sorted(busy, reverse=True)
    # 4 MB came in and went out by copies, and as many of each GPU by two sums: 2 (n - 1) / n of the bytes
    assert {name: nbytes for name, nbytes, _ in links}["gpu0.pcie&gt;pcie0"] == "8.4 MB"


def test_what_no_kernel_hides_is_exposed():
    def span(kind, start, end, gpu="gpu0"):
        return Span(gpu, 1, kind, "", start, end)

    spans = [span("kernel", 10, 20), span("kernel", 15, 30), span("kernel", 40, 50), span("kernel", 0, 99, "gpu1")]
    spans += [span("collective", 5, 45), span("collective", 48, 60), span("collective", 12, 18)]
    device = SimpleNamespace(name="gpu0", streams=SimpleNamespace(engines=SimpleNamespace(spans=spans)))
    assert [(each.start, each.end) for each in _exposed(device)] == [(5, 10), (30, 40), (50, 60)]


def test_on_another_gpu_kernels_take_other_times(recorded, tmp_path):
    file, told = recorded
    again = replayed(file, tmp_path, "--set", "gpu.clock_mhz=990")
    assert again["total"]["time_us"] > 1.5 * told["total"]["time_us"]
    assert again["collectives"][0]["time_us"] == pytest.approx(told["collectives"][0]["time_us"], rel=1e-3)
    assert all(b["kernels_us"] > 1.5 * a["kernels_us"] for a, b in zip(told["gpus"], again["gpus"], strict=True))


def busy(calls):
    """Two GPUs of one process: copies of all directions, kernels, events in both streams, collectives, a host that
    waits in between."""
    comms, places, streams = (c_uint64 * 2)(), [], []
    calls.do("ncclCommInitAll", comms, 2, None)
    for ordinal in range(2):
        calls.do("cudaSetDevice", ordinal)
        places.append([calls.handle("cudaMalloc", NBYTES) for _ in range(2)])
        streams.append([calls.handle("cuStreamCreate", 1) for _ in range(2)])
    page = calls.address((c_int * (NBYTES // 4))())
    for turn in range(2):
        for ordinal in range(2):
            calls.do("cudaSetDevice", ordinal)
            computes, sums = streams[ordinal]
            calls.do("cuMemcpyHtoDAsync_v2", places[ordinal][0], page, NBYTES, computes)
            values = calls.parameters(c_uint64(places[ordinal][0]))
            calls.do("cuLaunchKernel", calls.kernel("bump"), 4096, 1, 1, 128, 1, 1, 0, computes, values, None)
            calls.do("cuMemsetD32Async", places[ordinal][1], turn, NBYTES // 4, computes)
            event = calls.handle("cuEventCreate", 2)
            calls.do("cuEventRecord", event, computes)
            calls.do("cuStreamWaitEvent", sums, event, 0)
            calls.do("cuMemcpyPeerAsync", places[1 - ordinal][1], 0, places[ordinal][0], 0, NBYTES, computes)
        calls.do("ncclGroupStart")
        for ordinal in range(2):
            what = places[ordinal][0], places[ordinal][0], NBYTES // 4, FLOAT, SUM
            calls.do("ncclAllReduce", *what, comms[ordinal], streams[ordinal][1])
        calls.do("ncclGroupEnd")
        calls.do("cuStreamSynchronize", streams[turn][1])
    for each in (stream for pair in streams for stream in pair):
        calls.do("cuStreamSynchronize", each)


def spans(device):
    return sorted((each.gpu, each.kind, each.name, each.start, each.end) for each in device.streams.engines.spans)


def test_streams_wait_for_each_other_as_they_did(tmp_path):
    telling = Telling(save=str(tmp_path / "no.launches"))
    calls = Calls("tiny", "libnccl.so.2", "detailed", gpus=2, telling=telling)
    busy(calls)
    recorder = next(each for each in calls.driver.observers if isinstance(each, StreamRecorder))
    works = tuple(SavedWork(**each) for each in recorder.works)
    first = Device("tiny", node=calls.driver.node, threads=1)
    devices = [first, Device(beside=first, threads=1)]
    saved = SimpleNamespace(head=SimpleNamespace(works=works), config=lambda: first.config)
    StreamReplay(saved, devices, {}, []).run()
    before, after = spans(calls.driver.device), spans(first)
    assert len(before) > 12 and {each[1] for each in before} == {"kernel", "copy", "collective"}
    assert after == before
