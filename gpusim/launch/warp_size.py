"""What warps of 16 and of 64 lanes cannot run, since code is compiled for 32; docs/warp_size.md says what they mean."""

from __future__ import annotations

import numpy as np

from gpusim.config import GPUConfig
from gpusim.config.lanes import ROW
from gpusim.errors import LaunchError
from isa import Program
from isa import microops as M

#: Operations on fragments of matrices that are spread over 32 lanes.
_MATRIX_OPERATIONS = (M.OP_GMMA, M.OP_LDSM, M.OP_STSM)


def check_warp_size(config: GPUConfig, program: Program, code: np.ndarray, traced: bool) -> None:
    """Raise LaunchError if a warp of this size cannot run the program, or not as asked.

    code: its lowered rows, int32 [instructions, COLUMNS]. traced: a trace is wanted.
    """
    size = config.gpu.warp_size
    if size < ROW:
        matrix = (code[:, M.COL_CLASS] == M.CLS_TENSOR) | np.isin(code[:, M.COL_OP], _MATRIX_OPERATIONS)
        if matrix.any():
            found = program.instructions[int(np.argmax(matrix))]
            place = f" (line {found.line} of {found.file})" if found.file else ""
            words = f"{found.mnemonic} at 0x{found.address:x}{place} works on matrices that are spread over 32 lanes"
            raise LaunchError(f"{words}, which a warp of {size} (gpu.warp_size) does not have", kernel=program.name)
    if size > ROW and traced:
        raise LaunchError(f"traces show warps of up to 32 lanes, not of {size} (gpu.warp_size)", kernel=program.name)
