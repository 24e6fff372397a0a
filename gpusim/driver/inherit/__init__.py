"""A folder to put on the path of child processes; see `gpusim.driver.numba_cuda.environment`."""
