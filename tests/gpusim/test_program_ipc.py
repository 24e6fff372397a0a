"""Memory and events that the processes of a program share."""

from __future__ import annotations

import pytest

from tests.gpusim.cuda_program import DATA, build, run

FIRST = """\
own memory: cudaErrorDeviceUninitialized
own event: cudaErrorDeviceUninitialized
event with times: cudaErrorInvalidResourceHandle
memory of the host: cudaErrorInvalidValue
query: cudaSuccess
wrong: 0
"""
OTHER = """\
opened: type 2 on GPU 0, the same again
free: cudaErrorInvalidValue
freed memory: cudaErrorInvalidResourceHandle
close: cudaSuccess
close: cudaSuccess
close: cudaErrorInvalidValue
closed memory: cudaErrorIllegalAddress
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(DATA / "ipc.cu", tmp_path_factory.mktemp("ipc") / "ipc")


@pytest.mark.parametrize("mode", ["functional", "detailed"])
def test_what_one_process_allocates_another_uses(program, mode):
    done = run(program, options=("--gpus", "2", "--mode", mode, "--no-report"))
    lines = done.stdout.splitlines(keepends=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for expected in (FIRST, OTHER):
        assert "".join(line for line in lines if line in expected) == expected
    assert len(lines) == len((FIRST + OTHER).splitlines())


def test_nothing_is_shared_where_each_process_has_a_gpu_of_its_own(program):
    done = run(program, "refused")
    assert "cudaIpcGetMemHandle(&told.memory, x + 5): cudaErrorNotSupported" in done.stdout
    assert "gpusim: cuIpcGetMemHandle is not supported: where a program has several GPUs" in done.stderr
