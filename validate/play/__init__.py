"""The experiments of `gpusim lab` on a real GPU: `measure` records them, `compare` sets the
simulator beside."""
