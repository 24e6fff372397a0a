"""gpusim inside other people's tools: `pytest_pin` with `pin` (the fixture `gpusim_pin`: a kernel stays near what was
measured)."""
