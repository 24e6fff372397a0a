"""A folder for the path of Python programs under `gpusim exec`."""
