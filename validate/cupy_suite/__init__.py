"""CuPy's own tests on the simulated GPU.

`inside.py` is the plugin of pytest that runs a folder's tests and writes down what came out, `command.py` starts it
folder by folder with a limit on each test, and counts.
"""
