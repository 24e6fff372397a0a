"""The management library over the simulated driver: what `libnvidia-ml.so.1` tells programs that look for a GPU.

It knows nothing of contexts. What is measured on a real one (power, temperature, use) is not simulated.
"""
