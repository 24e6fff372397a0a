"""docs/beside.md shows what its snippets print, the GPU's times within what the model of time may move."""

import contextlib
import io
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "beside.md").read_text("utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```\n\n<!-- out -->\n```\n(.*?)```\n<!-- /out -->", TEXT, flags=re.DOTALL)


def number(word):
    return float(word.replace(",", "")) if re.fullmatch(r"[\d,]+(\.\d+)?", word) else None


def test_what_is_printed_is_what_is_shown():
    assert len(SNIPPETS) == TEXT.count("```python") == 5
    names: dict[str, object] = {}
    for code, shown in SNIPPETS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if "simulate" not in code:
            assert printed.getvalue() == shown
        ours, theirs = printed.getvalue().split(), shown.split()
        assert len(ours) == len(theirs)
        for word, other in zip(ours, theirs, strict=True):
            assert number(word) == pytest.approx(number(other), rel=0.05) if number(word) is not None else word == other
    fastest = {}
    for row in names["rows"]:
        n, time = row["n"], row["time_us"]
        if n not in fastest or time < fastest[n][0]:
            fastest[n] = time, row["machine"]
    # As the text says: the smallest are the CPU's, the largest the GPU's, those between the TPU's.
    assert [machine.split()[0] for _, machine in fastest.values()] == ["Xeon"] * 2 + ["TPU"] * 4 + ["H200"]
