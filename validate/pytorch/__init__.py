"""PyTorch and Triton programs under `gpusim script`, each computing on the CPU and on the simulated GPU.

`command.py` runs them with a Python that has PyTorch; `compared.py` is what they share; every other file is a program.
"""
