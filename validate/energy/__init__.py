"""Energy: what a GPU's board takes for one thing at a time, and for the bundled programs, measured and predicted."""
