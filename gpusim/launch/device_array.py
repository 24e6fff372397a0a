"""An array that lives in device memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpusim.launch.memory import DeviceMemory, contiguous_strides


class DeviceArray:
    """An array in device memory: an address with a shape, a dtype and strides (bytes; None for C order).

    Does not own its memory: whoever allocated it frees it.
    """

    def __init__(
        self,
        memory: DeviceMemory,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ):
        self.memory, self.address, self.shape = memory, address, tuple(shape)
        self.dtype = np.dtype(dtype)
        self.strides = contiguous_strides(self.dtype.itemsize, self.shape) if strides is None else tuple(strides)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def host_view(self) -> np.ndarray:
        """The elements as a NumPy array over device memory itself. Raises MemoryAccessError if it has been freed."""
        return self.memory.array(self.address, self.dtype, self.shape, self.strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a DeviceArray without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(address={self.address:#x}, shape={self.shape}, dtype={self.dtype})"
