"""CuPy as it is installed, on the simulated GPU: modules in the place of those of its extension modules that cannot
work with a driver other than the vendor's.

`gpusim.driver.when_imported` puts them there when Python imports CuPy. `runtime.py` is CuPy's wrapper of the runtime
API over the process's runtime library, `capi.py` the C interface through which CuPy's compiled modules call it,
`structures.py` its classes. The others do what the replaced modules do with kernels of their own.
"""
