"""The lab: its experiments beside an H100, its answers, its exercises, its doors, and its page in Chromium."""

import json
import random
import re
import statistics
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from http.cookiejar import CookieJar
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from gpusim.cli import main
from gpusim.config import load_config
from gpusim.engine.sm import coalescer
from gpusim.errors import WorkloadError
from gpusim.lab import answers, play
from gpusim.lab.exercises import load_exercises
from gpusim.lab.page import play_page
from gpusim.lab.server import LabServer, make_app
from gpusim.simulation import simulate
from gpusim.workload.request import Request
from gpusim.workload.target import find_target
from isa import load
from isa.cubin import read_cubin
from isa.cuda import compile_source
from tests.gpusim.data.lab.solve import solved
from tests.gpusim.test_report_browser import DESKTOP, PHONE, TO, browser, find, texts  # noqa: F401
from tests.house import ROOT

KEY, HERE = "a key of the tests", "localhost"
START = {name: {each.name: each.start for each in it.sliders} for name, it in play.EXPERIMENTS.items()}
EXERCISES = load_exercises()
KERNEL = """\
import numpy as np
from numba import cuda


@cuda.jit
def double(x, out):
    i = cuda.threadIdx.x
    out[i] = 2 * x[i]


x = np.arange(10_000, dtype=np.float32)
out = np.zeros_like(x)
grid, block, args = 1, 256, (x, out)


def check():
    assert (out == 2 * x).all(), "wrong"
"""
RIGHT = KERNEL.replace("i = cuda.threadIdx.x\n", "i = cuda.grid(1)\n    if i < x.size:\n    ").replace("= 1,", "= 40,")


def test_machine_code_is_that_of_the_source(toolchain):
    """What was measured and is simulated is what the page shows."""
    made = read_cubin(compile_source(play.SOURCE.read_text("utf-8"), "sm_90", str(play.SOURCE)).cubin)
    stored = read_cubin(play.CUBIN.read_bytes())
    assert {"banks1", "sectors8", "ways", "pixels"} < set(stored.kernels) == set(made.kernels)
    assert all(made.code(name).code == stored.code(name).code for name in stored.kernels)


@pytest.mark.parametrize(
    ("name", "count", "mean", "worst"),
    [("banks", 8, 0.03, 0.12), ("ways", 8, 0.04, 0.35), ("sectors", 6, 0.1, 0.3), ("pixels", 1, 0.15, 0.15)],
)
def test_predictions_are_near_what_an_h100_took(name, count, mean, worst):
    """Worst are branches that do next to nothing."""
    places = list(play.EXPERIMENTS[name].places())
    assert len(places) == len(play.recorded()["experiments"][name])
    errors = []
    for place in random.Random(7).sample(places, count) if count > 1 else [START[name]]:
        found = answers.predict(name, place, "h100")
        errors.append(abs(found["cycles"] / play.measured(name)[tuple(place.values())] - 1))
    assert statistics.mean(errors) < mean and max(errors) < worst
    if name == "pixels":
        assert dict(row[:2] for row in found["facts"])["Counted sectors a request"] == "8.0"
        assert {"x": 64, "y": 32} not in places and {"x": 32, "y": 32} in places
        assert tuple((START["banks"] | {"offset": 3}).values()) not in play.measured("banks")


def test_a_kernel_that_is_right_and_one_beside_it():
    source = RIGHT + "    print('all right')\n"
    first = answers.answer(("write", {"source": source, "gpu": "tiny"}))
    assert first["printed"] == "all right\n" and first["why"] is None
    assert {row[3] for row in first["code"]["code"]} <= set(range(6, 11)) and "<html" in first["page"]
    second = answers.answer(("write", {"source": source, "gpu": "tiny", "previous": first["saved"]}))
    slower = answers.answer(("write", {"source": source, "gpu": "h100", "previous": first["saved"]}))
    assert slower["why"] and slower["why"] != second["why"]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("def double", "def double(", 6, "Python cannot read this line"),
        ("2 * x[i]", "2 * y[i]", 8, "y"),
        ("np.arange", "np.arrange", 11, "arrange"),
        ("= 1, 256, (x, out)", "= 1, 256, (x,)", None, "argument"),
        ("grid, block, args = 1, 256, (x, out)", "grid, block = 1, 256", None, "args"),
        ("out[i] = 2 * x[i]", "out[i + 20000] = x[i]", 8, "out"),
        (
            "i = cuda.threadIdx.x",
            "i = cuda.threadIdx.x\n    while True:\n        out[0] += 1",
            8,
            "cycles",
        ),
    ],
)
def test_errors_are_at_their_line(old, new, line, words, monkeypatch):
    monkeypatch.setattr(answers, "MOST_CYCLES", 100_000)
    assert KERNEL.count(old) == 1
    found = answers.answer(("write", {"source": KERNEL.replace(old, new), "gpu": "tiny"}))
    assert words in found["error"] and "gpusim-lab-" not in found["error"], found["error"]
    if line is not None:
        assert found["line"] == line, found


def solving(exercise, source):
    return answers.answer(("solve", {"exercise": exercise, "source": source}))


@pytest.mark.parametrize("number", range(1, 13))
def test_exercises_can_be_solved(number):
    """At every size at which a solution may be judged again."""
    exercise = EXERCISES[number - 1]
    assert len(exercise.hints) >= 2
    found = solving(replace(exercise, others=exercise.others[:1]), source := solved(number, exercise.start))
    assert found.get("solved"), found.get("error") or found["doubt"] or found["goals"]
    assert replace(exercise, others=exercise.others[1:2]).judge(source, Path("kernel.py")) == ""


@pytest.mark.parametrize("number", [1, 4, 9])
def test_exercises_are_not_solved_at_first(number):
    """One fails its check, one has too many wavefronts, one too many atomics."""
    found = solving(EXERCISES[number - 1], EXERCISES[number - 1].start)
    assert not found.get("solved") and ("error" in found) == (number == 1)


SOLVED = solved(1, EXERCISES[0].start)
BAD = "def check(*arguments):\n    pass\n"
OWN = "a solution has imports"
CHEATS = [
    # What is written around the kernel: each is refused at its line.
    (f"{BAD}{SOLVED}", 1, OWN),  # a check of one's own
    (f"@cuda.jit\n{BAD}{SOLVED}", 2, "check is the exercise's own"),
    (f"inputs = None\n{SOLVED}", 1, "inputs is the exercise's own"),
    (f"n = 1\n{SOLVED}", 1, "n is the exercise's own"),
    (f"import gpusim\n{SOLVED}", 1, OWN),
    (f"import numpy as np\nnp.array_equal = np.any\n{SOLVED}", 2, OWN),
    (f"import numpy\nnumpy.core.x, numpy.y = 1, 2\n{SOLVED}", 2, OWN),
    (f"import numpy as np\nx = np.ones(3)\n{SOLVED}", 2, OWN),
    (f"import numpy as cuda\n{SOLVED}", 1, OWN),
    (f"from numpy import *\n{SOLVED}", 1, OWN),
    (f"from .numpy import testing\n{SOLVED}", 1, OWN),
    (f"{SOLVED}\nprint('Solved.')\n", 13, OWN),
    (f"{SOLVED}\ndouble[grid, block](1, 2)\n", 13, OWN),  # a launch of one's own
    (f"{SOLVED}\ndouble.grid = 40\n", 13, OWN),
    (f"{SOLVED}\nfor _ in 1, 2:\n    pass\n", 13, OWN),
    (f"{SOLVED}\n__builtins__ = 1\n", 13, OWN),
    (f"{SOLVED}\nx = double.__globals__\n", 13, OWN),
    (f"{SOLVED}\nclass C:\n    pass\n", 13, OWN),
    (f"{SOLVED}\nx = [0 for _ in '']\n", 13, OWN),
    (f"{SOLVED}\nx = lambda: 0\n", 13, OWN),
    (SOLVED.replace("@cuda.jit", "@cuda.jit(link=print())"), 5, OWN),
    (SOLVED.replace("@cuda.jit", "@cuda.jit\n@print"), 6, OWN),
    (SOLVED.replace("@cuda.jit", "@cuda.jit(1).inspect_types"), 5, OWN),
    (f"import numba\nfrom numba import jit as cuda\n{SOLVED}", 2, OWN),
    (f"import numba as cuda\n{SOLVED}", 1, OWN),
    (SOLVED.replace("(x, out)", "(x, out=print())"), 5, OWN),
    (SOLVED.replace("(x, out)", "(x: print(), out)"), 5, OWN),
    # Kernels.
    (SOLVED.replace("out[i] = 2 * x[i]", "x[i] = 0"), None, "has changed an input"),
    (f"{SOLVED}\n@cuda.jit\ndef double(x, out):\n    out[0] = 0\n", None, "elements are wrong"),  # the last one counts
    (SOLVED.replace("double", "twice"), None, "double, which the text has to define"),
    (SOLVED.replace("2 * x[i]", "2 * x[i + 10_000]"), None, "x"),  # nothing of the reference lies behind the arrays
    (
        SOLVED.replace("out[i] = 2 * x[i]", "out[i] = math.nan").replace("from", "import math\nfrom", 1),
        None,
        "are wrong",
    ),
]


@pytest.mark.parametrize(("source", "line", "words"), CHEATS)
def test_a_solution_cannot_replace_what_judges_it(source, line, words):
    found = solving(EXERCISES[0], source)
    assert words in found.get("error", "") and found["line"] == (line or found["line"]), found


def test_an_encoding_does_not_turn_a_comment_into_code():
    """Python reads a file of this encoding as two lines."""
    found = solving(EXERCISES[0], f"# -*- coding: unicode_escape -*-\n# \\nraise SystemError\n{SOLVED}")
    assert found.get("solved"), found


@pytest.mark.parametrize(
    ("number", "old", "new", "words"),
    [
        # The expected output as a constant: right for the inputs that everybody sees.
        (6, "= value\n", "= KNOWN[cuda.blockIdx.x]\n", "other values"),
        # Counters that are good at the size that everybody sees alone.
        (4, "(32, 32), int32", "(32, 33 if n == 16 else 32), int32", "Reached for what is shown, but not for n"),
        # A launch that fits the size that everybody sees alone.
        (10, "grid, block = n // 16 // 256, 256", "grid, block = 256, 256", "other values"),
    ],
)  # fmt: skip
def test_other_inputs_decide_too(number, old, new, words):
    exercise = EXERCISES[number - 1]
    source = solved(number, exercise.start) if number != 4 else exercise.start
    if number == 6:
        x, _ = exercise.brought(exercise.n)["inputs"](exercise.n, np.random.default_rng(0))
        source = f"KNOWN = {tuple(map(int, x.reshape(-1, 32).sum(1)))}\n{source}"
    assert source.count(old) == 1
    found = solving(exercise, source.replace(old, new))
    assert all(each["reached"] for each in found["goals"]) and not found["solved"], found
    assert words in found["doubt"]


DOCS = (ROOT / "docs" / "lab.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)


def test_the_documentation_has_an_exercise(tmp_path):
    """Its beginning does not solve it, and the two lines that the page names do."""
    file = tmp_path / "mine.toml"
    file.write_text(EXAMPLE)
    (exercise,) = load_exercises(file)
    first = solving(exercise, exercise.start)
    assert [each["reached"] for each in first["goals"]] == [False] and not first["solved"]
    right = exercise.start.replace("i * STEP % x.size + i * STEP // x.size", "i")
    assert right != exercise.start and solving(exercise, right)["solved"]


@pytest.mark.parametrize("language", ["python", "c++"])
def test_the_documentation_has_kernels(language):
    (source,) = re.findall(rf"```{re.escape(language)}\n(.*?)```", DOCS, re.DOTALL)
    found = answers.write(source, "tiny", "python" if language == "python" else "cuda")
    assert found["kernel"] in ("double", "twice") and found["cycles"] > 0


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        ("goals =", "gaols =", "gaols", "gaols"),
        ('kernel = "scale"', "# kernel", "[[exercise]]", "'kernel'"),
        ("n = 4096", 'n = "many"', "n", "n: 'many' is no int"),
        ("others = [1024, 7168]", "others = []", "others", "a size is needed"),
        ("n = 4096", "n = ", None, "line"),
        ("_op_st.ratio", "_op_stt.ratio", "goals", "did you mean"),
        ("most = 4 }", "mots = 4 }", "[[exercise]]", "got an unexpected key: 'mots'"),
        ("most = 4 }", 'most = "4" }', "[[exercise]]", "most: '4' is no Number"),
        ("others = [1024, 7168]", "", "[[exercise]]", "missing key: 'others'"),
        ("def check", "def chekc", "given", "it has to define"),
        ("def inputs(n, chance):", "def inputs(n, chance:", "given", "(given, line 1)"),
        ("STEP = 32", "STEP = print()", "start", "start:3: a solution has imports"),
        ('grid = "n // 256"', 'grid = "m // 256"', "[[exercise]]", "name 'm' is not defined"),
        ("[[exercise]]", "[exercise]", None, "[[exercise]]"),
    ],
)
def test_errors_in_a_file_of_exercises_name_line_and_key(old, new, where, words, tmp_path):
    assert EXAMPLE.count(old) == 1
    file = tmp_path / "mine.toml"
    file.write_text(text := EXAMPLE.replace(old, new))
    with pytest.raises(WorkloadError) as raised:
        load_exercises(file)
    told = str(raised.value)
    assert words in told, told
    if where is not None:
        line = next(k for k, each in enumerate(text.splitlines(), 1) if each.startswith(where))
        assert told.startswith(f"{file}:{line}: "), told


def test_two_exercises_have_two_titles(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(EXAMPLE + EXAMPLE)
    with pytest.raises(WorkloadError, match=rf":{len(EXAMPLE.splitlines()) + 2}: title: another"):
        load_exercises(file)
    with pytest.raises(WorkloadError, match=r"none\.toml"):
        load_exercises(tmp_path / "none.toml")


def machine(*changes, program="vector_add", size=None):
    return answers.answer(("machine", {"gpu": "tiny", "changes": list(changes), "program": program, "size": size}))


def test_a_machine_with_other_parameters():
    same = machine()["is"]
    found = machine(f"sm.count={2 * load_config('tiny').sm.count}")["is"]
    assert found["area_mm2"] > same["area_mm2"] and found["time_us"] < same["time_us"]
    assert found["energy_j"] != same["energy_j"] > 0 and found["held"] == 2 * same["held"]
    assert found["between_us"][0] < found["time_us"] < found["between_us"][1] and "9 of 10" in found["sure"]
    assert machine(size=512)["is"]["blocks"] == 2 and "sm.wings" in machine("sm.wings=2")["error"]


def test_machines_to_begin_with_are_those_of_the_documentation_and_programs_fill_one():
    (quoted,) = re.findall(r"<!-- presets -->\n```\n(.*?)```", (ROOT / "docs" / "exploring.md").read_text(), re.DOTALL)
    shipped, *presets = play.EXPLORED["preset"]
    assert not shipped["changes"] and [f"h200 {each['changes']}" for each in presets] == quoted.splitlines()
    config = load_config("h200")
    for each in play.EXPLORED["program"]:
        launch = find_target(Request(each["name"], size=each["size"]), config).launch
        blocks = int(np.prod(launch.grid)) * int(np.prod(launch.block)) / (config.sm.count * 2048)
        assert ("fills a quarter" in each.get("note", "")) == (blocks < 1), each


def test_steps_are_what_each_lane_does():
    """The lanes of either side of the if, and those that are left in each round of the loop."""
    takes = [lambda lane: lane < 8, lambda lane: lane % 2 == 0, lambda lane: lane == 0, lambda lane: True]
    rounds = [lambda _: 4, lambda lane: lane // 4, lambda lane: lane % 4, lambda lane: 12 if lane == 5 else 1]
    for k, n in ((0, 1), (1, 3), (2, 2), (3, 0)):
        steps = answers.predict("steps", {"condition": k, "rounds": n}, "h100")["steps"]
        mask = {line: [each[1] for each in steps if each[0] == line] for line in range(6)}
        sides = [sum(1 << lane for lane in range(32) if bool(takes[k](lane)) == side) for side in (True, False)]
        assert [*mask[2], *mask[4]] == [each for each in sides if each], (k, n)
        left = [sum(1 << lane for lane in range(32) if rounds[n](lane) > round) for round in range(12)]
        wanted = [each for each in left if each]
        assert mask[5][-len(wanted) :] == wanted and len(mask[5]) - len(wanted) == (left[0] != 2**32 - 1), (k, n)
        assert not mask[0] and not mask[3] and all(count > 0 for *_, count in steps)


def test_what_students_hand_in_becomes_one_table(tmp_path, capsys):
    for name, done, attempts in (("anna", True, 2), ("bela", False, 3)):
        known = {EXERCISES[0].title: {"attempts": attempts, "solved": done}}
        exercises = [
            {"exercise": each.title, "code": ""} | {"attempts": 0, "solved": False} | known.get(each.title, {})
            for each in EXERCISES
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"what": "", "exercises": exercises}))
    assert main(["lab", "--progress", str(tmp_path)]) == 0
    _, anna, bela, *rest = capsys.readouterr().out.splitlines()
    assert anna.split() == ["anna", "2", *"-" * 11, "1"] and bela.split() == ["bela", "(3)", *"-" * 11, "0"]
    assert f" 1  {EXERCISES[0].title}" in rest
    (tmp_path / "class").mkdir()
    (tmp_path / "bela.json").rename(tmp_path / "class/bela.json")
    assert main(["lab", "--progress", str(tmp_path)]) == 0 and "class/bela  (3)" in capsys.readouterr().out
    (tmp_path / "other.json").write_text("[]")
    assert main(["lab", "--progress", str(tmp_path)]) != 0
    assert "other.json is no file that Solve makes" in capsys.readouterr().err
    assert main(["lab", "--progress", str(tmp_path / "none")]) != 0 and "no file *.json" in capsys.readouterr().err


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """(address, lab) of a server of its own."""
    lab = LabServer(tmp_path_factory.mktemp("lab") / "deep" / "lab.json", EXERCISES)
    server = uvicorn.Server(uvicorn.Config(make_app(lab, KEY), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    address = f"http://{HERE}:{server.servers[0].sockets[0].getsockname()[1]}"
    yield address, lab
    server.should_exit = True
    thread.join(20)
    lab.close()


def visit(address, headers=None, data=None, cookies=None):
    """(status, text) of a request."""
    cookies = CookieJar() if cookies is None else cookies
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(cookies))
    try:
        with opener.open(urllib.request.Request(address, data, headers or {}), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_only_this_user_may_connect(lab):
    address, _ = lab
    asked = json.dumps({"experiment": "banks", "place": START["banks"], "gpu": "tiny"}).encode()
    plain = {"Content-Type": "application/json"}
    assert visit(address)[0] == visit(f"{address}/?key=wrong")[0] == 403
    assert visit(f"{address}/ask/predict", plain, asked)[0] == 403
    assert visit(f"{address}/static/lab.css")[0] == visit(f"{address}/report/1")[0] == 404
    assert visit(f"{address}/?key=a%20key%20of%20the%20tests", {"Host": "example.org"})[0] == 400
    known = CookieJar()
    status, page = visit(f"{address}/?key=a%20key%20of%20the%20tests", cookies=known)
    assert status == 200 and "gpusim lab" in page and [each.name for each in known] == ["gpusim-lab"]
    assert visit(f"{address}/ask/predict", {"Content-Type": "text/plain"}, asked, known)[0] == 403
    assert visit(f"{address}/ask/predict", plain, b"{}", known)[0] == 400
    assert visit(f"{address}/ask/nothing", plain, b"{}", known)[0] == 400
    assert visit(f"{address}/static/../server.py", cookies=known)[0] == 404
    status, answer = visit(f"{address}/ask/predict", plain, asked, known)
    assert status == 200 and json.loads(answer)["cycles"] > 0


def test_what_was_solved_stays_solved(tmp_path):
    lab = LabServer(tmp_path / "lab.json", EXERCISES)
    lab.note("Full warps", "first", False)
    assert lab.note("Full warps", "second", True) == {"attempts": 2, "solved": True, "source": "second"}
    lab.note("Full warps", "then", False)
    known = {"Full warps": {"attempts": 3, "solved": True, "source": "second"}}
    assert LabServer(tmp_path / "lab.json", EXERCISES).progress() == known
    (tmp_path / "lab.json").write_text("nonsense")
    assert lab.progress() == {}
    lab.close()


def test_what_is_written_cannot_change_what_judges(lab):
    """Write executes any Python, in another process than Solve."""
    meddling = "from gpusim.lab import answers, exercises\nexercises.Exercise.run = answers.solve = None\n"
    assert "error" in lab[1].respond("write", {"source": meddling, "gpu": "tiny"})
    found = lab[1].respond("solve", {"number": 4, "source": EXERCISES[3].start})
    assert [each["reached"] for each in found["goals"]] == [False] and found["progress"]["attempts"] == 1


@pytest.fixture(scope="module")
def opened(browser, lab):  # noqa: F811
    """The browser with the page, which all tests use: each enters its own room."""
    browser.get(f"{lab[0]}/?key={KEY.replace(' ', '%20')}")
    browser.get_log("browser")
    return browser


@pytest.fixture
def page(opened):
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    opened.execute_script("window.scrollTo(0, 0)")  # from under the head, which stays in its place
    yield opened
    assert opened.get_log("browser") == []


def settle(page, condition, seconds=90):
    """Wait until an expression of the page is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(page, seconds, 0.1).until(lambda it: it.execute_script(f"return Boolean({condition})"))


def move(page, slider, value):
    page.execute_script(
        "const s = document.querySelector(`[data-slider=${arguments[0]}]`); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input'))",
        slider,
        value,
    )


def ready(page, name):
    settle(page, f"document.querySelector('[data-experiment={name}]')?.dataset.state === 'ready'")


def room(page, name):
    find(page, f"[data-room={name}]").click()
    settle(page, f"document.documentElement.dataset.room === '{name}'")


def choose(page, gpu):
    page.execute_script(
        "const s = document.querySelector('#machine select'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('change'))",
        gpu,
    )


def test_play(page):
    ready(page, "banks")  # it opens on the worst conflict there is
    assert texts(page, "dt")[-2:] == ["Predicted cycles, h100", "Measured cycles, h100"]
    assert find(page, "[data-fact='Wavefronts of a warp\\'s load'] dd").text == "32"
    predicted = float(find(page, "[data-fact^='Predicted'] dd").text)
    assert predicted == pytest.approx(float(find(page, "[data-fact^='Measured'] dd").text), rel=0.05)
    assert find(page, "[data-fact='Counted wavefronts a load'] dd").text == "32.0"
    assert "tile[i / 32][i % 32]" in find(page, ".code .here").text
    choose(page, "tiny")  # a recording stands beside no other GPU's prediction
    ready(page, "banks")
    assert [*texts(page, "dt")[-2:], texts(page, "dd")[-1]] == ["Predicted cycles, tiny", "Measured cycles", "none"]
    choose(page, "h100")
    move(page, "pad", 1)
    ready(page, "banks")
    assert find(page, ".verdict").text == "No bank conflict." and len(texts(page, "rect.good")) == 32
    for name, fact, value in (
        ("sectors", "Sectors of a warp's load", "32"),
        ("steps", "Instructions issued", "57"),
        ("ways", "Ways that warp 0 goes", "4"),
        ("pixels", "Sectors of warp 0's load", "8"),
    ):
        find(page, f"[data-name={name}]").click()
        ready(page, name)
        assert find(page, f'[data-experiment={name}] [data-fact="{fact}"] dd').text == value
        assert drawn(page) <= drawn(page, ".legend"), name
    move(page, "x", 10)  # 1,024 threads along x leave one row
    assert settle(page, "document.querySelector('#pixels-y').value === '0'")
    ready(page, "pixels")


def drawn(page, where=".picture > :not(.legend)"):
    """The colours of a picture, or of its legend, but for those of what belongs to no lane."""
    return set(page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].flatMap((it) => [...it.querySelectorAll('rect,circle,i')]"
        ").map((it) => getComputedStyle(it)).map((it) => it.fill === 'rgb(0, 0, 0)' ? it.backgroundColor : it.fill)",
        where,
    ))  # fmt: skip


def test_steps_lane_by_lane(page):
    """Rows of lanes as the simulator executed them, beside their line; a slider changes them, a link restores them."""
    room(page, "play")
    find(page, "[data-name=steps]").click()
    ready(page, "steps")
    rows = "return [...document.querySelectorAll('[data-line] .step')].map((it) => [Number(it.dataset.mask),"
    rows += "it.querySelectorAll('.good').length, it.querySelectorAll('.idle').length])"
    seen = page.execute_script(rows)
    assert all(mask.bit_count() == on and on + off == 32 for mask, on, off in seen)
    assert [on for _, on, _ in seen] == [32, 8, 24, 32, 28, 24, 20, 16, 12, 8, 4]
    assert texts(page, "[data-line] code")[:3] == ["if (lane < 8)", "x = x + 1.0f;", "x = 0.5f * x;"]
    move(page, "condition", 3)
    ready(page, "steps")
    assert [on for _, on, _ in page.execute_script(rows)][:2] == [32, 32]
    assert "not executed" in find(page, ".verdict").text
    assert page.current_url.endswith("#play/steps?condition=3&rounds=1&gpu=h100")
    move(page, "condition", 0)


def test_a_phone_keeps_the_numbers_in_sight(page):
    """While any slider is dragged, what it changes is on the screen: the numbers above it, the picture below."""
    room(page, "play")
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    for name in ("banks", "sectors", "steps", "ways", "pixels"):
        find(page, f"[data-name={name}]").click()
        ready(page, name)
        seen = page.execute_script(
            "document.querySelector('.sliders').scrollIntoView({block: 'center'});"
            "const box = (what) => document.querySelector(what).getBoundingClientRect();"
            "const [facts, sliders, picture] = ['.facts', '.sliders', '.picture'].map(box);"
            "return [facts.top >= 0, facts.bottom <= sliders.top + 1, sliders.bottom < innerHeight - 100,"
            "picture.top < innerHeight - 60, document.documentElement.scrollWidth <= 390,"
            "[...document.querySelectorAll('.experiment *')].every((it) => it.getBoundingClientRect().right <= 391)]"
        )
        assert all(seen), (name, seen)
        page.execute_script("scrollTo(0, 0)")


def test_a_link_shows_what_its_sender_saw(page, lab):
    room(page, "play")
    find(page, "[data-name=banks]").click()
    move(page, "pad", 3)
    ready(page, "banks")
    seen = page.current_url
    assert seen.endswith("#play/banks?width=4&stride=32&pad=3&offset=0&warps=8&gpu=h100")
    page.get("about:blank")
    page.get(seen.replace("stride=32", "stride=6").replace("warps=8", "warps=7").replace("gpu=h100", "gpu=tiny"))
    ready(page, "banks")
    assert [find(page, f"[data-slider={name}] ").get_attribute("value") for name in ("stride", "pad")] == ["6", "3"]
    assert page.current_url.endswith("stride=6&pad=3&offset=0&warps=8&gpu=tiny")  # seven warps is no place
    assert page.execute_script("return document.querySelector('#machine select').value") == "tiny"
    page.execute_script("location.hash = '#play/sectors?stride=2'")
    ready(page, "sectors")
    assert find(page, "[data-slider=stride]").get_attribute("value") == "2"
    page.execute_script("location.hash = '#play/nothing?stride=2'")
    settle(page, "location.hash.startsWith('#play/sectors?')")
    room(page, "teach")
    page.back()
    settle(page, "document.documentElement.dataset.room === 'play'")
    choose(page, "h100")


def wrote(page, old, new):
    page.execute_script(
        "const t = document.querySelector('textarea'); t.value = t.value.replace(arguments[0], arguments[1]);"
        "t.dispatchEvent(new Event('input'))", old, new,
    )  # fmt: skip
    return page.execute_script("return document.querySelector('textarea').value")


def written(page):
    return page.execute_script("return document.querySelector('textarea').value")


def test_drafts_stay_however_the_page_is_left(page, lab):
    room(page, "solve")
    find(page, "[data-exercise='2']").click()
    exercise = wrote(page, "def copy", "def copy_it")
    find(page, "[data-exercise='3']").click()
    assert "def both" in written(page)
    room(page, "write")
    first = wrote(page, "import", "# mine\nimport")
    assert first.startswith("# mine")
    choose = (
        "const s = document.querySelector('.bar select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    )
    page.execute_script(choose, 1)
    second = wrote(page, "import", "# second\nimport")
    assert second.startswith("# second") and second[9:] != first[7:]
    room(page, "play")
    room(page, "write")
    assert written(page) == second
    page.refresh()
    settle(page, "document.querySelector('textarea')")
    assert written(page) == second, "the choice stays, too"
    page.execute_script(choose, 0)
    assert written(page) == first
    page.get("about:blank")
    page.back()
    settle(page, "document.querySelector('textarea')")
    assert written(page) == first
    mine = page.current_window_handle
    page.switch_to.new_window("tab")
    page.get(f"{lab[0]}/#solve")
    settle(page, "document.querySelector('[data-exercise]')")
    find(page, "[data-exercise='2']").click()
    assert written(page) == exercise
    find(page, ".tasks .bar + .desk").is_displayed()
    page.execute_script(
        "[...document.querySelectorAll('button')].find((b) => b.textContent === 'From the beginning').click()"
    )
    assert written(page) == EXERCISES[1].start
    page.close()
    page.switch_to.window(mine)
    page.execute_script("localStorage.clear()")
    page.refresh()
    settle(page, "document.querySelector('textarea')")
    assert not written(page).startswith("# mine")


def test_write(page):
    room(page, "write")
    find(page, "[data-run]").click()
    settle(page, "document.querySelector('.outcome')")
    assert re.search(r"cycles, [\d.]+ µs\. ", find(page, ".verdict").text)
    assert re.search(r"energy [\d.]+ [mµ]J", find(page, ".outcome table").text)
    assert "the first three sums: [1. 2. 3.]" in find(page, ".printed").text
    assert texts(page, ".gutter .share")
    faded = "return [...document.querySelectorAll('.desk .band')].filter((e) => getComputedStyle(e).opacity !== '1')"
    assert find(page, ".desk .band") and not page.execute_script(faded)
    wrote(page, "b[i]", "c[i]")
    find(page, "[data-run]").click()
    settle(page, "document.querySelector('[role=alert]')")
    assert find(page, ".gutter .wrong").text == "9" and find(page, ".paint .wrong").text.strip().endswith("c[i]")
    assert find(page, "[role=alert]").text == "line 9: 'c' is not defined"
    find(page, "[role=alert] button").click()
    assert (
        page.execute_script("const t = document.activeElement; return t.value.slice(t.selectionStart).trim()")[:6]
        == "out[i]"
    )
    begin_with(page, "Add two arrays")


def begin_with(page, title):
    """Opens a text to begin with as it was at first."""
    page.execute_script(
        "const s = document.querySelector('.bar select');"
        "s.value = [...s.options].findIndex((each) => each.textContent === arguments[0]);"
        "s.dispatchEvent(new Event('change'))", title,
    )  # fmt: skip
    page.execute_script(AGAIN)


AGAIN = "[...document.querySelectorAll('.bar button')].find((b) => b.textContent === 'From the beginning').click()"
MARKED = "return [...document.querySelectorAll('.paint .marked')].map((each) => each.textContent.trim())"
"""The lines of the text that are marked."""


def test_machine_code_stands_beside_its_lines(page, lab):
    """The figures are the report's; pointing at one side marks the other, by keys, mouse and cursor."""
    from selenium.webdriver import ActionChains

    room(page, "write")
    begin_with(page, "Add two arrays, in CUDA C++")
    find(page, "[data-run]").click()
    settle(page, "document.querySelector('.outcome')")
    rows = page.execute_script(
        "return [...document.querySelectorAll('.machine > div')].map((each) => [each.dataset.line ?? null,"
        "parseFloat(each.querySelector('.took').textContent) || 0, each.querySelector('code').textContent,"
        "each.className.match(/band-\\d/)?.[0] ?? null])"
    )
    lines = {int(line) for line, *_ in rows if line}
    assert len(rows) > 15 and {4, 6, 7} <= lines <= {4, 5, 6, 7, 8}
    bands = {line: band for line, _, _, band in rows if line}
    assert len(set(bands.values())) == len(bands) and all((band is None) == (line is None) for line, _, _, band in rows)
    painted = page.execute_script("return document.querySelectorAll('.paint .row')[6].className")
    assert bands["7"] in painted
    costs = lab[1].last["source_lines"]  # as the report has them
    cycles = sum(row["cycles"] for row in costs if row["line"] == 7) / sum(row["cycles"] for row in costs)
    assert f"{100 * cycles:.0f} %" in texts(page, ".gutter .share")
    assert sum(share for line, share, *_ in rows if line == "7") == pytest.approx(100 * cycles, abs=1)
    # By keys: from instruction to line, and by Enter into the text.
    page.execute_script("document.querySelector('.machine').focus()")
    keys = ActionChains(page)
    keys.send_keys("\ue010").perform()  # End
    assert find(page, "[aria-selected=true]").get_attribute("id") == f"instruction-{len(rows) - 1}"
    keys.send_keys("\ue011").perform()  # Home
    first = page.execute_script(MARKED)
    assert len(first) == 1 and first[0].startswith("__global__ void add")
    keys.send_keys("\ue007").perform()  # Enter
    assert page.execute_script("return document.activeElement.tagName") == "TEXTAREA"
    # By the cursor: from line to instructions.
    page.execute_script(
        "const t = document.querySelector('textarea'); const at = t.value.indexOf('out[i] =');"
        "t.setSelectionRange(at, at)"
    )
    settle(page, "document.querySelector('.machine .marked')?.dataset.line === '7'")
    assert set(
        page.execute_script(
            "return [...document.querySelectorAll('.machine .marked')].map((each) => each.dataset.line)"
        )
    ) == {"7"}
    assert (
        find(page, ".told").text.startswith("Line 7: ") and "% of the warps' time out[i] =" in find(page, ".told").text
    )
    # By the mouse, and a text that has changed since keeps its marks where its lines are.
    wrote(page, "__global__", "// a line more\n__global__")
    other = next(k for k, (line, *_) in enumerate(rows) if line == "6")
    ActionChains(page).move_to_element(page.find_elements("css selector", ".machine > div")[other]).perform()
    assert page.execute_script(MARKED) == ["if (i < n)"]
    assert bands["7"] in page.execute_script("return document.querySelectorAll('.paint .row')[7].className")
    page.execute_script(AGAIN)


def typed(page, text, *keys):
    """The text that an editor holds after keys, with the cursor at | before; one | more marks the selection's end."""
    from selenium.webdriver import ActionChains

    page.execute_script(
        "const t = document.querySelector('textarea'); const [a, b, c] = arguments[0].split('|');"
        "t.value = a + b + (c ?? ''); t.focus();"
        "t.setSelectionRange(a.length, a.length + (c === undefined ? 0 : b.length));"
        "t.dispatchEvent(new Event('input'))", text,
    )  # fmt: skip
    for key in keys:
        chain = ActionChains(page)
        (
            chain.key_down("\ue008").send_keys("\ue004").key_up("\ue008") if key == "untab" else chain.send_keys(key)
        ).perform()
    return written(page)


TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"


def test_the_editor_indents_and_colours(page):
    room(page, "write")
    begin_with(page, "Add two arrays")
    assert typed(page, "a|b", TAB) == "a   b"
    assert typed(page, "if x:\n|a\nb|\nc", TAB) == "if x:\n    a\n    b\nc"
    assert typed(page, "|    a\n  b|\n    c", "untab") == "a\nb\n    c"
    assert typed(page, "    a = 1|", ENTER, "b") == "    a = 1\n    b"
    assert typed(page, "    if a:  # so|", ENTER, "b") == "    if a:  # so\n        b"
    assert typed(page, "a|", TAB, ESCAPE) == "a   "
    page.execute_script("document.execCommand('undo')")
    assert written(page) == "a", "what Tab has done can be undone"
    typed(page, "a|", ESCAPE, TAB)
    assert written(page) == "a" and page.execute_script("return document.activeElement.tagName") != "TEXTAREA"
    described = find(page, "textarea").get_attribute("aria-describedby")
    assert "Escape, then Tab, leaves the editor" in find(page, f"#{described}").text
    typed(page, 'x = """a\nb""" + 0x1f  # not "this"\n@cuda.jit\ndef f(n):\n    return np.sin(n)|')
    kinds = {
        kind: texts(page, f".paint .{kind}") for kind in ("string", "number", "comment", "special", "keyword", "call")
    }
    assert kinds == {"string": ['"""a', 'b"""'], "number": ["0x1f"], "comment": ['# not "this"'],
                     "special": ["@cuda.jit"],
                     "keyword": ["def", "return"], "call": ["f", "sin"]}  # fmt: skip
    assert page.execute_script("return document.querySelector('.paint').textContent") == written(page) + "\n"
    begin_with(page, "Add two arrays, in CUDA C++")
    typed(page, "/* a\nb */ __global__ void k(int n) { // c|")
    assert texts(page, ".paint .comment") == ["/* a", "b */", "// c"] and texts(page, ".paint .special") == [
        "__global__"
    ]
    assert typed(page, "  if (a) {|", ENTER, "b") == "  if (a) {\n    b"
    boxes = page.execute_script(
        "const [a, b] = [document.querySelector('.paint'), document.querySelector('textarea')].map((each) =>"
        "[each.getBoundingClientRect().left, getComputedStyle(each).font, getComputedStyle(each).paddingLeft].join());"
        "return a === b"
    )
    assert boxes, "the colours lie where the letters are"
    page.execute_script(AGAIN)
    begin_with(page, "Add two arrays")


DROP = """
const [name, text, to] = arguments;
const data = new DataTransfer();
data.items.add(new File([text], name));
const event = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: data });
document.querySelector(to).dispatchEvent(event);
"""
KERNEL_FILE = (
    "__global__ void scale(const float *x, double *out, int n) {\n  out[threadIdx.x] = 2 * x[threadIdx.x];\n}\n"
)


def test_a_file_is_taken_and_nothing_is_lost(page, tmp_path):
    room(page, "write")
    begin_with(page, "Add two arrays")
    draft = wrote(page, "import", "# a draft\nimport")
    page.execute_script(DROP, "mine.cu", KERNEL_FILE, ".editor")
    settle(page, "document.querySelector('textarea').value.includes('scale')")
    guess = '// gpusim run --grid 4 --block 256 --args "float32[1024]=random, float64[1024], int32(1024)"\n'
    assert written(page).startswith(KERNEL_FILE) and written(page).endswith(guess)
    assert texts(page, ".paint .special")[0] == "__global__" and "CUDA C++" in find(page, ".said").text
    find(page, "[data-run]").click()
    settle(page, "document.querySelector('.outcome')")
    assert "float64" in find(page, ".doubles").text
    changed = wrote(page, "2 * x", "3 * x")
    page.execute_script(DROP, "mine.cu", KERNEL_FILE, ".editor")  # the same once more
    settle(page, "document.querySelector('textarea').value.includes('2 * x')")
    names = texts(page, ".bar option")
    assert names[-2:] == ["mine.cu", "mine.cu (2)"]
    page.execute_script(
        "const s = document.querySelector('.bar select'); s.value = s.options.length - 2;"
        "s.dispatchEvent(new Event('change'))"
    )
    assert written(page) == changed
    page.refresh()
    settle(page, "document.querySelector('textarea')")
    assert written(page) == changed, "files stay when the page is left"
    page.execute_script(DROP, "notes.txt", "nothing", ".editor")
    settle(
        page,
        "document.querySelector('[role=alert]')?.textContent === \"notes.txt: a kernel's file ends in .py or .cu\"",
    )
    for _ in range(2):
        find(page, "[data-remove]").click()
        page.execute_script("const s = document.querySelector('.bar select'); s.value = s.options.length - 1;"
                            "s.dispatchEvent(new Event('change'))")  # fmt: skip
    assert not any("mine" in name for name in texts(page, ".bar option"))
    page.execute_script(
        "const s = document.querySelector('.bar select'); s.value = 0; s.dispatchEvent(new Event('change'))"
    )
    assert written(page) == draft
    (file := tmp_path / "own.py").write_text(RIGHT)
    find(page, "[data-file]").send_keys(str(file))  # as a phone does it
    settle(page, "document.querySelector('textarea').value.includes('def double')")
    find(page, "[data-remove]").click()
    begin_with(page, "Add two arrays")
    room(page, "solve")
    before = written(page)
    page.execute_script(DROP, "own.py", SOLVED, ".tasks .editor")
    settle(page, "document.querySelector('[data-back]')")
    assert written(page) == SOLVED
    find(page, "[data-back]").click()
    assert written(page) == before


def test_the_text_and_its_code_stand_one_below_the_other_on_a_phone(page):
    room(page, "write")
    begin_with(page, "Add two arrays")
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    find(page, "[data-run]").click()
    settle(page, "document.querySelector('.outcome')")
    top, bottom = page.execute_script(
        "return ['.editor', '.machine'].map((each) => document.querySelector(each).getBoundingClientRect())"
    )
    assert top["bottom"] <= bottom["top"] and top["left"] == bottom["left"] and top["width"] == bottom["width"] > 350
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    assert bottom["bottom"] - top["top"] < 844, "both fit on the screen"
    page.execute_script("document.querySelectorAll('.machine > div')[12].click()")
    assert page.execute_script(MARKED) == ["out[i] = a[i] + b[i]"] and "Line 9: " in find(page, ".told").text


def test_solve(page, lab):
    room(page, "solve")
    find(page, "[data-exercise='4']").click()
    assert "32 x 32" in find(page, ".tasks .about").text and "def check" not in find(page, ".tasks .about").text
    find(page, ".tasks details summary").click()
    assert "def check" in find(page, ".tasks .given").text
    find(page, ".hint").click()
    page.execute_script(
        "const t = document.querySelector('.tasks textarea'); t.value = arguments[0]; "
        "t.dispatchEvent(new Event('input'))",
        solved(4, EXERCISES[3].start),
    )
    find(page, ".tasks [data-run]").click()
    settle(page, "document.querySelector('.goals .reached')")
    settle(page, "document.querySelector('[data-exercise=\"4\"].solved')")
    assert lab[1].progress()["One wavefront a load"]["solved"]
    given = page.execute_async_script(
        "const done = arguments[0]; const say = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then(done); return say(blob); };"
        "document.querySelector('[data-hand-in]').click(); URL.createObjectURL = say"
    )
    handed = json.loads(given)
    assert [each["exercise"] for each in handed["exercises"]] == [each.title for each in EXERCISES]
    code = solved(4, EXERCISES[3].start)
    assert (
        handed["exercises"][3]["solved"]
        and handed["exercises"][3]["attempts"]
        and handed["exercises"][3]["code"] == code
    )
    assert handed["exercises"][5] == {"exercise": EXERCISES[5].title, "attempts": 0, "solved": False, "code": ""}
    assert "no proof of who wrote the code" in handed["note"]


def test_watch_two_in_step(page):
    room(page, "watch")  # it shows two at once
    settle(page, "document.querySelectorAll('iframe').length === 2 && !document.querySelector('[data-watch]').disabled")
    assert "bank_conflict/32: " in texts(page, ".frames h3")[0] and "32 lanes meet" in texts(page, ".frames .note")[0]
    page.execute_script(
        "const [a, b] = document.querySelectorAll('.bar select');"
        "a.value = 'bank_conflict/2'; b.value = 'bank_conflict/32'"
    )
    find(page, "[data-watch]").click()
    settle(page, "document.querySelector('.frames h3').textContent.startsWith('bank_conflict/2:')")
    assert page.current_url.endswith("#watch?program=bank_conflict%2F2&beside=bank_conflict%2F32&gpu=h200")
    inner = "document.querySelectorAll('iframe')[{}]?.contentDocument?.querySelector('.stepper')"
    settle(page, f"{inner.format(0)} && {inner.format(1)}")
    settle(page, "!document.querySelector('[data-watch]').disabled")
    page.execute_script(
        f"const s = {inner.format(0)}.querySelector('#step'); s.value = 9; s.dispatchEvent(new Event('input'))"
    )
    assert settle(page, f"{inner.format(1)}.dataset.step === '9'")


def test_explore(page):
    room(page, "explore")
    page.execute_script("location.hash = '#explore?program=vector_add:65536&set=sm.max_warps%3D32&gpu=tiny'")
    settle(page, "document.querySelector('[data-fact=Time] small')?.textContent.endsWith('%')")
    assert find(page, "[data-key='sm.max_warps']").get_attribute("value") == "1"
    assert re.match(r"The launch fills the GPU [\d.]+ times: 256 blocks, of which", find(page, "[data-filling]").text)
    assert "9 of 10 kernels of its kind" in find(page, "[data-interval]").text and "overlap" in find(page, ".seen").text
    (before,), (energy,) = (texts(page, f"[data-fact={name}] dd") for name in ("Time", "Energy"))
    assert re.fullmatch(r"[\d.]+ [mµ]J", energy)
    page.execute_script(
        "const s = document.querySelector('[data-key=\"sm.count\"]'); s.value = 6;"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'))"
    )
    settle(page, f"document.querySelector('[data-fact=Time] dd').textContent !== '{before}'")
    find(page, "[data-sweep]").click()
    settle(page, "document.querySelector('.curve')")
    assert len(texts(page, "tbody tr")) == 7
    times, between, joules = (texts(page, f"tbody td:nth-child({column})") for column in (2, 3, 4))
    assert [text[-1:] for text in joules] == ["J" if time else "" for time in times] and any(times)
    assert all(f" {TO} " in text for text in between if text) and find(page, ".band")
    find(page, "[data-preset='HBM4']").click()  # a machine of an H200
    settle(page, "/DRAM|dram/.test(document.querySelector('.sliders .note').textContent)")
    assert "gpu=h200" in page.current_url and "dram.kind%3DHBM4" in page.current_url
    settle(page, "document.querySelector('[data-filling]')")
    assert find(page, "[data-filling]").text.startswith("The launch fills 24 % of the GPU: 256 blocks, of which")
    assert "More SMs or bandwidth are worth little" in find(page, "[data-filling]").text


def test_every_slide_is_complete(page):
    """A picture, a question, an answer and notes that are folded at first, and exercises that there are."""
    room(page, "teach")
    settle(page, "[...document.querySelectorAll('.slide')].every((it) => it.querySelector("
                 "'[data-state=ready] .picture > *, .bars[data-state=ready]'))")  # fmt: skip
    slides = page.execute_script(
        "return [...document.querySelectorAll('.slide')].map((it) => [it.querySelector('.question').textContent.length,"
        "it.querySelector('.answer:not([open]) p').textContent.length, it.querySelector('.teacher:not([open]) p')"
        ".textContent.length, it.querySelectorAll('.step, rect, .barline').length, /exercise/.test(it.textContent)])"
    )
    assert len(slides) == 7 and all(min(each[:4]) > 0 and each[4] for each in slides), slides
    find(page, "[data-unfold]").click()
    settle(page, "document.querySelectorAll('.slide .answer .barline').length === 4 + 2 * 2")
    first, *others = texts(page, "[aria-label=Sums] .answer .barline b")
    assert all(float(one[:-3]) > float(other[:-3]) for one, other in zip([first, *others], others, strict=False))
    find(page, "[data-unfold]").click()


def test_rooms_fit_a_phone_and_the_dark(page):
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        for name in ("play", "write", "watch", "solve", "explore", "teach"):
            room(page, name)
            assert page.execute_script("return document.documentElement.scrollWidth") <= 390, name
        assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_stop_ends_what_never_ends(page):
    room(page, "write")
    page.execute_script(
        "const t = document.querySelector('textarea'); t.value = 'while True: pass'; t.dispatchEvent(new "
        "Event('input'))"
    )
    find(page, "[data-run]").click()
    settle(page, "!document.querySelector('[data-run] + button').disabled")
    page.execute_script("setTimeout(() => document.querySelector('[data-run] + button').click(), 1500)")
    settle(page, "document.querySelector('[role=alert]')?.textContent === 'stopped: the run was ended'")


@pytest.fixture(scope="module")
def alone(browser, tmp_path_factory):  # noqa: F811
    """The page of the experiments that needs no server."""
    (page := tmp_path_factory.mktemp("play") / "play.html").write_text(play_page(), "utf-8")
    browser.get(page.as_uri())
    settle(browser, "document.querySelector('.experiment')?.dataset.state === 'ready'")
    return browser


def test_play_without_a_server(alone):
    """The rules of the page are the engine's, for a thousand accesses; the recorded figures are there."""
    measured = play.measured("banks")[tuple(START["banks"].values())] / play.EXPERIMENTS["banks"].rounds
    assert find(alone, "[data-fact^='Measured'] dd").text == f"{measured:.1f}" and "stride=32" in alone.current_url
    chance = np.random.default_rng(3)
    cases = [_access(chance) for _ in range(1000)]
    found = alone.execute_async_script(
        "const [cases, done] = arguments; import('gpusim/rules').then((rules) => done(cases.map(([size, at]) => {"
        "const wide = rules.globalAccess(at, size); return [rules.sharedLoad(at, size).wavefronts, "
        "wide.sectors, wide.requests]; })))",
        cases,
    )
    for (size, addresses), mine in zip(cases, found, strict=True):
        lanes = np.array([each if each is not None else 0 for each in addresses], np.int64)
        mask = sum(1 << lane for lane, each in enumerate(addresses) if each is not None)
        scratch = np.zeros((160, 2), np.int64)
        wavefronts = coalescer.shared_wavefronts(lanes, scratch, mask, size, 32, 2, True)[2]
        sectors = {(each + k) // 32 for each in addresses if each is not None for k in range(size)}
        assert mine == [wavefronts, len(sectors), len({each // 4 for each in sectors})], (size, addresses)
    alone.execute_script("location.hash = '#play/steps?condition=2&rounds=3'")
    settle(alone, "document.querySelector('[data-experiment=steps]')?.dataset.state === 'ready'")
    (cycles,) = texts(alone, "[data-fact='Predicted cycles, h100'] dd")
    assert cycles == str(answers.predict("steps", {"condition": 2, "rounds": 3}, "h100")["cycles"])
    assert len(texts(alone, "[data-line='5'] .step")) == 12
    assert alone.get_log("browser") == [] and len(play_page()) < 400_000


def test_divergence_of_the_page_is_the_engines(alone):
    """What the loops of all warps issue, and with how many lanes, for every pattern."""
    places = [START["ways"] | {"pattern": k, "ways": n, "more": m, "warps": 4, "work": 4}
              for k in range(4) for n, m in ((2, 0), (4, 16), (32, 1))]  # fmt: skip
    found = alone.execute_async_script(
        "const [places, done] = arguments; import('gpusim/rules').then((rules) => done(places.map((place) =>"
        "[0, 1, 2, 3].map((warp) => rules.divergenceCost(place, warp)))))",
        places,
    )
    program = load(play.CUBIN, "ways", abi="c")
    for place, warps in zip(places, found, strict=True):
        launch = play.launch_of("ways", place)
        args = [np.int32(each) if isinstance(each, int) else np.zeros(each[1], each[0]) for each in launch.arguments]
        result = simulate(program, launch.grid, launch.block, args, "h100")
        rounds = [each for each in result.instructions if each.text.startswith("FFMA")]
        issued, threads = (
            sum(getattr(each, name) for each in rounds) for name in ("instructions", "thread_instructions")
        )
        assert issued == 2 * sum(each["issued"] for each in warps), place
        assert threads == pytest.approx(2 * sum(each["issued"] * each["lanes"] for each in warps)), place


def _access(chance):
    """(bytes, addresses of 32 lanes) as programs have them: steps, broadcasts, some lanes without a part, chance."""
    size = int(chance.choice([1, 2, 4, 8, 16]))
    lanes = np.arange(32)
    at = [
        lanes * chance.integers(0, 40),
        lanes // chance.integers(1, 9) * chance.integers(1, 9),
        (lanes ^ chance.integers(0, 32)) * chance.integers(1, 4),
        chance.integers(0, 256, 32),
    ][chance.integers(0, 4)]
    off = chance.random(32) < chance.choice([0, 0, 0.3])
    off[chance.integers(0, 32)] = False
    return size, [None if gone else int(each * size) for each, gone in zip(at, off, strict=True)]
