"""cuBLAS's libraries, and what they export: one list of names for both versions."""

from gpusim.driver.exports import Library, provide
from gpusim.driver.libraries.blas import (  # noqa: F401 - they declare the functions
    api_elements,
    api_gemm,
    api_handle,
    api_lt,
    api_vector,
)

for _version in (12, 13):
    for _name, _listed in (("libcublas", "symbols.txt"), ("libcublasLt", "symbols_lt.txt")):
        _soname = f"{_name}.so.{_version}"
        provide(Library(_soname, __package__, _version, versioned=True, listed=_listed))
