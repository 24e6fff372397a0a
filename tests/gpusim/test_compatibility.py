"""Machine code runs on GPUs of its compute capability's major number, from its minor number up."""

import pytest

from gpusim.errors import LaunchError
from gpusim.launch.occupancy import check_architecture


@pytest.mark.parametrize(
    "program, gpu",
    [("sm_90", "sm_90"), ("sm_80", "sm_86"), ("sm_90a", "sm_90"), ("sm_100f", "sm_103"), ("sm_120", "sm_121")],
)
def test_code_that_runs(program, gpu):
    check_architecture(program, gpu, "kernel")


@pytest.mark.parametrize(
    "program, gpu",
    [("sm_86", "sm_80"), ("sm_80", "sm_90"), ("sm_100a", "sm_103"), ("sm_120", "sm_100"), ("sm_75", "sm_80")],
)
def test_code_that_does_not_run_is_refused_by_both_names(program, gpu):
    with pytest.raises(LaunchError, match=f"for {program}, which a GPU of {gpu} does not run.*gpu.arch={program}"):
        check_architecture(program, gpu, "kernel")
