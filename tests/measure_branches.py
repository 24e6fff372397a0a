"""Branch coverage of `isa` and of the executors, which have to reach 95 %: `make coverage`.

Compiled functions leave no trace, so their branches are measured with compilation turned off (NUMBA_DISABLE_JIT=1).
What generates code for the primitives of rows runs only while something is compiled, and is measured there. Which files
count is in pyproject.toml, [tool.coverage.run].

Every test file is a piece of its own, and what it took is kept in `.cache/branches`, so that a measurement that was
interrupted goes on where it stopped, and a file that has changed can be measured again without the others:

    python tests/measure_branches.py --resume
    python tests/measure_branches.py tests/gpusim/test_cluster.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "branches"
LEAST_PERCENT = 95.0
COMPILED = "tests/gpusim/test_interpreted.py"
"""Primitives of rows, while they are compiled."""
INTERPRETED = (
    "tests/isa/test_*.py",
    "tests/gpusim/test_exec_*.py",
    "tests/fuzz/test_*.py",
    "tests/gpusim/test_async_copy.py",
    "tests/gpusim/test_blackwell.py",
    "tests/gpusim/test_checks.py",
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
    "tests/oracle/test_*.py",
)
"""Instructions, with compilation turned off."""
LEFT_OUT = (
    "tests/gpusim/test_interpreted.py::test_whole_runs",
    "tests/fuzz/test_fuzz.py::test_streams_that_no_compiler_makes_end_with_a_result_or_an_error",
    # Whole programs, which grow in number, take hours uncompiled; what they execute the corpora execute too.
    "tests/gpusim/test_checks.py::test_bundled_programs_are_clean_and_as_fast_as_without_checks",
)
GROUPS = {"isa": "isa/", "executors": "gpusim/engine/"}


def pieces() -> list[str]:
    """The test files that take part, from the repository's root."""
    found = [path for pattern in (COMPILED, *INTERPRETED) for path in sorted(ROOT.glob(pattern))]
    return [str(path.relative_to(ROOT)) for path in found]


def data_file(piece: str) -> Path:
    """Where what a test file took is kept."""
    return FOLDER / piece.removeprefix("tests/").removesuffix(".py").replace("/", ".")


def coverage(data: Path, *arguments: str, **environment: str) -> int:
    """Runs the coverage tool on a data file. Returns its exit status."""
    environment = {**os.environ, "COVERAGE_FILE": str(data), **environment}
    return subprocess.run([sys.executable, "-m", "coverage", *arguments], cwd=ROOT, env=environment).returncode


def measure(piece: str) -> bool:
    """Measures one test file; keeps what it took if all its tests pass."""
    uncompiled = {} if piece == COMPILED else {"NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "interpreted"}
    part = FOLDER / "part"
    part.unlink(missing_ok=True)
    data_file(piece).unlink(missing_ok=True)
    start = time.monotonic()
    left_out = [f"--deselect={test}" for test in LEFT_OUT if test.startswith(piece)]
    pytest = ("-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", piece, *left_out)
    passed = coverage(part, "run", *pytest, **uncompiled) == 0
    if passed:
        part.rename(data_file(piece))
    print(f"{time.monotonic() - start:.0f} s: {piece}{'' if passed else ' FAILED'}", flush=True)
    return passed


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
    parser = argparse.ArgumentParser(description="Which branches of isa and of the executors the tests take.")
    parser.add_argument("pieces", nargs="*", metavar="FILE", help="measure these test files again, none of the others")
    parser.add_argument("--resume", action="store_true", help="measure what has not been measured yet")
    options = parser.parse_args()
    all_pieces = pieces()
    if unknown := set(options.pieces) - set(all_pieces):
        parser.error(f"no test files that take part: {', '.join(sorted(unknown))}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    again = options.pieces or ([] if options.resume else all_pieces)
    failed = [piece for piece in all_pieces if piece in again or not data_file(piece).exists() if not measure(piece)]
    if failed:
        print(f"failed: {' '.join(failed)}")
        return 1
    total = FOLDER / "total"
    coverage(total, "combine", "-q", "--keep", *(str(data_file(piece)) for piece in all_pieces))
    coverage(total, "json", "-q", "-o", str(FOLDER / "total.json"))
    return report(json.loads((FOLDER / "total.json").read_text())["files"])


if __name__ == "__main__":
    sys.exit(main())
