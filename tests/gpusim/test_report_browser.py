"""The HTML report in a real browser: headless Chromium, driven by its own driver. Skipped where there is none."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import gpusim
from gpusim.engine.state import layout as L
from gpusim.report_html import render_document, write
from gpusim.report_html.index import IndexRow, put_above, render_index
from gpusim.result import Result
from gpusim.results.stalls import STALL_COLOURS
from gpusim.units import joule_text
from tests.gpusim import bundled
from tests.gpusim.hand_trace import STEPS, make_trace
from tests.gpusim.records import BRA, FADD, FILE, LDS, STG, STS, make_program, make_record
from tests.gpusim.test_report_html import LINE

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
TO = "\N{EN DASH}"
OF_WARP_0 = [row for row in STEPS if row[0] == 0]
DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not binary or not driver:
        pytest.skip("no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chrome
    chrome.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page of a hand-made result, as a file address."""
    record = make_record(line=LINE)
    result = Result(replace(record, trace=make_trace(record)))
    return result.report_html(tmp_path_factory.mktemp("page") / "report.html").as_uri()


@pytest.fixture
def page(browser, address):
    """The page, at the first step of its first warp; afterwards the console must be empty."""
    if browser.current_url.partition("#")[0] != address:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
        browser.get(address)
        assert browser.execute_script("return document.documentElement.dataset.ready") == "true"
    put(browser, "warp", 0)
    browser.execute_script("window.scrollTo(0, 0)")
    yield browser
    assert browser.get_log("browser") == []


def find(page, selector):
    return page.find_element("css selector", selector)


def texts(page, selector):
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((it) => (it.innerText ?? it.textContent).trim())",
        selector,
    )


def data(page, selector, name):
    """An attribute of all elements that a selector finds."""
    return page.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.dataset[arguments[1]])", selector, name
    )


def press(page, *keys):
    """Keys to whatever has the focus."""
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*keys).perform()


def put(page, name, value):
    """Give a control a value, as a user does."""
    page.execute_script(
        "const it = document.getElementById(arguments[0]); it.value = arguments[1];"
        "it.dispatchEvent(new Event('input')); it.dispatchEvent(new Event('change'));",
        name,
        value,
    )


def stepper_state(page):
    shown = page.execute_script("return { ...document.querySelector('.stepper').dataset }")
    return {name: int(shown[name]) for name in ("step", "pc", "active", "executed")}


def expected(step):
    row = OF_WARP_0[step]
    return {"step": step, "pc": row[2], "active": row[3], "executed": row[4]}


def focus_stepper(page):
    page.execute_script("document.querySelector('.stepper').focus()")


def test_numbers_are_the_metrics(page):
    result = Result(make_record(line=LINE))
    for name, text in (
        ("gpc__cycles_elapsed.max", f"{result.cycles:,} cycles"),
        ("derived__memory_l1_wavefronts_shared_excessive", "2,112"),
        ("launch__registers_per_thread", f"{result.metrics['launch__registers_per_thread']}"),
    ):
        assert find(page, f'[data-metric="{name}"] dd').text == text


def test_arrow_keys_step_through_the_trace(page):
    from selenium.webdriver.common.keys import Keys

    focus_stepper(page)
    assert stepper_state(page) == expected(0)
    for step in range(1, len(OF_WARP_0)):
        press(page, Keys.ARROW_RIGHT)
        assert stepper_state(page) == expected(step)
    press(page, Keys.ARROW_RIGHT)  # the end is the end
    assert stepper_state(page) == expected(len(OF_WARP_0) - 1)
    press(page, Keys.ARROW_LEFT)
    assert stepper_state(page) == expected(len(OF_WARP_0) - 2)
    press(page, Keys.HOME)
    assert stepper_state(page) == expected(0)
    press(page, Keys.END)
    assert stepper_state(page) == expected(len(OF_WARP_0) - 1)
    find(page, ".stepper button.back").click()
    assert stepper_state(page) == expected(len(OF_WARP_0) - 2)
    put(page, "warp", 1)
    assert find(page, ".stepper").get_attribute("data-warp") == "1"
    assert stepper_state(page)["pc"] == next(row[2] for row in STEPS if row[0] == 1)


def test_space_plays_until_the_end_and_pauses(page):
    from selenium.webdriver.support.ui import WebDriverWait

    put(page, "speed", 60)
    focus_stepper(page)
    press(page, " ")
    last = len(OF_WARP_0) - 1
    WebDriverWait(page, 10).until(lambda it: stepper_state(it)["step"] == last)
    WebDriverWait(page, 10).until(lambda it: "Play" in find(it, ".stepper button.play").text)


def go_to(page, pc):
    """Step to the first issue of an instruction and return its number."""
    step = next(k for k, row in enumerate(OF_WARP_0) if row[2] == pc)
    put(page, "step", step)
    return step


def test_lanes_show_who_runs_who_waits_and_where_they_meet(page):
    go_to(page, STG)
    assert data(page, ".lanes li", "state") == ["executed"] * 16 + ["waiting"] * 16
    story = " ".join(texts(page, ".story li"))
    assert "16 of 32 lanes active" in story
    assert f"Lanes 16{TO}31 have parted after line 5" in story
    assert f"Lanes 16{TO}31 wait at line 3 for their turn (until step 8)" in story
    go_to(page, BRA)
    assert "Waited 79 cycles before: 79 short scoreboard" in " ".join(texts(page, ".story li"))
    go_to(page, FADD)
    assert data(page, ".lanes li", "state") == (["executed"] * 4 + ["off"] * 4) * 4
    find(page, ".stepper button.last").click()
    assert f"Reconvergence: lanes 0{TO}15 have joined again" in " ".join(texts(page, ".story li"))


def test_bank_map(page):
    go_to(page, STS)
    shown = find(page, ".access")
    assert (shown.get_attribute("data-wavefronts"), shown.get_attribute("data-rows")) == ("1", "1")
    go_to(page, LDS)
    shown = find(page, ".access")
    assert (shown.get_attribute("data-wavefronts"), shown.get_attribute("data-rows")) == ("32", "32")
    assert "32 wavefronts, 1 would do; 31 excessive" in shown.text
    bad = page.find_elements("css selector", ".access rect.bad")
    assert len(bad) == 31
    assert len({each.get_attribute("x") for each in bad}) == 1  # all in bank 0


def test_sector_map(page):
    assert "4 sectors in 1 line" in find(page, ".access").text  # the first step loads
    assert texts(page, ".access td.touched") == [f"{first}{TO}{first + 7}" for first in (0, 8, 16, 24)]
    go_to(page, STG)
    assert find(page, ".access").get_attribute("data-rows") == "16"
    assert "16 sectors in 16 lines, 2 would do; 14 excessive; 13 % of what is moved" in find(page, ".access").text
    assert texts(page, ".access td.touched") == [str(lane) for lane in range(16)]


def register(page, name):
    """What a register of the chosen lane was and is, as the page writes it; None if it is not named."""
    return texts(page, f'.values.named tr[data-register="{name}"] td') or None


def pick(page, lane):
    find(page, f".lanes li:nth-child({lane + 1})").click()


def test_values_of_a_lanes_registers(page):
    pick(page, 0)
    assert register(page, "R2") == ["0", "1.5", "0x3fc00000"]  # loaded by the first step
    pick(page, 5)
    assert register(page, "R2") == ["0", "6.5", "0x40d00000"]
    go_to(page, FADD)
    assert register(page, "R4") == ["", "13.0", "0x41500000"]  # written before, named here
    go_to(page, LDS)
    assert register(page, "R6") == ["0", "1,015", "0x3f7"]
    assert register(page, "P0") == ["false", "false", ""] or register(page, "P0") is None
    pick(page, 20)
    assert register(page, "P0") == ["false", "true", ""]
    put(page, "step", 6)
    page.execute_script(
        "const it = document.querySelector('select.reading'); it.value = 'unsigned';"
        "it.dispatchEvent(new Event('change'))"
    )
    assert register(page, "R4")[1] == "40"
    assert find(page, ".held select").get_attribute("value") == "20"


def test_jumps_go_to_the_next_step_of_a_kind(page):
    """Of warp 0: the branch, the load from shared memory, the store to 16 lines; none further, so they come again."""
    for name, key, pc in (("divergent", "d", BRA), ("conflict", "b", LDS), ("uncoalesced", "u", STG)):
        step = next(k for k, row in enumerate(OF_WARP_0) if row[2] == pc)
        button = find(page, f".jumps .{name}")
        assert button.text.endswith("(1)")
        put(page, "step", 0)
        button.click()
        assert stepper_state(page) == expected(step)
        put(page, "step", 8)
        focus_stepper(page)
        press(page, key)
        assert stepper_state(page) == expected(step)
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    put(page, "step", 8)
    ActionChains(page).key_down(Keys.SHIFT).send_keys("d").key_up(Keys.SHIFT).perform()
    assert stepper_state(page)["pc"] == BRA


def told(page):
    return find(page, ".told").text


def test_warps_over_cycles_say_who_waits_for_what(page):
    from selenium.webdriver.common.keys import Keys

    page.execute_script("document.querySelector('.warps .chart').focus()")
    press(page, Keys.HOME, Keys.ARROW_RIGHT)  # from the start to the first issue
    assert told(page).startswith("Cycle 100, block 0,0,0 warp 0: issues 0x0 LDG.E")
    press(page, Keys.ARROW_RIGHT)
    assert "waits 599 cycles (101 to 700): long scoreboard" in told(page) and "then 0x10 FFMA" in told(page)
    press(page, Keys.ARROW_DOWN)
    assert "block 0,0,0 warp 1" in told(page)
    press(page, Keys.ARROW_UP)
    find(page, ".told button").click()
    assert stepper_state(page) == expected(1)


def pixel(page, row, cycle):
    """Colour of a cell of the chart."""
    return page.execute_script(
        "const c = document.createElement('canvas').getContext('2d', { willReadFrequently: true });"
        "const canvas = document.querySelector('.warps canvas');"
        "Object.assign(c.canvas, { width: canvas.width, height: canvas.height }); c.drawImage(canvas, 0, 0);"
        "return [...c.getImageData(arguments[0], arguments[1], 1, 1).data].slice(0, 3)",
        *place_of(page, row, cycle),
    )


def place_of(page, row, cycle):
    chart = find(page, ".warps .chart")
    first, cycles = (float(chart.get_attribute(f"data-{name}")) for name in ("from", "cycles"))
    width = page.execute_script("return arguments[0].clientWidth", chart)
    return 150 + (cycle + 0.5 - first) / cycles * (width - 150), 20 + 24 * row + 6 * row + 12


def colour_of(reason):
    return [int(STALL_COLOURS[reason][k : k + 2], 16) for k in (1, 3, 5)]


def test_cells_have_the_colour_of_the_reason(page):
    """Of both warps, near and from far; one chosen reason alone keeps its colour."""
    page.refresh()
    page.execute_script("document.querySelector('#warps .warps').scrollIntoView({ block: 'center' })")
    assert pixel(page, 0, 300) == pixel(page, 1, 300) == colour_of("long_scoreboard")
    assert pixel(page, 0, 100) == colour_of("selected")
    find(page, ".warps .whole").click()
    assert float(find(page, ".warps .chart").get_attribute("data-cycles")) == 761
    assert pixel(page, 0, 400) == colour_of("long_scoreboard")
    assert pixel(page, 0, 780) == colour_of("short_scoreboard")
    find(page, '.reasons [data-reason="short_scoreboard"]').click()
    assert pixel(page, 0, 780) == colour_of("short_scoreboard") and pixel(page, 0, 400) != colour_of("long_scoreboard")


def test_occupancy_is_drawn(page):
    result = Result(make_record(line=LINE))
    used = {each.get_attribute("data-resource"): each for each in page.find_elements("css selector", "[data-resource]")}
    blocks = result.occupancy.blocks_per_sm
    assert len(used["Warps"].find_elements("css selector", ".block")) == blocks
    assert int(used["Registers"].get_attribute("data-used")) == 32 * 24 * 8 * blocks
    assert "limits" in used["Warps"].text and "limits" not in used["Blocks"].text
    assert data(page, ".curves svg", "warps") == [str(result.occupancy.warps_per_sm)] * 3


def test_roofs_of_memory_stand_where_there_is_no_arithmetic(browser, tmp_path):
    program = make_program((("LDG.E R2, desc[UR4][R2.64]", 2), ("EXIT", None)))
    line = {0: {L.COUNT_REQUESTS: 10, L.COUNT_SECTORS: 40}}
    result = Result(make_record(program=program, line=line))
    assert result.roofline.kind is None
    browser.get(result.report_html(tmp_path / "moves.html").as_uri())
    assert data(browser, ".roofline .bar", "level") == ["L1", "L2", "DRAM"] and browser.get_log("browser") == []


def column(page, key):
    """Numbers of one column of the source view, by row of a source line."""
    return [float(each) for each in data(page, f'#listing tr.line.has td[data-key="{key}"]', "value")]


def view(page, name):
    """Choose the source view: `beside` or `table`."""
    page.execute_script("arguments[0].click()", find(page, f'.views [data-view="{name}"]'))


def marked(page, pane, kind="picked"):
    """Texts of the rows of a column that are marked: picked, or linked to what the mouse is over."""
    return texts(page, f".pane.{pane} .row.{kind} code")


def waited(page, pane, expected, kind="linked"):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, 10).until(lambda it: [each.split()[-1] for each in marked(it, pane, kind)] == expected)


def test_source_and_machine_code_mark_each_other(page):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    view(page, "beside")
    result = Result(make_record(line=LINE))
    names = {line: [each.text for each in result.instructions if each.line == line] for line in (3, 4)}
    source, code = (find(page, f".pane.{each}") for each in ("source", "code"))
    page.execute_script("arguments[0].scrollIntoView({ block: 'center' })", source)
    row = next(each for each in source.find_elements("css selector", ".row") if each.text.startswith("3\n"))
    ActionChains(page).move_to_element(row).perform()
    waited(page, "code", [text.split()[-1] for text in names[3]])
    assert told_beside(page).startswith("Line 3: ")
    find(page, f'.pane.code [data-index="{LDS}"]').click()
    assert marked(page, "source") == [result.record.program.source[FILE][3].strip()]
    assert [each.split(maxsplit=1)[1] for each in marked(page, "code")] == names[4]
    assert told_beside(page).startswith(f"{16 * LDS:#x}, line 4: ")
    find(page, ".beside .step").click()
    assert stepper_state(page)["pc"] == LDS
    page.execute_script("arguments[0].focus()", source)
    press(page, Keys.HOME)
    first = marked(page, "source")
    press(page, Keys.ARROW_DOWN)
    assert marked(page, "source") != first
    press(page, Keys.ARROW_UP)
    assert marked(page, "source") == first
    press(page, Keys.TAB, Keys.END)
    assert page.switch_to.active_element == code and code.get_attribute("aria-activedescendant")
    assert marked(page, "code")[-1].split(maxsplit=1)[1] == result.instructions[-1].text
    press(page, Keys.ESCAPE)
    assert marked(page, "code") == marked(page, "source") == []


def told_beside(page):
    return find(page, ".beside .said").text


def test_both_columns_say_what_a_row_costs(page):
    view(page, "beside")
    result = Result(make_record(line=LINE))
    total = sum(each.cycles for each in result.instructions)
    lines = {each.line: each.cycles for each in result.source_lines}
    for row in page.find_elements("css selector", ".pane.source [data-key]"):
        label, cost = (row.find_element("css selector", f".{each}").text for each in ("label", "cost"))
        assert cost == f"{100 * lines[None if label == TO else int(label)] / total:.1f} %"
    assert texts(page, ".pane.code .cost") == [
        f"{100 * each.cycles / total:.1f} %" if each.cycles else "" for each in result.instructions
    ]
    put(page, "heat-column", "conflicts")
    assert texts(page, ".pane.code .cost").count("100.0 %") == 1  # all of one load's
    put(page, "heat-column", "cycles")


def test_a_long_kernel_is_brought_into_sight_and_stands_below_each_other_on_a_phone(browser, tmp_path):
    """Of 5,000 instructions, those of the first line stand at both ends."""
    lines = [1, *(2 + k % 60 for k in range(4998)), 1]
    code = (*((f"FFMA R4, R4, R5, {k}", line) for k, line in enumerate(lines)), ("EXIT", None))
    program = make_program(code, source={FILE: [f"line {k}" for k in range(1, 62)]})
    page = Result(make_record(program=program)).report_html(tmp_path / "long.html")
    assert page.stat().st_size < 700_000
    seen = """const list = document.querySelector(`.pane.${arguments[0]}`).getBoundingClientRect();
        return [...document.querySelectorAll(`.pane.${arguments[0]} ${arguments[1]}`)].some((each) => {
          const own = each.getBoundingClientRect(); return own.top >= list.top && own.bottom <= list.bottom; });"""
    for size in (DESKTOP, PHONE):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        find(browser, '.pane.source [data-key="0:1"]').click()
        assert browser.execute_script(seen, "code", ".picked")
        for place in (0, 4999):
            find(browser, ".beside .next").click()
            assert browser.execute_script(seen, "code", f'.here[data-index="{place}"]')
        browser.execute_script("arguments[0].click()", find(browser, '.pane.code [data-index="4998"]'))
        assert browser.execute_script(seen, "source", ".picked")
        boxes = [find(browser, f".pane.{each}").rect for each in ("source", "code")]
        below = boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
        assert below == (size is PHONE) and sum(each["height"] for each in boxes) < size["height"] * (2 - below)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    assert browser.get_log("browser") == []


def test_machine_code_without_lines_stands_alone(browser, tmp_path):
    result = Result(make_record(program=make_program((("FADD R4, R4, R4", None), ("EXIT", None)), source={})))
    browser.get(result.report_html(tmp_path / "bare.html").as_uri())
    assert not find(browser, ".pane.source").is_displayed()
    assert "nvcc -lineinfo" in find(browser, "#source .note").text
    assert [each.split()[1] for each in texts(browser, ".pane.code code")] == ["FADD", "EXIT"]
    find(browser, '.pane.code [data-index="1"]').click()
    assert [each.split()[1] for each in marked(browser, "code")] == ["EXIT"]
    assert told_beside(browser).startswith("0x10, no source line: ")
    assert browser.get_log("browser") == []


def test_the_source_view_sorts(page):
    view(page, "table")
    unsorted = texts(page, "#listing tr.line th.line")
    assert unsorted[0] == "2"
    for key in ("cycles", "energy", "stall"):
        head = find(page, f'#listing th[data-key="{key}"] button')
        head.click()
        values = column(page, key)
        assert len(values) >= 6 and values == sorted(values, reverse=True) and values[0] > values[-1]
        assert find(page, f'#listing th[data-key="{key}"]').get_attribute("aria-sort") == "descending"
        head.click()
        assert column(page, key) == sorted(values)
    find(page, '#listing th[data-key="line"] button').click()
    assert texts(page, "#listing tr.line th.line") == unsorted


def test_a_line_opens_by_keyboard_and_shows_its_machine_code(page):
    from selenium.webdriver.common.keys import Keys

    view(page, "table")
    button = find(page, '#listing tr[data-line="3"] button')
    page.execute_script("arguments[0].focus()", button)
    press(page, Keys.ENTER)
    assert [text.split()[0] for text in texts(page, "#listing tr.sass code")] == ["FFMA", "FADD", "STS"]
    assert find(page, '#listing tr[data-line="3"] button').get_attribute("aria-expanded") == "true"
    assert page.switch_to.active_element.get_attribute("aria-expanded") == "true"  # the focus stays
    press(page, Keys.ENTER)
    assert texts(page, "#listing tr.sass code") == []


def test_advice_leads_to_the_dearest_step(page):
    page.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    findings = page.find_elements("css selector", ".finding")
    titles = {each.find_element("css selector", "h3").text.lower(): each for each in findings}
    finding = next(each for title, each in titles.items() if title.startswith("bank conflicts"))
    finding.find_element("css selector", "button[aria-label='Step through line 4']").click()
    assert stepper_state(page)["pc"] == LDS
    assert find(page, ".access").get_attribute("data-wavefronts") == "32"
    for name, shown in (("beside", ".pane.source .picked"), ("table", "#listing tr.marked th")):
        view(page, name)
        page.execute_script("arguments[0].click()", finding.find_element("css selector", "button"))
        assert find(page, shown).text.startswith("4")


def test_long_stretches_without_instructions_are_folded(browser, tmp_path):
    code = (("FADD R4, R4, R4", 2), ("FADD R4, R4, R4", 90), ("EXIT", None))
    program = make_program(code, source={FILE: [f"line {k}" for k in range(1, 101)]})
    browser.get(Result(make_record(program=program)).report_html(tmp_path / "long.html").as_uri())
    assert [int(text) for text in texts(browser, ".pane.source .label")[:-1]] == [*range(2, 11), *range(82, 91)]
    view(browser, "table")
    lines = [int(text) for text in texts(browser, "#listing tr.line th.line")[:-1]]
    assert lines == [*range(2, 11), *range(82, 91)]
    assert texts(browser, "#listing tr.gap") == ["\N{MIDLINE HORIZONTAL ELLIPSIS} 71 lines without instructions"]
    assert browser.get_log("browser") == []


def test_every_control_has_a_name_and_a_visible_focus(page):
    from selenium.webdriver.common.keys import Keys

    nameless = page.execute_script(
        "return [...document.querySelectorAll('button, select, input, [tabindex]')]"
        ".filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert nameless == []
    press(page, Keys.TAB, Keys.TAB)
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.execute_script(style) == "solid"


CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
function rgba(colour) {
  if (!known.has(colour)) {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    known.set(colour, [r, g, b, a / 255]);
  }
  return known.get(colour);
}
const over = (top, under) => [0, 1, 2].map((k) => top[k] * top[3] + under[k] * (1 - top[3])).concat(1);
function background(node) {
  const layers = [];
  for (let each = node; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
  return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
}
function luminance(colour) {
  const [r, g, b] = colour.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const poor = [];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
  if (!own || node instanceof SVGElement || !node.getClientRects().length) continue;
  if (node.closest(".ended, script, option")) continue;
  const under = background(node);
  const text = over(rgba(getComputedStyle(node).color), under);
  const [low, high] = [luminance(text), luminance(under)].sort((a, b) => a - b);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < 4.5) poor.push([node.className, node.textContent.slice(0, 30), ratio]);
}
return poor;
"""


def test_a_page_without_a_trace_says_how_to_get_one(browser, tmp_path):
    browser.get(Result(make_record(line=LINE)).report_html(tmp_path / "plain.html").as_uri())
    for section in ("warps", "stepper"):
        assert "No trace was recorded" in find(browser, f"section#{section}").text
    assert browser.get_log("browser") == []


MAPS = """
const done = arguments[arguments.length - 1];
import("gpusim/access").then(({ sharedMap, globalMap }) => {
  const { trace } = JSON.parse(document.getElementById("data").textContent);
  const found = { shared: [], global: [] };
  for (const access of trace.warps.flatMap((warp) => warp.access).filter((each) => each && each[4] >= 0)) {
    if (access[0] === 2) found.shared.push([Number(sharedMap(trace, access).dataset.rows), access[5]]);
    if (access[0] === 1) found.global.push([Number(globalMap(trace, access, "global").dataset.rows), access[8]]);
  }
  done(found);
});
"""


@pytest.mark.usefixtures("toolchain")
def test_maps_of_a_program_show_what_the_engine_counted(browser, tmp_path):
    """The page derives wavefronts and lines from addresses; the engine counted them on its own."""
    name = "reduction/interleaved_conflicts"
    result = bundled.checked(name, "h200", 600, trace=True)
    path = result.report_html(tmp_path / "report.html", name)
    assert path.stat().st_size < 1 << 20
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    browser.get(path.as_uri())
    terminal = " ".join(str(result).split())
    findings = [" ".join(each.split()) for each in texts(browser, ".findings .finding p")[:4]]
    places = [terminal.find(each) for each in findings]
    assert len(places) == 4 and places[0] > terminal.find("Advice ") > 0 and places == sorted(places)
    found = browser.execute_async_script(MAPS)
    for pairs in found.values():
        assert len(pairs) >= 9
        assert all(drawn == counted for drawn, counted in pairs)
    assert max(counted for _, counted in found["shared"]) == 8
    data = json.loads(find(browser, "#data").get_attribute("textContent"))
    issues = result.trace.issues[np.isin(result.trace.issues["warp"], [w["warp"] for w in data["trace"]["warps"]])]
    jumps = {"conflict": issues["wavefronts"] > issues["ideal"], "divergent": issues["divergent"] > 0}
    for kind, rows in jumps.items():
        assert find(browser, f".jumps .{kind}").text.endswith(f"({rows.sum():,})")
    assert jumps["conflict"].any()
    assert browser.get_log("browser") == []


def test_a_page_of_some_sections_has_only_those(browser, tmp_path):
    record = make_record(line=LINE)
    result = Result(replace(record, trace=make_trace(record)))
    for sections, titles in (
        (("memory", "advice"), ["Summary and advice", "Memory Workload Analysis"]),
        (("source",), ["Source Counters"]),
        (("stepper",), ["Warp Stepper"]),
        (("warps",), ["Warps over Cycles"]),
    ):
        page = write(result, tmp_path / "page.html", sections=sections, index="index.html")
        browser.get(page.as_uri())
        assert texts(browser, "main h2") == titles and len(texts(browser, "nav a")) == len(titles)
        assert find(browser, ".brand a").get_attribute("href").endswith("/index.html")
        assert browser.get_log("browser") == []


def test_the_index_leads_to_the_pages_and_stands_above_them(browser, tmp_path):
    result = Result(make_record(line=LINE))
    what = "k<...>", "k<float, (4)>(int)", "8", "128", 0, result.cycles, result.time_us, "latency", 2.5e-6
    rows = [IndexRow(1, 3, *what, "launch-1.html"), IndexRow(4, 4, *what, note="data race")]
    rows += [IndexRow(k, k, *what, f"launch-{k}.html") for k in range(5, 30)]
    text = write(result, tmp_path / "launch-1.html", "Launch 1: k", index="index.html").read_text("utf-8")
    for row in rows[2:]:
        (tmp_path / f"launch-{row.first}.html").write_text(
            text.replace("Launch 1: k", f"Launch {row.first}: k"), "utf-8"
        )
    put_above(tmp_path, rows)
    (tmp_path / "index.html").write_text(render_index("All <launches>", {"GPU": "tiny"}, rows, ["1 < 2"]))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    browser.get((tmp_path / "index.html").as_uri())
    assert find(browser, "h1").text == "All <launches>" and find(browser, ".about").text == "1 < 2"
    assert texts(browser, ".launches tbody th")[:3] == ["1\N{EN DASH}3", "4", "5"]
    assert texts(browser, ".launches tbody small") == ["data race"]
    assert texts(browser, ".launches .share")[:2] == ["10.3 %", "3.4 %"]  # of 29 launches that take equally long
    assert texts(browser, '.launches td[data-head="energy"]')[:2] == ["2.50 µJ", "2.50 µJ"]
    assert find(browser, ".launches tbody code").get_attribute("title") == "k<float, (4)>(int)"
    find(browser, ".launches a").click()
    assert find(browser, "h1").text == "Launch 1: k"
    assert find(browser, ".above summary").text.startswith("This page: 3 of 29 launches, 10.3 % of all time")
    find(browser, ".above summary").click()
    assert texts(browser, ".above [aria-current]") == ["1\N{EN DASH}3"]
    assert "16 more rows" in find(browser, ".above details").text
    find(browser, ".above a").click()
    assert find(browser, "h1").text == "Launch 5: k"
    assert_readable(browser)
    find(browser, ".brand a").click()
    assert find(browser, "h1").text == "All <launches>"
    assert_readable(browser)
    assert browser.get_log("browser") == []


def assert_readable(browser):
    """On a phone nothing scrolls sideways, and text has contrast, light and dark."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    width, window = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= window == PHONE["width"]
    for table in browser.find_elements("css selector", ".stacked"):  # nor does a table in itself
        assert browser.execute_script("return arguments[0].parentElement.scrollWidth <= window.innerWidth", table)
    for scheme in ("light", "dark"):
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        assert browser.execute_script(CONTRAST) == []
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)


def test_a_report_is_readable(page):
    for pc, name in ((LDS, "table"), (STG, "beside")):
        go_to(page, pc)
        view(page, name)
        assert_readable(page)


def test_the_page_of_a_difference(browser, tmp_path):
    fixed = LINE | {LDS: {L.COUNT_SHARED_WAVEFRONTS: 2112, L.COUNT_SHARED_IDEAL: 2112}}
    a, b = Result(make_record(line=LINE)), Result(make_record(line=fixed, cycles=3000))
    difference = gpusim.compare_results(a, b, "be<fore", "after")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    browser.get(difference.report_html(tmp_path / "diff.html").as_uri())
    assert find(browser, "h1").text == "be<fore and after"
    assert texts(browser, "#why li") == difference.why
    facts = dict(zip(texts(browser, "dt"), texts(browser, "dd"), strict=True))
    assert facts["A"].startswith("4,000 cycles") and facts["B"].startswith("3,000") and "0.75x" in facts.values()
    shown = dict(row.split("\t", 1) for row in texts(browser, "main section > .wide tbody tr"))
    assert shown["derived__memory_l1_wavefronts_shared_excessive"] == "2,112\t0\tgone"
    assert "s[u]" in find(browser, "#source-lines").text
    assert len(texts(browser, "#stall-reasons tbody tr")) == 1 + len(difference.stalls)
    assert len(texts(browser, "#energy-by-unit tbody tr")) == len(difference.energy_parts) > 1
    assert facts["A"].endswith(f"{joule_text(a.energy_j, 'µ')}, {a.power_w:,.0f} W")
    assert_readable(browser)
    assert browser.get_log("browser") == []


def test_the_page_of_a_comparison(browser, tmp_path):
    """Bars are as long as their numbers, intervals lie across them, and a phone shows all of it."""
    launch = {"program": "ge<mv", "weight": 3, "time_us": 2.0, "limited_by": "too few blocks"}
    machines = []
    for name, scale in (("h200", 1), ("h200 sm.count=264 l2.bytes=125829120 dram.bandwidth_gb_s=9600", 2)):
        own = {each: scale * value for each, value in (("time_us", 8.0), ("low_us", 7.0), ("high_us", 10.0))}
        own |= {"machine": name, "area_mm2": 700 * scale, "energy_j": 1e-3, "power_w": 150.0, "error": None}
        launches = [launch, launch | {"program": "matmul", "weight": 1}]
        machines.append(own | {"limited_by": "too few blocks", "why": "Too few blocks: 64.", "launches": launches})
    machines.append({"machine": "tiny", "error": "no <room>", "area_mm2": 1.0, "limited_by": None, "launches": []})
    path = tmp_path / "machines.html"
    said = {"verdict": ["Slower than h200: b"], "notes": ["not measured"], "priced": ["errors: 4 %"]}
    document = {"title": "3 machines for work.toml", "what": "work.toml", "machines": machines} | said
    path.write_text(render_document(document, "machines"), "utf-8")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    browser.get(path.as_uri())
    assert find(browser, "h1").text == "3 machines for work.toml"
    assert find(browser, ".limiter").text == "Slower than h200: b."
    widths = "return [...document.querySelectorAll(arguments[0])].map((each) => each.getBoundingClientRect().width)"
    track, *_ = browser.execute_script(widths, "figure:first-of-type .track")
    filled = browser.execute_script(widths, "figure:first-of-type .fill")
    assert filled == pytest.approx([0.4 * track, 0.8 * track], abs=1)
    assert browser.execute_script(widths, ".span") == pytest.approx([0.15 * track, 0.3 * track], abs=1)
    first, second = texts(browser, "figure:first-of-type .number")
    assert (first, second) == ("8.00 µs, 1.00 (7.00 to 10.00)", "16.00 µs, 2.00 (14.00 to 20.00)")
    assert texts(browser, "#limits p")[-1] == "tiny: no <room>"
    assert texts(browser, "#machines .about") == ["not measured"] and texts(browser, "#areas .about") == ["errors: 4 %"]
    assert texts(browser, "#launches tbody th") == ["ge<mv", "matmul"]
    assert texts(browser, "#launches tbody td")[:2] == ["3", "2.00 µs\n75 %, too few blocks"]
    assert_readable(browser)
    assert browser.get_log("browser") == []
