"""gpusim inside other people's tools: `pytest_plugin` (a suite that uses Numba CUDA, on a simulated GPU) and
`widget` (the HTML report in a notebook)."""
