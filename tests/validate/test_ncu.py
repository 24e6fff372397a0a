"""validate.ncu against a stand-in for ncu; no GPU needed."""

import stat
import sys

import pytest

from validate import ncu


def test_complaints_names_only_requested_metrics_in_errors():
    output = "==PROF== a.sum is fine\n==ERROR== Failed to find metric b__x.sum.\n==WARNING== unknown: 'c'\n"
    assert ncu.complaints(output, ["a.sum", "b__x.sum", "c", "b"]) == ["b__x.sum", "c"]


FAKE = """#!{python}
import sys
arguments = sys.argv[1:]
assert arguments[arguments.index("--clock-control") + 1] == "none" and arguments[-1] == "true"
log = arguments[arguments.index("--log-file") + 1]
names = arguments[arguments.index("--metrics") + 1].split(",")
unknown = [name for name in names if name.startswith("bad")]
with open(log, "w") as file:
    if unknown:
        file.write("==ERROR== Failed to find metric " + unknown[0] + "\\n" if {talks} else "==ERROR== no\\n")
        sys.exit(1)
    columns = "ID,Kernel Name,Block Size,Grid Size".split(",") + names
    file.write(",".join('"' + c + '"' for c in columns) + "\\n")
    cells = ["0", "k", "(1, 1, 1)", "(1, 1, 1)"] + ["7"] * len(names)
    file.write(",".join('"' + c + '"' for c in cells) + "\\n")
"""


def stand_in(folder, talks):
    path = folder / "ncu"
    path.write_text(FAKE.format(python=sys.executable, talks=talks))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("talks", [True, False])
def test_supported_drops_unknown_metrics(tmp_path, talks):
    names = ["a", "bad1", "b", "bad2", "c"]
    known, unknown = ncu.supported(["true"], names, timeout_s=60, ncu=stand_in(tmp_path, talks))
    assert known == ["a", "b", "c"]
    assert unknown == ["bad1", "bad2"]


def test_profile_without_launch_fails_with_the_messages(tmp_path):
    with pytest.raises(ncu.NcuError) as caught:
        ncu.profile(["true"], ["bad"], timeout_s=60, ncu=stand_in(tmp_path, True))
    assert "bad" in caught.value.output


def test_missing_ncu_and_time_limit_are_errors(tmp_path):
    with pytest.raises(ncu.NcuError, match="cannot run"):
        ncu.profile(["true"], ["a"], timeout_s=5, ncu=str(tmp_path / "nowhere"))
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 60\n")
    slow.chmod(0o755)
    with pytest.raises(ncu.NcuError, match="longer than"):
        ncu.profile(["true"], ["a"], timeout_s=0.3, ncu=str(slow))
