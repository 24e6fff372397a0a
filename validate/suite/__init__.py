"""Other people's CUDA programs under `gpusim exec`, judged by what they say of themselves.

`listing.py` reads which programs there are, `trial.py` runs one, `command.py` runs a list and keeps what came out.
"""
