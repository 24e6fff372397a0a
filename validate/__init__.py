"""The truth: run programs on a real GPU, read its counters, keep them as baselines, score the simulator."""
