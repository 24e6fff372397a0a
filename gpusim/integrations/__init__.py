"""gpusim inside other people's tools: `pytest_plugin` (a suite that uses Numba CUDA, on a simulated GPU), `pytest_pin`
with `pin` (the fixture `gpusim_pin`: a kernel stays near what was measured).
"""
