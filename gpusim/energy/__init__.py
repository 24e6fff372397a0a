"""Joules of a launch, predicted from what it counts: `Result.energy`."""
