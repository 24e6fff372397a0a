"""What launches of a program tell beside the table: pages, a timeline, checks, names, messages; chosen and bounded."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from gpusim.config import load_config
from gpusim.driver.outputs.log import LaunchLog
from gpusim.driver.outputs.outputs import Telling
from gpusim.driver.outputs.pages import PageWriter
from gpusim.report_html import MARK
from gpusim.result import Result
from gpusim.units import joule_text
from tests.gpusim.driver_program import run
from tests.gpusim.records import make_program, make_record
from tests.gpusim.test_script import gpusim, write
from tests.gpusim.test_trace_export import Read

pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulated driver needs Linux")

PROGRAM = """
@cuda.jit(lineinfo=True)
def mirror(a):
    s = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    s[i] = a[i]
    a[i] = s[i] + 0 * s[63 - i]

x, y = cuda.to_device(np.arange(64, dtype=np.float32)), cuda.device_array(64, np.float32)
y.copy_to_device(x)
stream = cuda.stream()
for _ in range(3):
    add[1, 64](x, 1.0)
mirror[1, 64, stream](x)
mirror[1, 64, stream](x)
assert (x.copy_to_host(stream=stream) == np.arange(3, 67)).all()
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A script that told everything: its folder, and what it printed."""
    folder = tmp_path_factory.mktemp("told")
    write(folder, "run.py", PROGRAM)
    what = "--report", "pages", "--trace", "all.perfetto-trace", "--check", "racecheck", "--json"
    return folder, gpusim("script", "--gpu", "tiny", "--threads", "1", *what, "run.py", folder=folder)


def rows_of(page):
    """The index as (numbers, kernel, page or None, cells behind them)."""
    found = []
    for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page):
        first, name, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        link = re.search(r'href="(.*?)"', name)
        kernel = re.sub(r"<.*?>", "", name.partition("<small>")[0])
        found.append((first.replace("\N{EN DASH}", "-"), kernel, link and link[1], cells))
    return found


def test_each_launch_has_a_page_and_like_ones_share_it(told):
    folder, done = told
    launches = {each["kernel"]: each for each in json.loads(done.stdout)["launches"]}
    page = (folder / "pages" / "index.html").read_text()
    rows = rows_of(page)
    numbers = [int(n) for first, *_ in rows for n in range(int(first.split("-")[0]), int(first.split("-")[-1]) + 1)]
    assert numbers == [1, 2, 3, 4, 5]
    assert {kernel for _, kernel, *_ in rows} == {"add", "mirror"}
    total = dict.fromkeys(launches, 0)
    shared = {}
    for first, kernel, link, cells in rows:
        calls = int(first.split("-")[-1]) - int(first.split("-")[0]) + 1
        cycles = int(cells[3].replace(",", ""))
        total[kernel] += calls * cycles
        assert shared.setdefault((kernel, cycles), link) == link
        document = (folder / "pages" / link).read_text()
        joules = float(re.search(r'"energy_j":([^,]+),', document)[1])
        assert cells[6] == joule_text(joules, "µ")
        assert f'"cycles":{cycles},' in document and '"index":"index.html"' in document
        assert f'"kernel":"__main__::{kernel}(Array' in document  # the full name
        assert '"trace":{' in document  # with the stepper
    assert total == {kernel: each["cycles"] for kernel, each in launches.items()}
    assert len(set(shared.values())) == len(shared) == len(list((folder / "pages").glob("launch-*.html")))


def test_checks_find_what_is_there_and_the_program_goes_on(told):
    """The script's own assertion holds, and the status is that of a mistake."""
    folder, done = told
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("gpusim: launch")]
    assert [line.partition(":")[2].split(":")[0] for line in lines] == [" launch 4, mirror", " launch 5, mirror"]
    for line in lines:
        assert "data race: shared" in line and "run.py:18," in line and "run.py:19," in line
    assert len(re.findall(r"^    1[89]: (s\[i\] =|a\[i\] = s\[i\] \+)", done.stderr, re.MULTILINE)) == 2
    launches = {each["kernel"]: each for each in json.loads(done.stdout)["launches"]}
    assert (launches["add"]["findings"], launches["mirror"]["findings"]) == (0, 2)
    assert (launches["mirror"]["first"], launches["mirror"]["last"], launches["mirror"]["calls"]) == (4, 5, 2)
    notes = re.findall(r"<small>(.*?)</small>", (folder / "pages" / "index.html").read_text())
    assert notes and all("data race" in note for note in notes)


def test_the_timeline_holds_every_launch_and_copy(told):
    folder, done = told
    found = Read(folder / "all.perfetto-trace")
    config, log = load_config("tiny"), json.loads(done.stdout)
    slices = sorted(found.slices, key=lambda each: each[1])
    to, back = "copies from host to device", "copies from device to host"
    launches = [each for each in slices if each[0][-1] not in (to, back)]
    assert [name for *_, name in launches] == ["add"] * 3 + ["mirror"] * 2
    assert {path[-1] for path, *_ in launches[:3]} == {"default stream"}
    (stream,) = {path[-1] for path, *_ in launches[3:]}
    assert stream.startswith("stream 0x")
    assert all(before[2] <= after[1] for before, after in pairwise(launches))
    lasted = sum(end - start for _, start, end, _ in launches)
    assert abs(lasted - 1000 * config.time_us(log["total"]["cycles"])) <= len(launches)
    facts = [found.facts[path, start, name] for path, start, _, name in launches]
    assert [each["launch"] for each in facts] == ["1", "2", "3", "4", "5"]
    assert [(path[-1], name) for path, *_, name in (slices[0], slices[-1])] == [(to, "256 bytes"), (back, "256 bytes")]
    ((path, moment, name, _),) = found.instants  # several of them could happen at once
    assert (path[-1], name) == ("copies from device to device", "256 bytes")
    times = [*slices[0][1:3], moment, launches[0][1], launches[-1][2], *slices[-1][1:3]]
    assert times == sorted(times) and times[1] > times[0] and times[-1] > times[-2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--launch", "0"), "--launch is a number, from 1"),
        (("--launch", "9-3"), "--launch is a number, from 1"),
        (("--kernel", "("), "no regular expression"),
        (("--section", "memory"), "--report DIR"),
        (("--report", "p", "--section", "nothing"), "there are advice, speed-of-light"),
        (("--report", "run.py"), "File exists"),
        (("--report", "p", "--report-limit", "0"), "must be positive"),
        (("--trace", "x.json"), "ends in .perfetto-trace"),
        (("--trace", "x.perfetto-trace", "--functional"), "a functional run has none"),
        (("--save", "no/where"), "no such folder"),
        (("--check", "memory"), "there is no check 'memory'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, capsys, monkeypatch, options, text):
    from gpusim.cli import main

    (tmp_path / "run.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.chdir(tmp_path)
    assert main(["script", "--gpu", "tiny", *options, "run.py"]) == 2
    assert text in capsys.readouterr().err


def test_launches_are_chosen_by_name_and_number():
    chosen = Telling(kernel=r"^ns::k<.*float>", first=2, last=4)
    symbols = "_ZN2ns1kILi3EfEEvPT0_", "_Z1kv"
    found = [(n, symbol) for n in range(1, 6) for symbol in symbols if chosen.chooses(n, symbol)]
    assert found == [(n, symbols[0]) for n in (2, 3, 4)]


def test_options_are_plain_values_and_each_process_has_files_of_its_own(tmp_path):
    telling = Telling(report="pages", sections=("memory",), trace="all.perfetto-trace", save="x", check=("racecheck",))
    assert asdict(Telling(**json.loads(json.dumps(asdict(telling))))) == json.loads(json.dumps(asdict(telling))) | {
        "sections": ["memory"], "check": ["racecheck"],
    }  # fmt: skip
    second = Telling(report=str(tmp_path / "pages"), trace="all.perfetto-trace", process=2)
    pages, timeline = second.observers(load_config("tiny"), "detailed")
    assert pages.folder == tmp_path / "pages-2"
    assert timeline.path.name == "all-2.perfetto-trace"


class Call:
    """As much of a launch as the pages look at."""

    def __init__(self, number):
        record = make_record()
        self.number, self.symbol, self.name = number, "_Z1kv", "k()"
        self.program, self.launch, self.trace = record.program, record.launch, None

    def want_trace(self, options):
        self.trace = options


def test_many_launches_write_no_more_pages_than_the_limit_and_say_so(tmp_path, monkeypatch, capsys):
    from gpusim.driver.outputs import pages

    written = []

    def write_short(result, path, *_, **__):
        written.append(path.name)
        path.write_text(MARK)

    monkeypatch.setattr(pages, "write", write_short)
    monkeypatch.setattr(pages, "MOST_ROWS", 50)
    writer = PageWriter(tmp_path, load_config("tiny"), lambda number, symbol: True, (), 3, "detailed")
    base = make_record()
    count = 160
    for number in range(1, count + 1):
        call = Call(number)
        writer.asked(call)
        writer.launching(call, 0)
        assert (call.trace is not None) == (number <= 4)  # two are alike, so the fourth page ends it
        result = Result(replace(base, cycles=base.cycles + max(number, 2)))
        writer.launched(call, result, 0)
    writer.close()
    assert written == ["launch-1.html", "launch-3.html", "launch-4.html"]
    said = capsys.readouterr().err
    assert f"{count - 4:,} launches without a page: the limit of 3 pages was reached (--report-limit" in said
    index = (tmp_path / "index.html").read_text()
    assert index.count('<tr><th scope="row') == 50 and "more launches are not listed" in index
    above = (tmp_path / "launch-3.html").read_text()
    assert 10 < above.count('<th scope="row') < 30 and "more rows in the" in above and MARK not in above


def test_a_disk_without_room_ends_the_pages_with_one_sentence(tmp_path, monkeypatch, capsys):
    from gpusim.driver.outputs import pages

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pages, "write", full)
    writer = PageWriter(tmp_path, load_config("tiny"), lambda number, symbol: True, (), 9, "detailed")
    for number in (1, 2):
        writer.launched(Call(number), Result(make_record()), 0)
    writer.close()
    said = f"gpusim: --report {tmp_path}: No space left on device; no more pages are written\n"
    assert capsys.readouterr().err == said


def test_the_log_keeps_numbers_and_no_records():
    import gc
    import weakref

    log, record = LaunchLog(load_config("tiny")), make_record()
    kept = weakref.ref(record)
    joules = Result(record).energy_j
    for _ in range(2):
        log.add("_ZN2ns1kILi3EfEEvPT0_", Result(record))
    del record
    gc.collect()
    assert kept() is None
    (launch,) = log.to_dict()["launches"]
    assert launch["name"] == "ns::k<3, float>(float*)" and launch["limiter"]
    log.add_failure("_ZN2ns1kILi3EfEEvPT0_", make_program(), make_record().launch)
    assert (log.number, log.wrong) == (3, 1)
    assert launch["energy_j"] == log.to_dict()["total"]["energy_j"] == pytest.approx(2 * joules)
    assert "ns::k<3, float>" in log.render() and joule_text(2 * joules) in log.render().splitlines()[-3]
    log = LaunchLog(load_config("tiny"), timed=False)  # which has no energy
    log.add("k", Result(make_record(mode="functional")))
    (launch,) = log.to_dict()["launches"]
    assert launch["energy_j"] is log.to_dict()["total"]["energy_j"] is None and "energy" not in log.render()


def test_messages_name_launch_line_array_and_what_points_to_it():
    done = run("""
        from cuda.bindings import driver as cu
        from isa import compile_cuda

        source = '''template <typename T> __global__ void gather(const T *in, T *out, int shift) {
          out[threadIdx.x] = in[threadIdx.x + shift];
        }
        template __global__ void gather<float>(const float *, float *, int);'''
        assert cu.cuInit(0)[0] == 0
        assert cu.cuCtxCreate(None, 0, 0)[0] == 0
        module = cu.cuModuleLoadData(compile_cuda(source, driver.config.gpu.arch, path="gather.cu"))[1]
        kernel = cu.cuModuleGetFunction(module, b"_Z6gatherIfEvPKT_PS0_i")[1]
        a, b = cu.cuMemAlloc(400)[1], cu.cuMemAlloc(4000)[1]
        for shift in (0, 600):
            values = [np.array([value], kind) for value, kind in ((int(a), "u8"), (int(b), "u8"), (shift, "i4"))]
            pointers = np.array([each.ctypes.data for each in values], np.uint64)
            assert cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, pointers.ctypes.data, 0)[0] == 0
        assert cu.cuCtxSynchronize()[0] == 700
    """)
    assert "launch 2, gather<float>: out of bounds: global read of 4 bytes" in done.stderr
    assert "past the end of 'device allocation 1' (400 bytes)" in done.stderr
    assert "before the start of 'device allocation 2' (4,000 bytes)" in done.stderr
    assert "parameter 1 points to 'device allocation 1'" in done.stderr
    assert "gather.cu:2, block" in done.stderr


def test_initcheck_follows_device_memory_and_what_the_driver_writes():
    done = run("""
        from numba import cuda
        from gpusim.driver.outputs.outputs import Telling

        driver = gpusim.driver.numba_cuda.install("tiny", threads=1, telling=Telling(check=("initcheck",)))

        @cuda.jit
        def double(a, b):
            i = cuda.grid(1)
            b[i] = 2 * a[i]

        new = lambda: cuda.device_array(64, np.float32)
        copied, managed = cuda.to_device(np.ones(64, np.float32)), cuda.managed_array(64, np.float32)
        filled, out = new(), new()
        cuda.driver.driver.cuMemsetD8(int(filled.device_ctypes_pointer.value), 0, 256)
        other = new()
        other.copy_to_device(copied)
        for known in (copied, filled, managed, other, out):
            double[2, 32](known, out)
        assert driver.log.wrong == 0
        double[2, 32](new(), out)
        assert driver.log.wrong == 1 and (driver.log.calls, driver.log.number) == (6, 6)
    """)
    assert "launch 6, double: uninitialized read: global read of 4 bytes" in done.stderr


EXECUTABLE = """
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
template <typename T> __global__ void scale(T *x, T factor) { x[threadIdx.x] *= factor; }
int main() {
  if (fork()) wait(0);
  float *x, found;
  cudaMallocManaged(&x, 256);
  for (int k = 0; k < 64; k++) x[k] = k;
  for (int k = 0; k < 2; k++) scale<<<1, 64>>>(x, 2.0f);
  cudaMemcpy(&found, x + 3, 4, cudaMemcpyDeviceToHost);
  return found != 12;
}
"""


@pytest.mark.skipif(not shutil.which("nvcc") or not shutil.which("cc"), reason="nvcc and a C compiler are needed")
def test_every_process_of_an_executable_tells(tmp_path):
    (tmp_path / "scale.cu").write_text(EXECUTABLE)
    subprocess.run(["nvcc", "-arch=sm_90", "--cudart", "shared", "-o", "scale", "scale.cu"], cwd=tmp_path, check=True)
    files = "--report", "pages", "--trace", "all.perfetto-trace", "--save", "saved", "--check", "all"
    done = gpusim("exec", "--gpu", "tiny", "--threads", "1", *files, "--json", "./scale", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for own, process in zip(told, ("", "-2"), strict=True):
        assert [each["name"] for each in own["launches"]] == ["scale<float>(float*, float)"]
        assert own["launches"][0]["calls"] == 2
        assert sum(len(row) for row in rows_of((tmp_path / f"pages{process}" / "index.html").read_text())) in (4, 8)
        found = Read(tmp_path / f"all{process}.perfetto-trace")
        assert len(found.slices) == 3 and not found.instants  # two launches, and a copy back
        again = gpusim("replay", f"saved{process}", "--threads", "1", "--json", folder=tmp_path)
        assert json.loads(again.stdout)["launches"] == own["launches"], again.stderr
