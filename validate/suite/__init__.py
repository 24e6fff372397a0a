"""`python -m validate cuda-suite`: other people's CUDA programs under `gpusim exec`, judged by what they say.

`listing.py` reads which programs there are, `trial.py` runs one, `command.py` runs a list and keeps what came out.
"""
