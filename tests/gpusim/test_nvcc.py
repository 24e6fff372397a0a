"""The compiler that comes along: what it builds runs, with no CUDA toolkit on any path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusim.cli import main
from gpusim.exec import libraries
from tests.gpusim import cuda_program

SOURCE = r"""
#include <cstdio>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void add(int *out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int total = cg::reduce(warp, int(threadIdx.x), cg::plus<int>());
    if (warp.thread_rank() == 0) atomicAdd(out, total);
}
int main() {
    int *out, sum;
    cudaMalloc(&out, sizeof sum);
    cudaMemset(out, 0, sizeof sum);
    add<<<1, 64>>>(out);
    cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost);
    printf("%d\n", sum);
}
"""


@pytest.fixture
def bare(monkeypatch):
    """An environment as on a machine without a CUDA toolkit; the C++ compiler is the system's."""
    cuda_program.require_compiler()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_the_packages_alone_build_and_run(bare, tmp_path):
    (tmp_path / "add.cu").write_text(SOURCE)
    made = tmp_path / "add"
    words = ["nvcc", "-arch=sm_90", "-o", made, tmp_path / "add.cu", "-lcudart", "-lcublas"]
    command = [sys.executable, "-m", "gpusim.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=cuda_program.environment())
    assert (done.returncode, done.stderr) == (0, "")
    assert cuda_program.run(made).stdout == f"{sum(range(64))}\n"


def test_the_folder_is_a_toolkit(bare, capsys):
    assert main(["nvcc", "--home"]) == 0
    home = Path(capsys.readouterr().out.strip())
    headers = "include/cuda_runtime.h", "include/cccl/cub/cub.cuh"
    for path in ("bin/nvcc", *headers, "lib64/libcudart.so", "lib/libcuda.so"):
        assert (home / path).exists(), path
    assert os.path.samefile(home, libraries.toolkit_folder())


@pytest.mark.parametrize("chosen, linked", [([], "-lcudart"), (["--cudart=static"], "-lcudart_static")])
def test_builds_of_others_link_the_shared_runtime(bare, tmp_path, monkeypatch, chosen, linked):
    """A makefile and CMake call the folder's nvcc themselves, also where $CUDA_HOME names that folder already."""
    home = libraries.toolkit_folder()
    monkeypatch.setenv("CUDA_HOME", str(home))
    for nvcc in (home, libraries.toolkit_folder()):
        command = [nvcc / "bin" / "nvcc", *chosen, "--dryrun", "x.o", "-o", "x"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert linked in done.stderr.split(), done.stderr
        assert "warning" not in done.stderr


def test_a_missing_part_is_named(bare, tmp_path, monkeypatch):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch()
    monkeypatch.setattr(libraries, "find_tool", lambda name: str(nvcc))
    with pytest.raises(libraries.SimulationError, match=r"runtime's headers is not in .*pip install 'cuda-toolkit\["):
        libraries.toolkit_folder()


def test_the_status_is_nvccs(bare, tmp_path):
    assert main(["nvcc", str(tmp_path / "missing.cu")]) != 0
