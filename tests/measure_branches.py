"""Branch coverage of `isa` and of the executors, which have to reach 95 %: `make coverage`.

Compiled functions leave no trace, so their branches are measured with compilation turned off (NUMBA_DISABLE_JIT=1).
What generates code for the primitives of rows runs only while something is compiled, and is measured there. Which files
count is in pyproject.toml, [tool.coverage.run].
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache"
LEAST_PERCENT = 95.0
COMPILED = ("tests/gpusim/test_interpreted.py", "--deselect=tests/gpusim/test_interpreted.py::test_whole_runs")
INTERPRETED = (
    "tests/isa",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/gpusim/test_exec_*.py")),
    "tests/fuzz",
    "--deselect=tests/fuzz/test_fuzz.py::test_streams_that_no_compiler_makes_end_with_a_result_or_an_error",
    "tests/gpusim/test_async_copy.py",
    "tests/gpusim/test_blackwell.py",
    "tests/gpusim/test_checks.py",
    # Whole programs, which grow in number, take hours uncompiled; what they execute the corpora execute too.
    "--deselect=tests/gpusim/test_checks.py::test_bundled_programs_are_clean_and_as_fast_as_without_checks",
    "tests/gpusim/test_cluster.py",
    "tests/gpusim/test_coalescer.py",
    "tests/gpusim/test_corpus.py",
    "tests/gpusim/test_flow_replay.py",
    "tests/gpusim/test_group_matrix.py",
    "tests/gpusim/test_hardware.py",
    "tests/gpusim/test_link.py",
    "tests/gpusim/test_matrix_replay.py",
    "tests/gpusim/test_simulate.py",
    "tests/gpusim/test_special_registers.py",
    "tests/gpusim/test_tensor_copy.py",
    "tests/oracle",
)
GROUPS = {"isa": "isa/", "executors": "gpusim/engine/"}


def coverage(*arguments: str, **environment: str) -> None:
    """Runs the coverage tool; ends the measurement if it reports an error, such as a test that failed."""
    environment = {**os.environ, "COVERAGE_FILE": str(FOLDER / "coverage"), **environment}
    done = subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, env=environment)
    if done.returncode:
        sys.exit(done.returncode)


def report(files: dict[str, dict]) -> int:
    """Prints one line per file with branches that were not taken, and the groups' totals. Returns the exit status."""
    print(f"\n{'file':40}{'branches':>10}{'taken':>8}   lines whose branches were not all taken")
    for name, file in sorted(files.items()):
        summary = file["summary"]
        if summary["covered_branches"] < summary["num_branches"]:
            lines = " ".join(map(str, sorted({abs(branch[0]) for branch in file["missing_branches"]})))
            print(f"{name:40}{summary['num_branches']:>10}{summary['covered_branches']:>8}   {lines}")
    status = 0
    for group, prefix in GROUPS.items():
        summaries = [file["summary"] for name, file in files.items() if name.startswith(prefix)]
        branches = sum(summary["num_branches"] for summary in summaries)
        taken = sum(summary["covered_branches"] for summary in summaries)
        percent = 100 * taken / branches
        enough = percent >= LEAST_PERCENT
        print(f"{group}: {percent:.1f} % of {branches} branches{'' if enough else f', under {LEAST_PERCENT:.0f} %'}")
        status |= not enough
    return status


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    tests = ("run", "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider")
    print("Primitives, while they are compiled:", flush=True)
    coverage(*tests, *COMPILED)
    print("Instructions, with compilation turned off:", flush=True)
    coverage("run", "--append", *tests[1:], *INTERPRETED, NUMBA_DISABLE_JIT="1", HYPOTHESIS_PROFILE="interpreted")
    coverage("json", "-q", "-o", str(FOLDER / "branches.json"))
    return report(json.loads((FOLDER / "branches.json").read_text())["files"])


if __name__ == "__main__":
    sys.exit(main())
