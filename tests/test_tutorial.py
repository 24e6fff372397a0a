"""docs/tutorial.md does what it says: its commands run in an empty folder and print what it shows."""

import re
import sys

import pytest

from tests.tutorial import ELSEWHERE, PAGE, ROOT, blocks, missing, play, prose, renewed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the tutorial's commands are for sh")
TEXT = PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def played(tmp_path_factory, toolchain):
    folder = tmp_path_factory.mktemp("student")
    return folder, play(TEXT, folder)


def test_every_command_succeeds_and_prints_what_is_shown(played):
    _, steps = played
    assert len(steps) >= 8
    for output, errors, code, shown in steps:
        assert code == 0, errors
        assert missing(shown, output + errors) == [], "renew the outputs: python -m tests.tutorial"
    assert sum(bool(shown) for *_, shown in steps) >= 5


def test_numbers_in_the_text_are_among_the_outputs(played):
    seen = "\n".join(output + errors for output, errors, *_ in played[1])
    numbers = set(re.findall(r"\d{1,3}(?:,\d{3})+|\d+\.\d+(?= %)", prose(TEXT)))
    assert {"63,488", "4,096"} <= numbers
    assert {each for each in numbers if each not in seen} == set()


def test_lines_that_the_text_names_are_those_of_the_file(played):
    source = (played[0] / "first.py").read_text("utf-8").splitlines()
    assert "tile[cuda.threadIdx.x, cuda.threadIdx.y + k]" in source[int(re.search(r"Line (\d+) has them", TEXT)[1]) - 1]


def test_the_files_that_it_speaks_of_are_there(played):
    folder, _ = played
    for name in ("first.html", "first.perfetto-trace", "fixed.py", "before.json"):
        assert (folder / name).stat().st_size > 100, name
    assert "gpusim/source" in (folder / "first.html").read_text("utf-8")


def test_what_is_not_run_here_is_a_target_of_make():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = [line for language, text in blocks(TEXT) if language == "sh" for line in text.splitlines()]
    targets = [line.split()[1] for line in commands if line.startswith(ELSEWHERE)]
    assert targets == ["demo"] and "\ndemo: " in makefile


def test_an_output_that_changed_is_found_and_renewed():
    output = "a 1\nb  20 c\nd 3\n"
    assert missing("a 1\n...\nd 3\n", output) == []
    assert missing("a 1\nb 1 c\n", output) == ["b 1 c"]
    assert missing("d 3\na 1\n", output) == ["a 1"]
    assert renewed("a 1\n...\nb 7 c\n", output) == "a 1\n...\nb  20 c\n"
