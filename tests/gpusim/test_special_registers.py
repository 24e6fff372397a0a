"""What a kernel reads about its launch: special registers, and launch values in constant bank 0."""

import numpy as np
import pytest

import gpusim
from isa.compile import assemble
from isa.listing import program_from_cubin

_REGISTERS = {
    "ntid.x": 33,
    "ntid.y": 2,
    "ntid.z": 1,
    "nctaid.x": 3,
    "nctaid.y": 2,
    "nctaid.z": 1,
    "dynamic_smem_size": 100,
    "total_smem_size": 256,  # 128 static and 100 dynamic bytes in whole units of allocation, says the PTX ISA
    "nsmid": 132,
}
# Hopper code asks the hardware for it, in earlier code it is a constant of the compiler's.
_WARPS = {"sm_90": 64, "sm_86": 48, "sm_75": 32}


@pytest.mark.parametrize("arch", ["sm_90", "sm_86", "sm_75"])
def test_launch_values(arch):
    """Every architecture reads the launch's values from other places; sizes are those of this launch."""
    reads = "\n".join(
        f"mov.u32 v, %{name}; st.global.u32 [p + {4 * k}], v;" for k, name in enumerate([*_REGISTERS, "nwarpid"])
    )
    program = program_from_cubin(
        assemble(
            f".version 8.7\n.target {arch}\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n"
            ".reg .u64 p; .reg .u32 v; .shared .align 4 .u32 kept[32];\n"
            "ld.param.u64 p, [a];\nmov.u32 v, %tid.x; st.shared.u32 [kept], v;\n" + reads + "\nret; }",
            arch,
        )
    )
    values = np.zeros(len(_REGISTERS) + 1, np.uint32)
    gpusim.simulate(program, (3, 2), (33, 2), (values,), shared_bytes=100, overrides=[f"gpu.arch={arch}"])
    assert values.tolist() == [*_REGISTERS.values(), _WARPS[arch]]
